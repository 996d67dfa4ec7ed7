"""What a site asks of its database again and again, run as the product runs it: how long it takes, by which indexes, and how many rows are read.

Nothing is kept: what changes rows is rolled back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from statistics import median
from typing import Any, TypeVar
from uuid import UUID

from sqlalchemy import Engine, event, text

from pipeline.evidence import Patience
from pipeline.model import Lease, Step
from pipeline.nightly import Window
from pipeline.store import story
from pipeline.store.queries import study_overview
from pipeline.store.session import PgStore, PgWork
from pipeline.urgency import Pick, Slots

PAGE = 50  # studies
SMALL = 5_000  # rows of a table that may be read from end to end: PostgreSQL is right to do so
LEASE = Lease("bench", 60.0)
PATIENCE = Patience(30.0, 3.0, 300.0, 3600.0)
SWEPT = (Step.ASSEMBLE, Step.ENCODE, Step.DRAFT, Step.DELIVER)
SLOTS = Slots(200, 1)
YEAR = timedelta(days=365)
PLANNED = ("SELECT", "WITH", "UPDATE", "INSERT", "DELETE")
SOME = """SELECT s.id, s.study_uid, s.accession FROM studies s JOIN reports r ON r.study_id = s.id WHERE r.state = 'signed'
 ORDER BY s.first_received DESC LIMIT 1"""
Call = Callable[[PgStore], object]
Work = Callable[[PgWork], object]
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Asked:
    """One thing that is asked, by name, and what must be fast of it: worklist page, claim, sweeper or dose; empty: nothing was said."""

    name: str
    kind: str
    call: Call


@dataclass(frozen=True, slots=True)
class Plan:
    """How PostgreSQL went about the statements of one call: larger tables read from end to end, indexes used, rows that were looked at."""

    scanned: tuple[str, ...] = ()
    indexes: tuple[str, ...] = ()
    rows_read: int = 0
    statements: int = 0

    def with_node(self, node: Mapping[str, Any]) -> Plan:
        """With a node of a plan and all below it (EXPLAIN's JSON)."""
        found, table, index = self, node.get("Relation Name"), node.get("Index Name")
        if index is not None:
            found = replace(found, indexes=tuple(dict.fromkeys((*found.indexes, str(index)))))
        if table is not None and node["Node Type"] != "ModifyTable":
            looked = node["Actual Rows"] + node.get("Rows Removed by Filter", 0) + node.get("Rows Removed by Index Recheck", 0)
            read = round(looked * node["Actual Loops"])
            whole = (str(table),) if node["Node Type"] == "Seq Scan" and read > SMALL else ()
            found = replace(found, rows_read=found.rows_read + read, scanned=tuple(dict.fromkeys((*found.scanned, *whole))))
        for below in node.get("Plans", ()):
            found = found.with_node(below)
        return found


class _Undo(Exception):
    """Ends a transaction without keeping it."""


def undone(store: PgStore, ask: Callable[[PgWork], Answer]) -> Answer:
    """What `ask` answers in a transaction that is rolled back."""
    answers: list[Answer] = []
    with suppress(_Undo), store.begin() as work:
        answers.append(ask(work))
        raise _Undo
    return answers[0]


def asked(store: PgStore) -> tuple[Asked, ...]:
    """Everything that is measured, about the newest signed study where it is about one."""
    with store.begin() as work:
        study_id, study_uid, accession = work.session.execute(text(SOME)).one()
        association = work.session.execute(text("SELECT id FROM associations WHERE closed_at IS NULL LIMIT 1")).scalar_one()
    today, soon = datetime.now(UTC).date(), datetime.now(UTC) + timedelta(days=1)

    def in_one(name: str, kind: str, ask: Work) -> Asked:
        return Asked(name, kind, lambda store: undone(store, ask))

    return (
        Asked(f"worklist: the newest {PAGE} studies", "worklist page", lambda store: study_overview(store, limit=PAGE)),
        in_one("worklist: report by accession", "worklist page", lambda work: _by_accession(work, accession)),
        in_one("receive: an association ends", "", lambda work: work.studies.close_association(association, "released")),
        in_one("assemble: claim a study", "claim", lambda work: work.studies.claim_quiet(PATIENCE, 1, LEASE)),
        in_one("assemble: claim and judge a study", "", _judge),
        in_one("encode: claim 4 jobs", "claim", lambda work: work.studies.claim_together(Step.ENCODE, 4, LEASE, Pick.FIRST, SLOTS)),
        in_one("draft: claim a job", "claim", lambda work: work.studies.claim(Step.DRAFT, 1, LEASE, Pick.FIRST, SLOTS)),
        in_one("draft: claim what was asked for", "claim", lambda work: work.requests.claim(1, LEASE, SLOTS)),
        in_one("deliver: claim 4 reports", "claim", lambda work: work.deliveries.claim(4, LEASE)),
        in_one("dose: claim 4 dose reports", "claim", lambda work: work.doses.claim(4, LEASE, 5)),
        in_one("sweeper: hand back expired leases", "sweeper", lambda work: work.studies.reclaim_expired(5)),
        in_one("sweeper: what waits, and how long", "sweeper", _waiting),
        in_one("sweeper: overdue alerts", "sweeper", lambda work: (work.alerts.escalate(), work.alerts.counts())),
        in_one("sweeper: reports that older rules checked", "sweeper", lambda work: work.renewals.outdated(20)),
        in_one("dose: a patient's year", "dose", lambda work: _dose(work, study_id, today)),
        Asked("timeline of a study", "", lambda store: story.story(store, study_uid)),
        in_one("night: what waits and who wants it", "", lambda work: work.night.waiting(soon)),
        in_one("night: the last night's report", "", _night),
        in_one("retention: what is older than 400 days", "", lambda work: work.studies.forget(400.0, 1_000)),
    )


def measured(store: PgStore, one: Asked, rounds: int) -> dict[str, Any]:
    """A row: median and slowest of so many calls in ms (after one to warm up), and the plan."""
    one.call(store)
    taken = []
    for _ in range(rounds):
        begun = time.perf_counter()
        one.call(store)
        taken.append(1000 * (time.perf_counter() - begun))
    plan = planned(store, one.call)
    facts = {"scanned": list(plan.scanned), "indexes": list(plan.indexes), "rows_read": plan.rows_read, "statements": plan.statements}
    return {"part": "tables", "what": one.name, "kind": one.kind, "median_ms": round(median(taken), 2), "max_ms": round(max(taken), 2), **facts}


def planned(store: PgStore, call: Call) -> Plan:
    """How the statements of a call are executed, each with its own values."""
    statements: list[tuple[str, Any]] = []
    with _listening(store, statements):
        call(store)
    plan = Plan(statements=len(statements))
    for statement, values in statements:
        if statement.lstrip().upper().startswith(PLANNED):
            plan = undone_plan(store, statement, values, plan)
    return plan


def undone_plan(store: PgStore, statement: str, values: Any, before: Plan) -> Plan:
    """`before` with the plan of one statement, which is executed and rolled back."""

    def explain(work: PgWork) -> Any:
        return work.session.connection().exec_driver_sql(f"EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) {statement}", values).scalar_one()

    (whole,) = undone(store, explain)
    return before.with_node(whole["Plan"])


@contextmanager
def _listening(store: PgStore, statements: list[tuple[str, Any]]) -> Iterator[None]:
    """Note every statement that goes to the store's database."""
    with store.begin() as work:
        bound = work.session.get_bind()
    assert isinstance(bound, Engine)

    def note(_: Any, __: Any, statement: str, values: Any, ___: Any, many: bool) -> None:
        statements.extend((statement, each) for each in (values if many else [values]))

    event.listen(bound, "before_cursor_execute", note)
    try:
        yield
    finally:
        event.remove(bound, "before_cursor_execute", note)


def _by_accession(work: PgWork, accession: str) -> Sequence[Any]:
    """As another system reads it: README, 'the draft in SQL'."""
    return work.session.execute(text("SELECT status, text, flags FROM finished_reports WHERE accession = :accession"), {"accession": accession}).all()


def _waiting(work: PgWork) -> object:
    waiting = [work.studies.waiting(step, PATIENCE) for step in SWEPT]
    return waiting, work.doses.waiting(), [work.studies.oldest_s(step) for step in (Step.ENCODE, Step.DRAFT)]


def _judge(work: PgWork) -> object:
    return [work.studies.evidence(study) for study in work.studies.claim_quiet(PATIENCE, 1, LEASE)]


def _dose(work: PgWork, study_id: UUID, until: date) -> object:
    return work.rules.doses(study_id, until - YEAR, until), work.rules.studies_without_dose(study_id, until - YEAR, until)


def _night(work: PgWork) -> object:
    closes = work.night.now()
    return work.night.night(Window(closes - timedelta(hours=8), closes), closes)
