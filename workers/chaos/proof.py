"""What must hold when the fire is out: the final checks, each a list of sentences about what does not hold. Ids in them are internal ones."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, case, exists, func, or_, select

from pipeline.evidence import Patience
from pipeline.irradiation import DoseReportState
from pipeline.model import JobState, RequestState, StudyState
from pipeline.store import proof
from pipeline.store.deliveries import blocks
from pipeline.store.session import PgStore
from pipeline.store.tables import (
    Base,
    DeliveryRow,
    DeliveryState,
    DoseEventRow,
    DoseReportRow,
    DraftRow,
    FlagRow,
    InstanceRow,
    JobRow,
    RequestRow,
    StudyRow,
)
from workers.chaos.studies import TrialStudy, data_set_of, sop_uid_of

FINAL = tuple(state.value for state in (JobState.DRAFTED, JobState.FAILED, JobState.UNSUPPORTED))
ARRIVED = tuple(state.value for state in (StudyState.COMPLETE, StudyState.PARTIAL))
PERSONS = tuple(state.value for state in (StudyState.HELD, StudyState.WITHDRAWN))
SHOWN = 5  # sentences of one kind that are told; the rest is a number
PathOf = Callable[[str], Path]


def unfinished(store: PgStore, uids: Collection[str]) -> int:
    """Rows of these studies that still have to move: studies, deliveries (but for those that a person has to release), dose reports and requests."""
    mine = StudyRow.study_uid.in_(uids)
    job_final = or_(and_(StudyRow.state.in_(ARRIVED), JobRow.state.in_(FINAL)), StudyRow.state.in_(PERSONS))
    current = select(func.count()).select_from(StudyRow).join(JobRow, _of_revision(), isouter=True).where(mine, func.coalesce(~job_final, True))
    waiting = select(func.count()).select_from(DeliveryRow).join(StudyRow, StudyRow.id == DeliveryRow.study_id)
    asked = select(func.count()).select_from(RequestRow).join(StudyRow, StudyRow.id == RequestRow.study_id)
    doses = select(func.count()).select_from(DoseReportRow).join(InstanceRow, InstanceRow.id == DoseReportRow.instance_id)
    barred = exists().where(FlagRow.draft_id == DeliveryRow.draft_id, blocks())
    with store.begin() as work:
        arrived = work.session.execute(select(func.count()).select_from(StudyRow).where(mine)).scalar_one()
        queries = (
            current,
            waiting.where(mine, DeliveryRow.state == DeliveryState.WAITING.value, ~barred),
            asked.where(mine, RequestRow.state.in_([RequestState.WAITING.value, RequestState.DRAFTING.value])),
            doses.join(StudyRow, StudyRow.id == InstanceRow.study_id).where(
                mine, DoseReportRow.state.in_([DoseReportState.WAITING.value, DoseReportState.RECHECK.value])
            ),
        )
        return len(uids) - int(arrived) + sum(int(work.session.execute(query).scalar_one()) for query in queries)


def images(store: PgStore, files: Iterable[Path], path_of: PathOf) -> list[str]:
    """Every acknowledged file has a first row, and its data set stands in the archive as it was sent, byte for byte."""
    sent = {sop_uid_of(file): file for file in files}
    query = select(InstanceRow.sop_uid, InstanceRow.id, InstanceRow.path).where(InstanceRow.is_first)
    with store.begin() as work:
        rows = {row.sop_uid: (row.id, row.path) for row in work.session.execute(query)}
    lost = [f"an acknowledged image of {file.parent.name} has no row" for uid, file in sent.items() if uid not in rows]
    changed = [
        f"image {rows[uid][0]} is not in the archive as it was sent"
        for uid, file in sent.items()
        if uid in rows and not _same(file, path_of(rows[uid][1]))
    ]
    return lost + changed


def drafts(store: PgStore, studies: Sequence[TrialStudy], department: str) -> list[str]:
    """Every study has one current draft of the site's department, or a reason by name why it has none."""
    has = select(func.count()).where(DraftRow.job_id == JobRow.id, DraftRow.department == department).correlate(JobRow).scalar_subquery()
    query = select(StudyRow.study_uid, StudyRow.id, StudyRow.state, JobRow.state.label("job"), has.label("drafts"), _reason().label("reason"))
    with store.begin() as work:
        rows = {row.study_uid: row for row in work.session.execute(query.join(JobRow, _of_revision(), isouter=True))}
    said = [_of_study(rows.get(study.uid), study.folder.name) for study in studies]
    return [sentence for sentence in said if sentence]


def doubles(store: PgStore, studies: Sequence[TrialStudy], exported: Path | None) -> list[str]:
    """No draft, dose event or export is there twice, and of each there is what there must be."""
    twice = [f"two rows for one {row['what']}" for row in proof.duplicates(store)]
    return twice + _dose_events(store, [study for study in studies if study.with_dose]) + _exports(store, studies, exported)


def leases(store: PgStore) -> list[str]:
    """Nobody holds anything any more."""
    held: list[str] = []
    with store.begin() as work:
        for table in Base.metadata.sorted_tables:
            if "lease_until" in table.c:
                rows = work.session.execute(select(func.count()).select_from(table).where(table.c.lease_until.is_not(None))).scalar_one()
                held += [f"{rows} rows of {table.name} are still under a lease"] if rows else []
    return held


def overdue(store: PgStore, lease_s: float, patience: Patience) -> list[str]:
    """No row is older than its lease, and none that is due waits longer than that."""
    return [f"{one.what} {one.id} ({one.state}): {one.reason}" for one in proof.stuck(store, lease_s, patience)]


def outcomes(store: PgStore, uids: Collection[str]) -> dict[str, int]:
    """How the studies ended, and who wrote the drafts: state, or `drafted by` a rung → studies."""
    how = case((JobRow.state == JobState.DRAFTED.value, func.concat("drafted by ", DraftRow.rung)), else_=func.coalesce(JobRow.state, StudyRow.state))
    query: Select[Any] = select(how, func.count(func.distinct(StudyRow.id))).select_from(StudyRow)
    query = query.join(JobRow, _of_revision(), isouter=True).join(DraftRow, DraftRow.job_id == JobRow.id, isouter=True)
    with store.begin() as work:
        rows = work.session.execute(query.where(StudyRow.study_uid.in_(uids)).group_by(how)).all()
    return {str(name): int(count) for name, count in rows}


def shortened(said: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """The first sentences of each check, and how many more there are."""
    return {name: [*found[:SHOWN], *([f"and {len(found) - SHOWN} more"] if len(found) > SHOWN else [])] for name, found in said.items()}


def _of_revision() -> ColumnElement[bool]:
    return and_(JobRow.study_id == StudyRow.id, JobRow.revision == StudyRow.revision)


def _reason() -> ColumnElement[str]:
    return func.coalesce(JobRow.reason, StudyRow.reason, "")


def _of_study(row: Any, name: str) -> str:
    """What is wrong with one study's row; empty for nothing."""
    if row is None:
        return f"{name} has no study row"
    if row.job == JobState.DRAFTED.value:
        return "" if row.drafts == 1 else f"study {row.id} is drafted and has {row.drafts} drafts"
    if row.job in FINAL or row.state in PERSONS:
        return "" if row.reason and not row.drafts else f"study {row.id} ended as {row.job or row.state} with {row.drafts} drafts and no reason"
    return f"study {row.id} is {row.state}, its job {row.job}: it has neither a draft nor a reason"


def _dose_events(store: PgStore, studies: Sequence[TrialStudy]) -> list[str]:
    """One event for each study whose dose report was sent."""
    query = select(StudyRow.study_uid, func.count(DoseEventRow.id).label("events")).join(DoseEventRow, DoseEventRow.study_id == StudyRow.id)
    with store.begin() as work:
        events = {row.study_uid: int(row.events) for row in work.session.execute(query.group_by(StudyRow.study_uid))}
    counts = {study.folder.name: events.get(study.uid, 0) for study in studies}
    return [f"{name} has {count} dose events where its report tells one" for name, count in counts.items() if count != 1]


def _exports(store: PgStore, studies: Sequence[TrialStudy], folder: Path | None) -> list[str]:
    """Each draft was asked for once, and each that was delivered is one whole file."""
    if folder is None:
        return []
    uids = [study.uid for study in studies]
    query = select(DeliveryRow.draft_id, DeliveryRow.state).join(StudyRow, StudyRow.id == DeliveryRow.study_id).where(StudyRow.study_uid.in_(uids))
    with store.begin() as work:
        rows = [(str(draft), state) for draft, state in work.session.execute(query)]
    asked = [draft for draft, _ in rows]
    done = {draft for draft, state in rows if state == DeliveryState.DONE.value}
    there = {file.stem for file in folder.glob("*.md")}
    said = [f"draft {draft} is to be delivered twice" for draft in sorted({one for one in asked if asked.count(one) > 1})]
    return [*said, *(f"draft {draft} counts as delivered and is not there" for draft in sorted(done - there))]


def _same(sent: Path, archived: Path) -> bool:
    return archived.is_file() and data_set_of(sent) == data_set_of(archived)
