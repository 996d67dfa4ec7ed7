import os
import shutil
from collections import namedtuple
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from pipeline.errors import ServiceUnavailable, StorageFull
from pipeline.evaluation import receive, receive_load
from pipeline.evaluation.receive import Trial, loads, require_room, run, too_large, trials
from pipeline.evaluation.receive_load import Load, Sent
from pipeline.evaluation.receive_peers import Receiver

SMALL = Load("small", 1, 2, True, 2)
Usage = namedtuple("Usage", "total used free")


@dataclass
class Memory:
    """A receiver that is this very process and remembers what happened to it."""

    losing: str = ""
    port: int = 104
    pid: int = field(default_factory=os.getpid)
    database_pids: tuple[int, ...] = ()
    stopped: bool = False

    def stop(self) -> None:
        self.stopped = True

    def lost(self, files: Sequence[Path]) -> str:
        assert self.stopped, "it is asked what it has after it was stopped"
        assert len(files) == SMALL.images + 1  # one to warm up
        return self.losing


@dataclass(frozen=True)
class Fake:
    what: str
    losing: str = ""
    broken: bool = False
    receiver_tcp_nodelay: bool | None = None
    folders: list[Path] = field(default_factory=list)

    def absent(self) -> str:
        return ""

    @contextmanager
    def running(self, folder: Path) -> Iterator[Receiver]:
        assert not list(folder.iterdir())
        self.folders.append(folder)
        if self.broken:
            raise ServiceUnavailable("does not listen")
        yield Memory(self.losing)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, bool]]:
    """(images, TCP_NODELAY) of each load that was sent; nothing goes over a network."""
    calls: list[tuple[int, bool]] = []

    def send(shares: Sequence[Sequence[Path]], port: int, folder: Path, nodelay: bool) -> Sent:
        calls.append((sum(map(len, shares)), nodelay))
        return Sent(0.5, sum(map(len, shares)))

    monkeypatch.setattr(receive_load, "send", send)
    monkeypatch.setattr(receive, "SETTLE_S", 0.0)
    return calls


def quiet(share: float, line: str) -> None:
    assert 0 <= share < 1


def test_contenders_take_turns(tmp_path: Path, sent: list[tuple[int, bool]]) -> None:
    taken = list(run([Trial(SMALL, (Fake("a"), Fake("b")))], tmp_path, quiet))
    assert [(one.what, one.round) for one in taken] == [("a", 0), ("b", 0), ("a", 1), ("b", 1)]
    assert all(one.images_per_s == 4 and not one.failed for one in taken)
    assert sent == [(1, True), (2, True)] * 4


def test_each_measurement_begins_with_an_empty_folder_and_leaves_none(tmp_path: Path, sent: list[tuple[int, bool]]) -> None:
    fake = Fake("a")
    list(run([Trial(SMALL, (fake,))], tmp_path, quiet))
    assert len(fake.folders) == 2
    assert not any(folder.exists() for folder in fake.folders)


def test_a_receiver_that_lost_an_image_has_no_figures(tmp_path: Path, sent: list[tuple[int, bool]]) -> None:
    (one, _) = run([Trial(SMALL, (Fake("a", losing="1 image is missing"),))], tmp_path, quiet)
    assert one.failed == "1 image is missing"
    assert one.images_per_s == 0


def test_an_image_without_success_counts_as_a_failure(tmp_path: Path, sent: list[tuple[int, bool]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receive_load, "send", lambda *_: Sent(1.0, 1))
    (one, _) = run([Trial(SMALL, (Fake("a"),))], tmp_path, quiet)
    assert one.failed == "2 images were sent, 1 answered with Success"


def test_one_that_does_not_come_up_does_not_stop_the_others(tmp_path: Path, sent: list[tuple[int, bool]]) -> None:
    taken = list(run([Trial(SMALL, (Fake("a", broken=True), Fake("b")))], tmp_path, quiet))
    assert [(one.what, one.failed) for one in taken[:2]] == [("a", "does not listen"), ("b", "")]
    assert not (tmp_path / "round").exists()


def test_an_interrupt_leaves_no_round_behind(tmp_path: Path, sent: list[tuple[int, bool]], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> Sent:
        raise KeyboardInterrupt

    monkeypatch.setattr(receive_load, "send", interrupted)
    with pytest.raises(KeyboardInterrupt):
        list(run([Trial(SMALL, (Fake("a"),))], tmp_path, quiet))
    assert not (tmp_path / "round").exists()


def test_the_disk_is_asked_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(10**12, 0, 3 << 30))
    require_room(tmp_path, [SMALL])
    with pytest.raises(StorageFull, match="3072 MiB free"):
        require_room(tmp_path, [Load("large", 8, 8, True, 1)])


def test_default_senders_meet_peers_as_shipped_and_tuned() -> None:
    ours, tuned, shipped = Fake("ctreport"), Fake("orthanc", receiver_tcp_nodelay=True), Fake("orthanc", receiver_tcp_nodelay=False)
    nodelay, default = trials([Load("small", 1, 2, True, 1), Load("small", 1, 2, False, 1)], [ours], [tuned], [shipped])
    assert nodelay.contenders == (ours, tuned)
    assert default.contenders == (ours, shipped, tuned)


def test_a_full_run_has_every_load_that_the_issue_asks_for_and_a_short_one_small_objects_only() -> None:
    full = {(load.object, load.associations, load.sender_tcp_nodelay) for load in loads(short=False)}
    assert full >= {("small", n, nodelay) for n in (1, 4, 8) for nodelay in (True, False)}
    assert full >= {("large", 1, True), ("large", 4, True), ("large", 8, True), ("1GB", 1, True)}
    assert {load.object for load in loads(short=True)} == {"small"}


def test_a_load_that_would_fill_the_memory_is_known_before() -> None:
    eight = Load("large", 8, 8, True, 1)
    assert too_large(eight, 6 << 30)
    assert not too_large(eight, 16 << 30)
    assert not too_large(Load("small", 8, 10_000, True, 1), 1 << 30)
