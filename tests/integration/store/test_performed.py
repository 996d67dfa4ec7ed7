"""Performed procedure steps as rows."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import psycopg

from pipeline.modalities import PerformedStep, StepAnswer, StepChange, StepStatus
from pipeline.store.session import PgStore

NOW = datetime(2026, 1, 15, tzinfo=UTC)


def step(sop_uid: str = "1.9", *study_uids: str) -> PerformedStep:
    return PerformedStep(sop_uid, StepStatus.IN_PROGRESS, "CT1", "CT", study_uids or ("1.1",), (), NOW, None)


def create(store: PgStore, made: PerformedStep) -> StepAnswer:
    with store.begin() as work:
        return work.performed.create(made)


def change(store: PgStore, told: StepChange, sop_uid: str = "1.9") -> StepAnswer:
    with store.begin() as work:
        return work.performed.change(sop_uid, told)


def test_what_a_change_does_not_mention_stays(store: PgStore, url: str) -> None:
    assert create(store, step()) is StepAnswer.DONE
    assert change(store, StepChange(expected=("1.2", "1.3"))) is StepAnswer.DONE
    assert change(store, StepChange(ended_at=NOW)) is StepAnswer.DONE
    assert change(store, StepChange(StepStatus.COMPLETED)) is StepAnswer.DONE
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT status, expected, ended_at, started_at FROM performed_steps").fetchall() == [
            ("COMPLETED", ["1.2", "1.3"], NOW, NOW)
        ]


def test_a_final_step_and_an_unknown_one_are_told_apart(store: PgStore) -> None:
    create(store, step())
    assert change(store, StepChange(StepStatus.DISCONTINUED)) is StepAnswer.DONE
    assert change(store, StepChange(StepStatus.COMPLETED)) is StepAnswer.FINAL
    assert change(store, StepChange(), "1.8") is StepAnswer.UNKNOWN


def test_a_step_of_several_studies_names_each_once(store: PgStore, url: str) -> None:
    create(store, step("1.9", "1.1", "1.2", "1.1"))
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT study_uid FROM performed_step_studies ORDER BY 1").fetchall() == [("1.1",), ("1.2",)]


def test_of_many_creations_and_many_endings_at_once_one_counts(store: PgStore) -> None:
    with ThreadPoolExecutor(4) as pool:
        created = list(pool.map(lambda _: create(store, step()), range(4)))
        ended = list(pool.map(lambda _: change(store, StepChange(StepStatus.COMPLETED)), range(4)))
    assert sorted(created) == [StepAnswer.DONE, *[StepAnswer.DUPLICATE] * 3]
    assert sorted(ended) == [StepAnswer.DONE, *[StepAnswer.FINAL] * 3]
