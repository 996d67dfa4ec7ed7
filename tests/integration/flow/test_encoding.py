"""Encode on a real database and a real archive: batches, reuse, and what a killed or doubled worker leaves."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import text

from pipeline.dicom.archive import FileArchive
from pipeline.encoder.features import load_features, save_features
from pipeline.errors import ModelMissing, Permanent, ServiceUnavailable, Unsupported
from pipeline.flow.encode import Encoding, digest_of, encode
from pipeline.model import Features, Lease, Step
from pipeline.store import operator
from pipeline.store.session import PgStore
from tests.builders import Bell
from tests.integration.flow.test_drafting import RETRY, Clock
from tests.integration.store.rows import ME, OTHER, expire, freeze, header, one, ready_job, send

STUDIES = ("1.2.3", "1.2.4", "1.2.5", "1.2.6")


@dataclass
class CountingEncoder:
    """Features whose values are the number of files; remembers each call's sizes. `before` runs inside a call, `bad` names files of a bad study."""

    batch: int = 4
    version: str = "1"
    calls: list[int] = field(default_factory=list)
    before: Callable[[], object] = lambda: None
    bad: str = "none"

    @property
    def identity(self) -> str:
        return f"counting/{self.version}/p"

    def encode(self, paths: Sequence[Path]) -> Features:
        if any(self.bad in str(path) for path in paths):
            raise Unsupported("容积内未找到双肺")
        return Features(np.full((2, 4), len(paths), np.float32), "counting", self.version, "p")

    def encode_many(self, studies: Sequence[Sequence[Path]]) -> Sequence[Features | Permanent]:
        self.calls.append(len(studies))
        self.before()
        return [self._try(paths) for paths in studies]

    def _try(self, paths: Sequence[Path]) -> Features | Permanent:
        try:
            return self.encode(paths)
        except Permanent as error:
            return error

    def save_features(self, features: Features, path: Path) -> None:
        save_features(path, features)

    def load_features(self, path: Path) -> Features:
        return load_features(path)


@pytest.fixture
def archive(tmp_path: Path) -> FileArchive:
    return FileArchive(tmp_path / "archive", free_floor_bytes=0, fsync=False)


def ports(store: PgStore, archive: FileArchive, encoder: CountingEncoder) -> Encoding:
    return Encoding(store, archive, encoder, Bell(), Clock(), RETRY)


def ready(store: PgStore, *studies: str) -> None:
    for study in studies:
        ready_job(store, study)


def jobs(store: PgStore) -> list[tuple[Any, ...]]:
    """State, attempts and reason of every job by study."""
    with store.begin() as work:
        query = "SELECT j.state, j.attempts, j.reason FROM jobs j JOIN studies s ON s.id = j.study_id ORDER BY s.study_uid, j.revision"
        return [tuple(row) for row in work.session.execute(text(query))]


def reused(store: PgStore) -> str:
    query = "SELECT string_agg(detail->>'reused', ' ' ORDER BY id) AS found FROM audit WHERE action = 'encode'"
    return str(one(store, query)["found"])


def test_studies_are_encoded_together_up_to_the_batch_and_the_limit(store: PgStore, archive: FileArchive) -> None:
    ready(store, *STUDIES)
    encoder = CountingEncoder(batch=3)
    step = ports(store, archive, encoder)
    assert encode(step, 4, ME) == 4
    assert (encoder.calls, {state for state, _, _ in jobs(store)}) == ([3, 1], {"encoded"})
    assert encode(step, 4, ME) == 0
    assert step.bell.rung == [Step.DRAFT]  # type: ignore[attr-defined]  # the fake bell remembers


def test_while_the_encoder_has_no_memory_nothing_is_claimed_and_no_try_is_lost(store: PgStore, archive: FileArchive) -> None:
    ready(store, *STUDIES)
    encoder = CountingEncoder(batch=0)
    assert encode(ports(store, archive, encoder), 4, ME) == 0
    assert (encoder.calls, jobs(store)) == ([], [("ready", 0, None)] * len(STUDIES))
    encoder.batch = 4  # whoever filled the GPU has left
    assert encode(ports(store, archive, encoder), 4, ME) == 4
    assert {state for state, _, _ in jobs(store)} == {"encoded"}


def test_a_bad_study_ends_alone_and_the_others_are_encoded(store: PgStore, archive: FileArchive) -> None:
    ready(store, *STUDIES[:3])
    with store.begin() as work:
        path = work.session.scalar(text("SELECT files->>0 FROM jobs j JOIN studies s ON s.id = j.study_id WHERE s.study_uid = '1.2.4'"))
    encode(ports(store, archive, CountingEncoder(bad=str(path))), 4, ME)
    assert jobs(store) == [("encoded", 0, None), ("unsupported", 1, "容积内未找到双肺"), ("encoded", 0, None)]


def test_missing_weights_fail_every_job_with_the_sentence(store: PgStore, archive: FileArchive) -> None:
    ready(store, *STUDIES[:2])

    def missing() -> None:
        raise ModelMissing("no weights; set CTREPORT_ENCODER_WEIGHTS")

    encode(ports(store, archive, CountingEncoder(before=missing)), 4, ME)
    assert {(state, reason) for state, _, reason in jobs(store)} == {("failed", "no weights; set CTREPORT_ENCODER_WEIGHTS")}


def test_a_transient_error_gives_all_back_and_then_each_is_tried_alone(store: PgStore, archive: FileArchive) -> None:
    ready(store, *STUDIES[:3])
    failures = iter([ServiceUnavailable("busy")])

    def once() -> None:
        for error in failures:
            raise error

    encoder = CountingEncoder(before=once)
    assert encode(ports(store, archive, encoder), 3, ME) == 3
    assert {(state, attempts) for state, attempts, _ in jobs(store)} == {("ready", 1)}
    assert encode(ports(store, archive, encoder), 3, ME) == 3
    assert encoder.calls == [3, 1, 1, 1]


def test_a_job_that_kills_its_process_costs_each_other_one_try_at_most(store: PgStore, archive: FileArchive) -> None:
    ready(store, *STUDIES[:3])

    class Killed(BaseException):
        """The process is gone: nothing catches this."""

    def die() -> None:
        raise Killed

    with store.begin() as work:
        work.session.execute(
            text("UPDATE jobs SET rank_at = rank_at - interval '1 hour' WHERE study_id = (SELECT id FROM studies WHERE study_uid = '1.2.4')")
        )
    with pytest.raises(Killed):
        encode(ports(store, archive, CountingEncoder(before=die)), 3, ME)
    expire(store, "jobs")
    with store.begin() as work:
        assert work.studies.reclaim_expired(3) == 3
    with pytest.raises(Killed):  # the urgent one again, alone
        encode(ports(store, archive, CountingEncoder(before=die)), 3, ME)
    assert [attempts for _, attempts, _ in jobs(store)] == [1, 2, 1]
    assert encode(ports(store, archive, CountingEncoder()), 3, ME) == 2
    assert [state for state, _, _ in jobs(store)] == ["encoded", "encoding", "encoded"]


def test_a_fresh_job_is_not_kept_waiting_by_tried_ones_nor_worked_on_with_them(store: PgStore, archive: FileArchive) -> None:
    ready(store, *STUDIES)
    with store.begin() as work:
        work.session.execute(text("UPDATE jobs SET attempts = 1 WHERE study_id = (SELECT id FROM studies WHERE study_uid = '1.2.4')"))
    encoder = CountingEncoder()
    assert encode(ports(store, archive, encoder), 4, ME) == 4
    assert sorted(encoder.calls) == [1, 3]


def test_unchanged_input_is_never_encoded_twice(store: PgStore, archive: FileArchive) -> None:
    ready(store, STUDIES[0])
    encoder = CountingEncoder()
    encode(ports(store, archive, encoder), 4, ME)
    operator.rerun(store, STUDIES[0])
    freeze(store)
    encode(ports(store, archive, encoder), 4, ME)
    assert (encoder.calls, reused(store)) == ([1], "no yes")
    paths = one(store, "SELECT count(DISTINCT features_path) AS n, min(features_path) AS path FROM jobs WHERE features_path IS NOT NULL")
    assert paths["n"] == 1
    assert load_features(archive.path(paths["path"])).source == digest_of(one(store, "SELECT files FROM jobs LIMIT 1")["files"])


def test_another_image_or_another_encoder_is_encoded_anew(store: PgStore, archive: FileArchive) -> None:
    ready(store, STUDIES[0])
    encode(ports(store, archive, CountingEncoder()), 4, ME)
    send(store, header(9, STUDIES[0]))
    freeze(store)
    newer = CountingEncoder()
    encode(ports(store, archive, newer), 4, ME)
    operator.rerun(store, STUDIES[0])
    freeze(store)
    other = CountingEncoder(version="2")
    encode(ports(store, archive, other), 4, ME)
    assert (newer.calls, other.calls, reused(store)) == ([1], [1], "no no no")


def test_two_jobs_of_the_same_files_in_one_batch_are_encoded_once(store: PgStore, archive: FileArchive) -> None:
    ready(store, *STUDIES[:2])
    with store.begin() as work:
        work.session.execute(text("UPDATE jobs SET files = (SELECT files FROM jobs ORDER BY created_at LIMIT 1)"))
    encoder = CountingEncoder()
    encode(ports(store, archive, encoder), 4, ME)
    assert (encoder.calls, {state for state, _, _ in jobs(store)}) == ([1], {"encoded"})


def test_features_written_before_a_kill_are_used_by_the_next_try(store: PgStore, archive: FileArchive) -> None:
    ready(store, STUDIES[0])
    first = CountingEncoder()
    step = ports(store, archive, first)

    def steal() -> None:
        with store.begin() as work:
            work.session.execute(text("UPDATE jobs SET lease_owner = 'other'"))

    first.before = steal  # as if this worker had died after the file and before the row
    encode(step, 1, ME)
    assert jobs(store)[0][0] == "encoding"
    expire(store, "jobs")
    with store.begin() as work:
        work.studies.reclaim_expired(3)
    second = CountingEncoder()
    encode(ports(store, archive, second), 1, ME)
    assert (second.calls, reused(store), jobs(store)[0][0]) == ([], "yes", "encoded")


@pytest.mark.parametrize("what", ["half", "empty", "foreign", "text"])
def test_a_file_that_is_not_whole_or_not_ours_is_encoded_again(store: PgStore, archive: FileArchive, what: str) -> None:
    ready(store, STUDIES[0])
    source = digest_of(one(store, "SELECT files FROM jobs")["files"])
    encoder = CountingEncoder()
    path = archive.path(archive.features_path(encoder.identity, source))
    foreign = Features(np.zeros((2, 4), np.float32), "foreign", "1", "p", source=source)
    save_features(path, foreign)
    body = path.read_bytes()
    path.write_bytes({"half": body[: len(body) - 9], "empty": b"", "foreign": body, "text": b"not features"}[what])
    encode(ports(store, archive, encoder), 1, ME)
    assert (encoder.calls, reused(store), load_features(path).encoder) == ([1], "no", "counting")


def test_two_workers_at_once_on_the_same_files_leave_one_whole_file(store: PgStore, archive: FileArchive) -> None:
    ready(store, *STUDIES[:2])
    with store.begin() as work:
        work.session.execute(text("UPDATE jobs SET files = (SELECT files FROM jobs ORDER BY created_at LIMIT 1)"))
    meet = threading.Barrier(2, timeout=20)
    encoders = [CountingEncoder(batch=1, before=meet.wait) for _ in range(2)]
    leases: tuple[Lease, Lease] = (ME, OTHER)
    threads = [threading.Thread(target=encode, args=(ports(store, archive, e), 1, lease)) for e, lease in zip(encoders, leases, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert [state for state, _, _ in jobs(store)] == ["encoded", "encoded"]
    (path,) = {row for row in archive.path("features").rglob("*") if row.is_file()}
    assert load_features(path).identity == "counting/1/p"
