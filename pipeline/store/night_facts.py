"""What a morning report is made of, as the rows have it."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import Select, and_, case, func, select, union
from sqlalchemy.orm import Session

from pipeline.model import Generation, Priority, RequestState
from pipeline.nightly import Encoding, Kind, Night, NightDraft, NightStudy, Pace, Plan, Reading, Window
from pipeline.store.naming import ARRIVED, step_of
from pipeline.store.tables import DraftRow, FlagRow, JobRow, NightItemRow, NightPlanRow, ReportRow, RequestRow, StudyRow

READ_LATELY = timedelta(hours=24)


def plan_of(row: NightPlanRow) -> Plan:
    """A plan's row as the flow knows it."""
    pace: dict[str, Any] = row.pace
    window = Window(row.opens_at, row.closes_at)
    return Plan(row.id, window, row.first_reader_at, row.planned_at, row.ended_at, Pace(**pace) if pace else None)


def night_of(session: Session, window: Window, first_reader_at: datetime, now: datetime) -> Night:
    """One night: its plan, its studies, what was drafted until the first reader came, and what was read in the last day."""
    row = session.scalars(select(NightPlanRow).filter_by(opens_at=window.opens)).one_or_none()
    span = Window(window.opens, max(window.closes, first_reader_at))
    return Night(
        window,
        first_reader_at,
        now,
        None if row is None else plan_of(row),
        _studies(session, None if row is None else row.id, window, span),
        _drafts(session, span),
        _readings(session, now),
        _encodings(session, span),
    )


def _studies(session: Session, plan_id: UUID | None, window: Window, span: Window) -> tuple[NightStudy, ...]:
    """What was planned, what arrived in the window, and what was drafted in it; in the plan's order, then by arrival."""
    planned = select(NightItemRow.study_id).where(NightItemRow.plan_id == plan_id)
    arrived = select(StudyRow.id).where(StudyRow.first_received >= window.opens, StudyRow.first_received < window.closes)
    drafted = select(JobRow.study_id).join(DraftRow, DraftRow.job_id == JobRow.id)
    drafted = drafted.where(DraftRow.created_at >= span.opens, DraftRow.created_at < span.closes)
    mine = union(planned, arrived, drafted).subquery()
    first = select(func.min(DraftRow.created_at)).where(DraftRow.job_id == JobRow.id).correlate(JobRow).scalar_subquery()
    query = (
        select(StudyRow, JobRow, NightItemRow, first)
        .outerjoin(JobRow, and_(JobRow.study_id == StudyRow.id, JobRow.revision == StudyRow.revision))
        .outerjoin(NightItemRow, and_(NightItemRow.study_id == StudyRow.id, NightItemRow.plan_id == plan_id))
        .where(StudyRow.id.in_(select(mine.c[0])))
        .order_by(NightItemRow.position.nulls_last(), StudyRow.first_received, StudyRow.id)
    )
    rows = session.execute(query).all()
    unwritten = _unwritten(session, [row[0].id for row in rows])
    return tuple(_study(study, job, item, drafted_at, tuple(unwritten[study.id])) for study, job, item, drafted_at in rows)


def _study(study: StudyRow, job: JobRow | None, item: NightItemRow | None, drafted_at: datetime | None, departments: tuple[str, ...]) -> NightStudy:
    current = job if study.state in ARRIVED else None
    return NightStudy(
        study_id=study.id,
        priority=Priority(study.priority if job is None else job.priority),
        state=study.state if current is None else current.state,
        step=step_of(study, job),
        reason=(current.reason if current is not None else study.reason) or "",
        partial=current.completeness if current is not None else "",
        received=study.first_received,
        drafted_at=drafted_at if current is not None else None,
        kind=None if item is None else Kind(item.kind),
        reads_at=None if item is None else item.reads_at,
        expected_at=None if item is None else item.expected_at,
        departments=departments,
    )


def _unwritten(session: Session, studies: list[UUID]) -> dict[UUID, list[str]]:
    """Departments whose draft of the current revision could not be written."""
    query = select(RequestRow.study_id, RequestRow.department).join(StudyRow, StudyRow.id == RequestRow.study_id)
    failed = (RequestRow.state == RequestState.FAILED.value) & (RequestRow.revision == StudyRow.revision) & RequestRow.study_id.in_(studies)
    found: dict[UUID, list[str]] = defaultdict(list)
    for study_id, department in session.execute(query.where(failed).distinct().order_by(RequestRow.department)):
        found[study_id].append(department)
    return found


def _drafts(session: Session, span: Window) -> tuple[NightDraft, ...]:
    """Drafts of the span. A study's arrival is the one that this revision is of, where the study has not been reopened since."""
    arrival = case((StudyRow.arriving_since <= JobRow.created_at, StudyRow.arriving_since), else_=StudyRow.first_received)
    query = (
        select(DraftRow, JobRow.study_id, JobRow.priority, arrival)
        .join(JobRow, JobRow.id == DraftRow.job_id)
        .join(StudyRow, StudyRow.id == JobRow.study_id)
        .where(DraftRow.created_at >= span.opens, DraftRow.created_at < span.closes)
        .order_by(DraftRow.created_at, DraftRow.id)
    )
    flags = _flags(session, select(DraftRow.id).where(DraftRow.created_at >= span.opens, DraftRow.created_at < span.closes))
    return tuple(_draft(draft, study_id, priority, received, flags[draft.id]) for draft, study_id, priority, received in session.execute(query))


def _draft(row: DraftRow, study_id: UUID, priority: int, received: datetime, flags: dict[tuple[str, str], int]) -> NightDraft:
    drafted, accepted = counts(row)
    return NightDraft(study_id, row.department, Priority(priority), received, row.created_at, row.seconds, row.server != "", drafted, accepted, flags)


def counts(row: DraftRow) -> tuple[int, int]:
    """Tokens drafted ahead and accepted, as `Generation.acceptance` counts them."""
    if row.positions:
        return sum(pair[0] for pair in row.positions), sum(pair[1] for pair in row.positions)
    made = Generation(row.tokens, row.verify_count, tuple(row.accepted_histogram), row.seconds)
    drafted = (len(made.accepted_histogram) - 1) * sum(made.accepted_histogram)
    return drafted, round(made.acceptance * drafted)


def _flags(session: Session, drafts: Select[UUID]) -> dict[UUID, dict[tuple[str, str], int]]:
    found: dict[UUID, dict[tuple[str, str], int]] = defaultdict(dict)
    query = select(FlagRow.draft_id, FlagRow.rule, FlagRow.severity, func.count()).where(FlagRow.draft_id.in_(drafts))
    for draft_id, rule, severity, hits in session.execute(query.group_by(FlagRow.draft_id, FlagRow.rule, FlagRow.severity)):
        found[draft_id][rule, severity] = hits
    return found


def _readings(session: Session, now: datetime) -> tuple[Reading, ...]:
    """Reports that somebody opened in the last day."""
    query = (
        select(ReportRow.department, JobRow.priority, DraftRow.created_at, ReportRow.reviewed_at, ReportRow.signed_at)
        .join(DraftRow, DraftRow.id == ReportRow.draft_id)
        .join(JobRow, JobRow.id == DraftRow.job_id)
        .where(ReportRow.reviewed_at > now - READ_LATELY)
        .order_by(ReportRow.reviewed_at, ReportRow.id)
    )
    rows = session.execute(query)
    return tuple(Reading(name, Priority(rank), drafted, opened, signed) for name, rank, drafted, opened, signed in rows if opened)


def _encodings(session: Session, span: Window) -> tuple[Encoding, ...]:
    """Studies of the span's drafts, by when they were encoded."""
    query = (
        select(JobRow.encoder, JobRow.encoding_at, JobRow.encoded_at)
        .where(JobRow.id.in_(select(DraftRow.job_id).where(DraftRow.created_at >= span.opens, DraftRow.created_at < span.closes)))
        .where(JobRow.encoder.is_not(None), JobRow.encoding_at.is_not(None), JobRow.encoded_at.is_not(None))
        .order_by(JobRow.encoding_at)
    )
    rows = session.execute(query)
    return tuple(Encoding(encoder, begins, ends) for encoder, begins, ends in rows if encoder and begins and ends)
