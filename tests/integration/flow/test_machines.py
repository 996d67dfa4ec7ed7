"""Three machines that share nothing but PostgreSQL and an object store: one receives, one encodes, one drafts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.dicom.archive import hash_file
from pipeline.dicom.ledger import FileLedger, read_ledger
from pipeline.dicom.object_archive import ObjectArchive
from pipeline.dicom.verify import compare
from pipeline.drafting.fake import FakeDrafter
from pipeline.errors import ServiceUnavailable
from pipeline.flow.commit import GroupCommit
from pipeline.flow.draft import draft
from pipeline.flow.encode import Encoding, encode
from pipeline.model import Features, Lease
from pipeline.store import proof
from pipeline.store.session import PgStore
from tests.builders import Bell
from tests.integration.flow.test_drafting import RETRY, Clock, drafting
from tests.integration.flow.test_encoding import CountingEncoder
from tests.integration.store.rows import freeze, header, one
from tests.s3 import S3, s3_server

IMAGES = 6
STUDIES = ("1.2.3", "1.2.4", "1.2.5", "1.2.6")


class ReadingEncoder(CountingEncoder):
    """Reads every file that it is given, as a real one does."""

    def encode(self, paths: Sequence[Path]) -> Features:
        assert [hash_file(path) for path in paths] == [path.stem for path in paths]
        return super().encode(paths)


def received(store: PgStore, archive: ObjectArchive, ledger: FileLedger, study: str) -> None:
    """A study as a listener takes it: bytes, row and ledger, image by image from several associations at once."""
    commit = GroupCommit(store, archive, ledger)

    def image(number: int) -> None:
        incoming = archive.open()
        incoming.write(f"{study} image {number}".encode() * 100)
        stored = incoming.seal()
        known = header(number, study, patient_id=study)
        facts = {"path": stored.path, "sha256": stored.sha256, "size_bytes": stored.size_bytes}
        commit(replace(known, instance=replace(known.instance, **facts)), incoming, None)  # type: ignore[arg-type]  # by name

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(image, range(1, IMAGES + 1)))


@pytest.fixture(scope="module")
def s3() -> Iterator[S3]:
    with s3_server() as server:
        yield server


def encoding(store: PgStore, archive: ObjectArchive, encoder: CountingEncoder) -> Encoding:
    return Encoding(store, archive, encoder, Bell(), Clock(), RETRY)


def test_a_study_goes_from_machine_to_machine_and_verify_is_clean_on_each(store: PgStore, s3: S3, tmp_path: Path) -> None:
    listening, encoding_a, encoding_b, drafts = (s3.archive(tmp_path / name) for name in ("listener", "encode-a", "encode-b", "draft"))
    ledger = FileLedger(tmp_path / "listener" / "ledger", "listener")
    for study in STUDIES:
        received(store, listening, ledger, study)
        freeze(store)
    ledger.close()
    encoders = (ReadingEncoder(), ReadingEncoder())

    def work(archive: ObjectArchive, encoder: ReadingEncoder, name: str) -> int:
        return sum(encode(encoding(store, archive, encoder), 1, Lease(name, 60.0)) for _ in range(len(STUDIES)))

    with ThreadPoolExecutor(2) as pool:
        claimed = list(pool.map(work, (encoding_a, encoding_b), encoders, ("a", "b")))
    assert sum(claimed) == len(STUDIES) == one(store, "SELECT count(*) AS n FROM jobs WHERE state = 'encoded'")["n"]
    step = replace(drafting(store, FakeDrafter()), archive=drafts, encoder=encoders[0])
    assert draft(step, 10, Lease("c", 60.0)) == len(STUDIES)
    assert one(store, "SELECT count(*) AS n FROM jobs WHERE state = 'drafted'")["n"] == len(STUDIES)
    entries = list(read_ledger(tmp_path / "listener" / "ledger"))
    assert len(entries) == len(STUDIES) * IMAGES
    for archive in (listening, encoding_a, drafts):
        assert compare(entries, proof.instance_rows(store), archive).clean
    assert not list((tmp_path / "draft" / "objects").rglob("*.dcm")), "who drafts reads features, no images"


def test_a_worker_without_the_store_gives_the_study_back_and_another_reads_it(store: PgStore, s3: S3, tmp_path: Path) -> None:
    listening = s3.archive(tmp_path / "listener")
    ledger = FileLedger(tmp_path / "listener" / "ledger", "listener")
    received(store, listening, ledger, "1.2.88")
    ledger.close()
    freeze(store)
    away = S3()  # never started
    encoder = ReadingEncoder()
    encode(encoding(store, away.archive(tmp_path / "cut-off"), encoder), 1, Lease("a", 60.0))
    row = one(store, "SELECT state, attempts, reason FROM jobs")
    assert (row["state"], row["attempts"]) == ("ready", 1)
    assert "object store cannot be read" in row["reason"]
    encode(encoding(store, s3.archive(tmp_path / "sound"), encoder), 1, Lease("b", 60.0))
    assert one(store, "SELECT state, reason FROM jobs")["state"] == "encoded"


def test_the_store_going_away_between_encoding_and_publishing_costs_one_try(store: PgStore, s3: S3, tmp_path: Path) -> None:
    listening = s3.archive(tmp_path / "listener")
    ledger = FileLedger(tmp_path / "listener" / "ledger", "listener")
    received(store, listening, ledger, "1.2.77")
    ledger.close()
    freeze(store)
    archive = s3.archive(tmp_path / "one")
    put, broken = archive._bucket.put, iter([True, False])

    def put_once_broken(local: Path, relative: str) -> None:
        if next(broken, False):
            raise ServiceUnavailable("the archive's object store cannot be written to (test)")
        put(local, relative)

    archive._bucket.put = put_once_broken  # type: ignore[method-assign]  # fails once
    encoder = ReadingEncoder()
    encode(encoding(store, archive, encoder), 1, Lease("a", 60.0))
    assert one(store, "SELECT state FROM jobs")["state"] == "ready"
    encode(encoding(store, archive, encoder), 1, Lease("a", 60.0))
    row = one(store, "SELECT state, features_path FROM jobs")
    assert row["state"] == "encoded"
    assert encoder.load_features(s3.archive(tmp_path / "other").path(row["features_path"])).source
    assert encoder.calls == [1], "what was made before the store went away is used"
