"""The archive on disk."""

from __future__ import annotations

import errno
import hashlib
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.dicom.archive import ROOM_EVERY_BYTES, SMALL_BYTES, SPOOL_BYTES, FileArchive, hash_file
from pipeline.errors import BadInput, StorageFull
from pipeline.model import Stored

DATA = b"some bytes" * 1000


@pytest.fixture
def archive(tmp_path: Path) -> FileArchive:
    return FileArchive(tmp_path / "archive", 0)


def put(archive: FileArchive, data: bytes = DATA) -> tuple[str, bool]:
    incoming = archive.open()
    incoming.write(data[:7])
    incoming.write(data[7:])
    stored = incoming.commit()
    archive.settle([stored])
    assert stored.size_bytes == len(data)
    return stored.path, stored.fresh


def test_a_file_stands_whole_under_its_hash(archive: FileArchive, tmp_path: Path) -> None:
    path, fresh = put(archive)
    digest = hashlib.sha256(DATA).hexdigest()
    assert (path, fresh) == (f"objects/{digest[:2]}/{digest}.dcm", True)
    assert archive.path(path).read_bytes() == DATA
    assert list((tmp_path / "archive" / "incoming").iterdir()) == []


def test_the_same_bytes_again_are_not_fresh_and_leave_no_second_file(archive: FileArchive, tmp_path: Path) -> None:
    assert [put(archive)[1], put(archive)[1]] == [True, False]
    assert len(list((tmp_path / "archive").rglob("*.*"))) == 1


def test_a_file_that_rotted_is_healed_by_sending_it_again(archive: FileArchive) -> None:
    path, _ = put(archive)
    archive.path(path).write_bytes(b"rotten")
    assert put(archive) == (path, True)
    assert archive.path(path).read_bytes() == DATA


def test_a_discarded_file_leaves_nothing(archive: FileArchive, tmp_path: Path) -> None:
    incoming = archive.open()
    incoming.write(DATA)
    incoming.discard()
    incoming.discard()
    assert [p for p in (tmp_path / "archive").rglob("*") if p.is_file()] == []
    with pytest.raises(BadInput):
        incoming.commit()


def test_bytes_and_name_are_synced_before_settle_returns(archive: FileArchive, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.readlink(f"/proc/self/fd/{fd}")))
    path, _ = put(archive)
    final = archive.path(path)
    assert any(name.endswith(".part") for name in synced)
    assert synced[-1] == str(final.parent)
    assert {str(final.parents[1]), str(final.parents[2])} <= set(synced)


def test_without_fsync_nothing_is_synced_but_the_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = FileArchive(tmp_path / "archive", 0, fsync=False)
    put(archive)
    monkeypatch.setattr(os, "fsync", lambda fd: pytest.fail("synced"))
    assert archive.path(put(archive)[0]).read_bytes() == DATA


def test_a_large_file_is_on_disk_while_it_arrives_and_a_small_one_is_not(archive: FileArchive, tmp_path: Path) -> None:
    incoming = archive.open()
    incoming.write(DATA)
    assert not list((tmp_path / "archive").rglob("*.part"))
    for _ in range(3):
        incoming.write(memoryview(bytes(SPOOL_BYTES)))
    (part,) = (tmp_path / "archive" / "incoming").iterdir()
    assert part.stat().st_size >= 2 * SPOOL_BYTES
    stored = incoming.commit()
    assert (stored.size_bytes, stored.sha256) == (len(DATA) + 3 * SPOOL_BYTES, hashlib.sha256(DATA + bytes(3 * SPOOL_BYTES)).hexdigest())
    assert hash_file(archive.path(stored.path)) == stored.sha256


def test_a_large_file_stops_when_the_disk_falls_below_its_floor(archive: FileArchive, monkeypatch: pytest.MonkeyPatch) -> None:
    incoming = archive.open()
    monkeypatch.setattr(archive, "has_room", lambda: False)
    for _ in range(ROOM_EVERY_BYTES // SPOOL_BYTES):
        incoming.write(bytes(SPOOL_BYTES))
    with pytest.raises(StorageFull):
        incoming.write(bytes(2 * SPOOL_BYTES))
    incoming.discard()


def test_a_disk_that_takes_a_part_of_the_bytes_at_a_time_gets_them_all(archive: FileArchive, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    monkeypatch.setattr(os, "writev", lambda fd, parts: real(fd, parts[0][:3]))
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, bytes(data)[:1000]))
    assert archive.path(put(archive)[0]).read_bytes() == DATA


@pytest.mark.parametrize("floor", [(1 << 62, 0.0), (0, 99.999)])
def test_below_the_floor_nothing_is_opened(tmp_path: Path, floor: tuple[int, float]) -> None:
    full = FileArchive(tmp_path, *floor)
    assert not full.has_room()
    with pytest.raises(StorageFull):
        full.open()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EROFS])
def test_a_disk_fault_is_storage_full_and_leaves_no_final_name(archive: FileArchive, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    incoming = archive.open()
    incoming.write(DATA)

    def fail(_: int) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(StorageFull):
            incoming.commit()
    incoming.discard()
    root = archive.path("objects").parent
    assert [p for p in root.rglob("*") if p.is_file()] == []


def quarantine(archive: FileArchive) -> Stored:
    incoming = archive.open()
    incoming.write(DATA)
    return incoming.quarantine("no header")


def test_quarantine_keeps_bytes_apart_with_the_reason(archive: FileArchive) -> None:
    stored = quarantine(archive)
    assert quarantine(archive).fresh is False
    assert stored.path.startswith("quarantine/")
    assert hash_file(archive.path(stored.path)) == stored.sha256
    assert archive.path(stored.path).with_suffix(".txt").read_text() == "no header\n"


def test_what_the_database_refused_after_it_was_filed_is_quarantined_too(archive: FileArchive) -> None:
    incoming = archive.open()
    incoming.write(DATA)
    filed = incoming.commit()
    stored = incoming.quarantine("a value is out of range")
    assert archive.path(stored.path).read_bytes() == DATA == archive.path(filed.path).read_bytes()


def test_sweep_removes_leftovers_and_spares_files_under_way(archive: FileArchive) -> None:
    living = archive.open()
    living.write(bytes(2 * SPOOL_BYTES))
    leftover = archive.path("incoming/crashed.part")
    leftover.write_bytes(b"half")
    assert archive.sweep() == 1
    assert not leftover.exists()
    living.write(DATA)
    assert living.commit().fresh


class LateQuota:
    """os.close on a file system that tells at close that the quota is used up; the descriptor is gone all the same. Only the first call fails."""

    def __init__(self) -> None:
        self._close, self.calls = os.close, 0

    def __call__(self, descriptor: int) -> None:
        self._close(descriptor)
        self.calls += 1
        if self.calls == 1:
            raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))


def test_a_close_that_fails_closes_no_other_file_later(archive: FileArchive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    incoming = archive.open()
    incoming.write(bytes(2 * SPOOL_BYTES))
    closing = LateQuota()
    with monkeypatch.context() as patch:
        patch.setattr(os, "close", closing)
        incoming.discard()
    assert closing.calls == 1
    with (tmp_path / "another").open("wb") as other:  # takes the number that became free
        incoming.discard()
        other.write(b"still open")
        other.flush()


def test_what_was_synced_before_a_close_that_fails_is_filed(archive: FileArchive, monkeypatch: pytest.MonkeyPatch) -> None:
    incoming = archive.open()
    incoming.write(bytes(2 * SPOOL_BYTES))
    archive.prepare()  # no folder is to be made, so the first close is the file's
    closing = LateQuota()
    with monkeypatch.context() as patch:
        patch.setattr(os, "close", closing)
        stored = incoming.commit()
    assert closing.calls == 1
    assert hash_file(archive.path(stored.path)) == stored.sha256


def test_small_fragments_are_put_together_and_large_ones_are_not_copied(archive: FileArchive) -> None:
    incoming = archive.open()
    parts = [b"a", b"", b"bc", bytes(SMALL_BYTES), b"d", b"e", bytes(SMALL_BYTES)]
    for part in [*parts, *[b"f"] * 5_000]:
        incoming.write(part)
    assert len(incoming._parts) <= 7
    assert incoming._parts[1] is parts[3]
    assert archive.path(incoming.commit().path).read_bytes() == b"".join(parts) + b"f" * 5_000


def test_prepare_makes_every_folder_of_the_objects(archive: FileArchive) -> None:
    archive.prepare()
    archive.prepare()
    assert len(list(archive.path("objects").iterdir())) == 256


def test_sweep_of_a_new_archive_finds_nothing(archive: FileArchive) -> None:
    assert archive.sweep() == 0


@pytest.mark.parametrize("relative", ["../x", "/etc/passwd", "objects/../../x", "", ".", "a\x00b"])
def test_paths_that_leave_the_archive_are_refused(archive: FileArchive, relative: str) -> None:
    with pytest.raises(BadInput):
        archive.path(relative)


@given(st.text(max_size=40))
def test_no_path_ever_leaves_the_archive(relative: str) -> None:
    root = Path("/srv/archive")
    try:
        found = FileArchive(root, 0).path(relative)
    except BadInput:
        return
    assert root in found.parents


def test_features_stand_where_encoder_and_files_say_in_a_folder_that_exists(archive: FileArchive) -> None:
    paths = {archive.features_path(identity, source) for identity in ("compact/1/a", "compact/2/a") for source in ("ab" * 32, "cd" * 32)}
    assert len(paths) == 4
    assert all(archive.path(relative).parent.is_dir() for relative in paths)
    assert archive.features_path("compact/1/a", "ab" * 32) in paths
