"""The ledger of acknowledged images."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from pipeline.dicom.ledger import FileLedger, _entries, read_ledger
from pipeline.errors import StorageFull
from tests.unit.dicom.headers import header


@pytest.fixture
def ledger(tmp_path: Path) -> FileLedger:
    return FileLedger(tmp_path / "ledger", "listener")


def uids(folder: Path) -> list[str]:
    return [entry.sop_uid for entry in read_ledger(folder)]


def test_what_was_appended_is_read(ledger: FileLedger, tmp_path: Path) -> None:
    ledger.append([header("1.2.1")])
    ledger.append([header("1.2.2")])
    ledger.close()
    entries = read_ledger(tmp_path / "ledger")
    assert [e.sop_uid for e in entries] == ["1.2.1", "1.2.2"]
    assert (entries[0].sha256, entries[0].size_bytes, entries[0].path) == ("ab" * 32, 10, "objects/ab/ab/x.dcm")


def test_no_ledger_holds_nothing(tmp_path: Path) -> None:
    assert read_ledger(tmp_path / "none") == ()


def test_names_of_files_hold_listener_and_day_only(ledger: FileLedger, tmp_path: Path) -> None:
    ledger.append([header()])
    ledger.close()
    (file,) = (tmp_path / "ledger").iterdir()
    assert file.name == f"listener-{datetime.now(UTC):%Y-%m-%d}.jsonl"


def test_each_day_has_its_file(tmp_path: Path) -> None:
    now = datetime(2026, 11, 30, 23, 59, tzinfo=UTC)
    days = iter((now, now, now + timedelta(minutes=2)))
    ledger = FileLedger(tmp_path, "a", lambda: next(days))
    for number in range(3):
        ledger.append([header(f"1.2.{number}")])
    ledger.close()
    assert [p.name for p in sorted(tmp_path.iterdir())] == ["a-2026-11-30.jsonl", "a-2026-12-01.jsonl"]
    assert len(read_ledger(tmp_path)) == 3


def test_a_torn_last_line_is_left_out_and_the_next_append_starts_a_line_of_its_own(ledger: FileLedger, tmp_path: Path) -> None:
    ledger.append([header("1.2.1")])
    ledger.close()
    (file,) = (tmp_path / "ledger").iterdir()
    with file.open("ab") as torn:
        torn.write(b'{"sop_uid": "1.2.9", "sha')
    assert uids(tmp_path / "ledger") == ["1.2.1"]
    again = FileLedger(tmp_path / "ledger", "listener")
    again.append([header("1.2.2")])
    again.close()
    assert uids(tmp_path / "ledger") == ["1.2.1", "1.2.2"]


def test_a_line_is_written_when_append_returns_and_synced_soon_after(ledger: FileLedger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced = threading.Event()
    really = os.fsync

    def fsync(descriptor: int) -> None:
        really(descriptor)
        if os.readlink(f"/proc/self/fd/{descriptor}").endswith(".jsonl"):
            synced.set()

    monkeypatch.setattr(os, "fsync", fsync)
    ledger.append([header("1.2.7")])
    assert uids(tmp_path / "ledger") == ["1.2.7"]
    assert synced.wait(10.0)
    ledger.close()


def test_a_file_that_cannot_be_synced_is_told_and_opened_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    ledger = FileLedger(tmp_path, "listener", fsync=False)  # no thread that syncs
    ledger.append([header("1.2.1")])
    with capture_logs() as lines, monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        ledger.sync()
    ledger.append([header("1.2.2"), header("1.2.3")])
    ledger.close()
    assert uids(tmp_path) == ["1.2.1", "1.2.2", "1.2.3"]
    assert [line["event"] for line in lines] == ["ledger_not_synced"]


def test_a_disk_fault_is_storage_full_and_the_next_append_works(ledger: FileLedger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> int:
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", fail)
        with pytest.raises(StorageFull):
            ledger.append([header("1.2.1")])
    ledger.append([header("1.2.2")])
    ledger.close()
    assert uids(tmp_path / "ledger")[-1] == "1.2.2"


@pytest.mark.parametrize("broken", ["write", "fsync"])
def test_a_fault_with_a_close_that_fails_too_closes_no_other_file_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    ledger = FileLedger(tmp_path / "ledger", "listener", fsync=False)  # no thread that syncs meanwhile
    ledger.append([header("1.2.1")])
    with monkeypatch.context() as patch:
        patch.setattr(os, broken, after(getattr(os, broken)))
        patch.setattr(os, "close", after(os.close))
        if broken == "fsync":
            ledger.sync()
        else:
            with pytest.raises(StorageFull):
                ledger.append([header("1.2.2")])
    with (tmp_path / "another").open("wb") as other:  # takes the number that became free
        ledger.append([header("1.2.3")])
        ledger.close()
        other.write(b"still open")
        other.flush()
    assert uids(tmp_path / "ledger")[-1] == "1.2.3"


def after(really: Callable[..., object]) -> Callable[..., None]:
    """A call that does its work and then tells of a fault."""

    def fail(*arguments: object) -> None:
        really(*arguments)
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    return fail


@pytest.mark.parametrize("broken", ["fsync", "close"])
def test_an_end_that_fails_closes_no_other_file_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    """Network file systems tell of a full quota at fsync or close; the descriptor is gone after either."""
    ledger = FileLedger(tmp_path / "ledger", "listener", fsync=False)  # no thread that syncs meanwhile
    ledger.append([header("1.2.1")])
    with monkeypatch.context() as patch:
        patch.setattr(os, broken, after(getattr(os, broken)))
        with pytest.raises(OSError, match=os.strerror(errno.EDQUOT)):
            ledger.close()
    with (tmp_path / "another").open("wb") as other:  # takes the number that became free
        ledger.close()
        other.write(b"still open")
        other.flush()
    ledger.append([header("1.2.2")])
    ledger.close()
    assert uids(tmp_path / "ledger") == ["1.2.1", "1.2.2"]


def test_many_threads_lose_no_line(ledger: FileLedger, tmp_path: Path) -> None:
    def work(thread: int) -> None:
        for number in range(20):
            ledger.append([header(f"1.2.{thread}.{number}")])

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ledger.close()
    assert len(set(uids(tmp_path / "ledger"))) == 160


@given(st.binary(max_size=200))
def test_no_bytes_break_the_reader(data: bytes) -> None:
    assert all(entry.sop_uid for entry in _entries(data) if entry.sop_uid)
