"""The archive on an object store: a real S3 server on loopback, and machines that have a folder each."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from pipeline.dicom.archive import IncomingFile
from pipeline.dicom.bucket import s3_bucket
from pipeline.dicom.ledger import Entry
from pipeline.dicom.object_archive import ObjectArchive
from pipeline.dicom.verify import compare
from pipeline.errors import BadInput, ServiceUnavailable, StorageFull
from pipeline.model import Stored
from pipeline.settings import ArchiveSettings
from tests.s3 import S3, s3_server

DATA = b"DICM" + bytes(range(256)) * 20
FEATURES = ("compact/1/p", "ab" * 32)


@pytest.fixture(scope="module")
def s3() -> Iterator[S3]:
    with s3_server() as server:
        yield server


@pytest.fixture
def one(s3: S3, tmp_path: Path) -> ObjectArchive:
    return s3.archive(tmp_path / "one")


@pytest.fixture
def other(s3: S3, tmp_path: Path) -> ObjectArchive:
    return s3.archive(tmp_path / "other")


def put(archive: ObjectArchive, data: bytes) -> Stored:
    incoming = archive.open()
    incoming.write(data)
    incoming.seal()
    stored = incoming.commit()
    archive.settle([stored])
    return stored


def spoil(s3: S3, relative: str, data: bytes) -> None:
    s3.bucket()._connected().fs.pipe_file(f"images/site/{relative}", data)


def test_what_one_machine_has_acknowledged_another_reads_bit_for_bit(one: ObjectArchive, other: ObjectArchive) -> None:
    stored = put(one, DATA)
    assert other.path(stored.path).read_bytes() == DATA
    assert other.sha256(stored.path) == sha256(DATA).hexdigest() == stored.sha256
    assert stored.path in other.names()
    assert put(other, DATA) == Stored(stored.path, stored.sha256, len(DATA), fresh=False)


def test_several_come_side_by_side_in_their_order(one: ObjectArchive, other: ObjectArchive, tmp_path: Path) -> None:
    stored = [put(one, DATA + bytes([number])) for number in range(20)]
    relatives = [each.path for each in stored]
    assert [path.read_bytes()[-1] for path in other.paths(relatives)] == list(range(20))
    assert other.paths(relatives) == [tmp_path / "other" / relative for relative in relatives]
    assert not list(tmp_path.rglob("*.part"))


def test_a_copy_that_is_gone_is_fetched_again_and_one_that_is_nowhere_is_absent(one: ObjectArchive) -> None:
    stored = put(one, DATA)
    one.path(stored.path).unlink()
    assert one.path(stored.path).read_bytes() == DATA
    assert not one.path("objects/00/none.dcm").exists()
    assert one.sha256("objects/00/none.dcm") is None


def test_an_object_that_rotted_is_refused_told_by_verify_and_healed_by_sending_it_again(s3: S3, one: ObjectArchive, other: ObjectArchive) -> None:
    stored = put(one, DATA + b"rot")
    spoil(s3, stored.path, b"DICM rotten")
    with pytest.raises(BadInput, match="other bytes than its name says"):
        other.path(stored.path)
    entry = Entry("1.2.3", stored.sha256, stored.size_bytes, stored.path, "2026-11-30T00:00:00+00:00")
    assert [difference.path for difference in compare([entry], [], one).changed] == [stored.path]
    put(other, DATA + b"rot")
    assert other.path(stored.path).read_bytes() == DATA + b"rot"
    assert not compare([entry], [], one).changed


def test_features_are_seen_by_others_once_they_are_published_and_never_out_of_date(one: ObjectArchive, other: ObjectArchive) -> None:
    relative = one.features_path(*FEATURES)
    one.path(relative).write_bytes(b"first")
    assert not other.path(relative).exists()
    one.publish(relative)
    assert other.path(relative).read_bytes() == b"first"
    one.path(relative).write_bytes(b"second")
    one.publish(relative)
    assert other.path(relative).read_bytes() == b"second"


def test_a_quarantined_file_and_its_reason_are_in_the_store(s3: S3, one: ObjectArchive, other: ObjectArchive) -> None:
    incoming = one.open()
    incoming.write(b"no DICOM")
    stored = incoming.quarantine("no header")
    assert other.path(stored.path).read_bytes() == b"no DICOM"
    assert other.path(str(Path(stored.path).with_suffix(".txt"))).read_text(encoding="utf-8") == "no header\n"
    assert stored.path not in one.names()


def test_a_store_that_is_away_refuses_images_keeps_no_promise_and_goes_on_when_it_is_back(tmp_path: Path) -> None:
    with s3_server() as server:
        archive = server.archive(tmp_path / "here")
        put(archive, DATA)
        server.stop()
        with pytest.raises(StorageFull, match="object store cannot be written to"):
            put(archive, DATA + b"2")
        with pytest.raises(ServiceUnavailable, match="object store cannot be read"):
            archive.path("objects/00/none.dcm")
        assert "cannot be reached" in (archive.refusal() or "")
        server.start()
        stored = put(archive, DATA + b"2")
        assert archive.sha256(stored.path) == stored.sha256
        assert archive.refusal() is None


def test_an_account_that_may_not_write_is_a_sentence_without_its_secret(s3: S3, tmp_path: Path) -> None:
    bucket = s3.bucket(url="s3://nobodys-bucket/site")
    (tmp_path / "file").write_bytes(b"x")
    with pytest.raises(ServiceUnavailable, match="may read and write there") as told:
        bucket.put(tmp_path / "file", "objects/aa/file.dcm")
    assert "secret" not in str(told.value)


def test_a_process_that_was_forked_connects_anew(one: ObjectArchive) -> None:
    stored = put(one, DATA)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of threads; the listener forks before it has any
        child = os.fork()
    if child == 0:
        os._exit(0 if one.sha256(stored.path) == stored.sha256 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert one.sha256(stored.path) == stored.sha256


def test_a_folder_of_copies_stays_within_its_limit(s3: S3, tmp_path: Path) -> None:
    archive = s3.archive(tmp_path / "small", cache_bytes=len(DATA) * 3)
    stored = [put(archive, DATA + bytes([number])) for number in range(8)]
    for each in stored:
        os.utime(archive.path(each.path), (1, 1))
    archive.sweep()
    assert len(list((tmp_path / "small" / "objects").rglob("*.dcm"))) == 2
    assert all(archive.sha256(each.path) == each.sha256 for each in stored)


def test_a_large_object_goes_in_parts_and_stays_whole(one: ObjectArchive, other: ObjectArchive) -> None:
    incoming, block = one.open(), os.urandom(1 << 20)
    for number in range(11):
        incoming.write(number.to_bytes(4, "big") + block)
    stored = incoming.commit()
    assert other.path(stored.path).stat().st_size == stored.size_bytes == 11 * (4 + len(block))
    assert other.sha256(stored.path) == stored.sha256


@pytest.mark.parametrize("url", ["s3://", "https://bucket"])
def test_an_address_that_names_no_bucket_is_refused(url: str) -> None:
    with pytest.raises(BadInput, match="names no bucket"):
        s3_bucket(url, ArchiveSettings())


def test_what_waits_in_memory_is_this_machines_until_it_is_committed(one: ObjectArchive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(IncomingFile, "commit", lambda _self: (_ for _ in ()).throw(StorageFull("disk")))
    incoming = one.open()
    incoming.write(DATA + b"never")
    with pytest.raises(StorageFull):
        incoming.commit()
    incoming.discard()
    assert f"objects/{sha256(DATA + b'never').hexdigest()[:2]}/{sha256(DATA + b'never').hexdigest()}.dcm" not in one.names()
