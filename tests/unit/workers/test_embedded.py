"""Restarts with growing pauses, on a clock that the test turns; and what stack.json says."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from pipeline.errors import ServiceUnavailable
from workers.embedded.info import StackInfo, read_stack, write_stack
from workers.embedded.processes import start_ticks
from workers.embedded.watch import LONGEST_DELAY_S, ROTATE_BYTES, STABLE_S, Watched, delay_s, rotated


@dataclass
class Part:
    """A part that a test kills and revives."""

    name: str = "part"
    pid: int | None = 1
    up: bool = True
    starts: int = 0
    broken: bool = False

    def alive(self) -> bool:
        return self.up

    def start(self) -> None:
        self.starts += 1
        if self.broken:
            raise ServiceUnavailable("part does not come up")
        self.up = True


def test_a_dead_part_is_started_again_after_its_pause_and_not_before() -> None:
    part = Part(up=False)
    watched = Watched(part, now=0.0)
    assert watched.tick(10.0)
    assert not watched.tick(10.4)
    assert watched.tick(10.5)
    assert (part.starts, watched.restarts) == (1, 1)
    assert not watched.tick(10.6)


def test_pauses_grow_up_to_half_a_minute_and_start_over_after_a_stable_minute() -> None:
    assert [delay_s(failures) for failures in range(8)] == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, LONGEST_DELAY_S, LONGEST_DELAY_S]
    assert delay_s(10_000) == LONGEST_DELAY_S
    part = Part(up=False, broken=True)
    watched = Watched(part, now=0.0)
    watched.tick(0.0)
    assert [watched.tick(now) for now in (0.5, 1.4, 1.5, 3.4, 3.5)] == [True, False, True, False, True]
    part.broken = False
    assert watched.tick(7.5)
    assert not watched.tick(7.5 + STABLE_S + 1)
    part.up = False
    watched.tick(100.0)
    assert watched.tick(100.5)


def test_stack_json_of_a_launcher_that_died_counts_as_no_stack(tmp_path: Path) -> None:
    ticks = start_ticks(os.getpid()) or 0
    info = StackInfo(os.getpid(), ticks, tmp_path, "postgresql://app:secret@x/y", "redis://:secret@x/0", True, {"postgres": 1})
    write_stack(info)
    assert read_stack(tmp_path) == info
    assert "secret" not in repr(info)
    write_stack(StackInfo(os.getpid(), ticks + 1, tmp_path, "", "", True, {}))
    assert read_stack(tmp_path) is None


def test_an_unreadable_stack_json_is_named(tmp_path: Path) -> None:
    (tmp_path / "stack.json").write_text("{", encoding="utf-8")
    with pytest.raises(ServiceUnavailable, match=r"stack\.json cannot be read"):
        read_stack(tmp_path)


def test_a_log_is_moved_aside_only_when_it_has_grown_past_ten_mebibytes(tmp_path: Path) -> None:
    log_file = tmp_path / "worker.log"
    log_file.write_bytes(b"x" * ROTATE_BYTES)
    assert rotated(log_file).exists()
    log_file.write_bytes(b"x" * (ROTATE_BYTES + 1))
    assert not rotated(log_file).exists()
    assert (tmp_path / "worker.log.1").stat().st_size == ROTATE_BYTES + 1
