"""The night shift's rows: plans, what waits for a draft and who wants it, how long studies take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import ColumnElement, ScalarSelect, Select, and_, case, exists, extract, func, literal, or_, select, text, update
from sqlalchemy.dialects.postgresql import aggregate_order_by, insert
from sqlalchemy.orm import aliased

from pipeline.model import JobState, Priority, ReportState, StudyState
from pipeline.nightly import Expected, Night, Pace, Plan, Planned, Waiting, Window
from pipeline.store.night_facts import night_of, plan_of
from pipeline.store.repository import Repository, fixed, plain
from pipeline.store.tables import DraftRow, ExpectedReadingRow, JobRow, NightItemRow, NightPlanRow, PatientRow, ReportRow, SeriesRow, StudyRow

LOCK = 7_012_001  # two beats that plan at the same moment: the second has nothing to do
LIVE = (JobState.READY, JobState.ENCODING, JobState.ENCODED, JobState.DRAFTING)
WAITS = (JobState.READY, JobState.ENCODED)
ARRIVED = (StudyState.COMPLETE, StudyState.PARTIAL)
UNREAD = (ReportState.WAITING, ReportState.REVIEWING, ReportState.WRITTEN)
MEASURED = 2000  # of the newest drafts
STEP = timedelta(microseconds=1)  # between the places of a plan's jobs
AHEAD = timedelta(seconds=1)  # before what comes once the window is open
UNSYNCED = {"synchronize_session": False}


class PgNight(Repository):
    """NightShift port on PostgreSQL."""

    def now(self) -> datetime:
        """The database's clock."""
        return self.session.execute(select(func.now())).scalar_one()

    def take_turn(self) -> bool:
        """See the port; the lock ends with the transaction."""
        return bool(self.session.execute(select(func.pg_try_advisory_xact_lock(LOCK))).scalar_one())

    def plan(self, window: Window, first_reader_at: datetime) -> Plan:
        """The window's plan, made where there is none yet. One that was ended by an earlier setting of the window goes on."""
        values = {"opens_at": window.opens, "closes_at": window.closes, "first_reader_at": first_reader_at}
        made = insert(NightPlanRow).values(id=uuid4(), **values)
        self.session.execute(made.on_conflict_do_update(index_elements=["opens_at"], set_={**values, "ended_at": None}))
        row = self.session.scalars(select(NightPlanRow).filter_by(opens_at=window.opens), execution_options={"populate_existing": True}).one()
        return plan_of(row)

    def end_plans(self) -> tuple[UUID, ...]:
        """Plans whose window has closed, ended now."""
        over = NightPlanRow.ended_at.is_(None) & (NightPlanRow.closes_at <= func.now())
        ended = update(NightPlanRow).where(over).values(ended_at=func.now()).returning(NightPlanRow.id)
        return tuple(self.session.scalars(ended, execution_options=UNSYNCED))

    def pace(self, days: float) -> Pace | None:
        """Medians over the newest drafts. Jobs that were encoded in company share its time: they were claimed at the same moment."""
        together = func.count().over(partition_by=JobRow.encoding_at)
        since = func.now() - timedelta(days=days)
        times = (
            select(
                (extract("epoch", JobRow.encoded_at - JobRow.encoding_at) / together).label("encode_s"),
                extract("epoch", JobRow.ended_at - JobRow.drafting_at).label("draft_s"),
            )
            .join(DraftRow, DraftRow.job_id == JobRow.id)
            .where(DraftRow.created_at > since, JobRow.ended_at.is_not(None), JobRow.encoded_at.is_not(None))
            .order_by(DraftRow.created_at.desc())
            .limit(MEASURED)
            .subquery()
        )
        medians = [func.percentile_cont(0.5).within_group(times.c[name]) for name in ("encode_s", "draft_s")]
        found = select(*medians, func.count().label("studies")).select_from(times)
        encode_s, draft_s, studies = tuple(self.session.execute(found).one())
        return None if not studies else Pace(round(float(encode_s), 3), round(float(draft_s), 3), studies)

    def waiting(self, until: datetime) -> tuple[Waiting, ...]:
        """See the port; in no order."""
        return tuple(
            Waiting(row.id, JobState(row.state), Priority(row.priority), row.first_received, tuple(row.modalities or ()), row.reads_at, row.wanted_by)
            for row in self.session.execute(waiting_query(until))
        )

    def keep(self, plan: Plan, items: Sequence[Planned], pace: Pace) -> None:
        """See the port."""
        if items:
            rows = [_item(plan, position, item) for position, item in enumerate(items)]
            new = insert(NightItemRow)
            changed = {name: new.excluded[name] for name in ("position", "kind", "priority", "reads_at", "expected_at")}
            self.session.execute(new.on_conflict_do_update(index_elements=["plan_id", "study_id"], set_=changed), rows)
            self._put_in_order(plan, [item.study_id for item in items])
        done = update(NightPlanRow).where(NightPlanRow.id == plan.id).values(planned_at=func.now(), pace=asdict(pace))
        self.session.execute(done, execution_options=UNSYNCED)

    def _put_in_order(self, plan: Plan, studies: Sequence[UUID]) -> None:
        """Places in the plan's order, before anything that comes later. A night job that nobody has tried is due; one that waits for another try
        waits on."""
        place = literal(plan.window.opens - AHEAD) + NightItemRow.position * literal(STEP)
        untried = (JobRow.priority == Priority.NIGHT.value) & (JobRow.attempts == 0)
        due_at = case((untried, func.least(JobRow.due_at, func.now())), else_=JobRow.due_at)
        mine = (NightItemRow.plan_id == plan.id) & (NightItemRow.study_id == JobRow.study_id) & (JobRow.revision == StudyRow.revision)
        free = JobRow.state.in_([fixed(state) for state in WAITS]) & JobRow.lease_owner.is_(None)
        moved = update(JobRow).where(mine, StudyRow.id == JobRow.study_id, JobRow.study_id.in_(studies), free).values(rank_at=place, due_at=due_at)
        self.session.execute(moved, execution_options=UNSYNCED)

    def defer(self, to: datetime) -> int:
        """Night jobs that nobody works on wait until then."""
        free = JobRow.state.in_([fixed(state) for state in WAITS]) & JobRow.lease_owner.is_(None)
        mine = free & (JobRow.priority == Priority.NIGHT.value) & (JobRow.due_at < to)
        return len(self.session.scalars(update(JobRow).where(mine).values(due_at=to).returning(JobRow.id), execution_options=UNSYNCED).all())

    def expect(self, readings: Sequence[Expected], source: str) -> int:
        """Note appointments, each once."""
        if not readings:
            return 0
        rows = [
            {"id": uuid4(), "patient_id": plain(one.patient_id), "accession": plain(one.accession), "reads_at": one.reads_at, "source": plain(source)}
            for one in readings
        ]
        new = insert(ExpectedReadingRow).values(rows).on_conflict_do_nothing().returning(ExpectedReadingRow.id)
        return len(self.session.scalars(new).all())

    def night(self, window: Window, first_reader_at: datetime) -> Night:
        """What the report of one night is made of."""
        return night_of(self.session, window, first_reader_at, self.now())


def waiting_query(until: datetime) -> Select[Any]:
    """Current jobs without a draft, with what their series are and who is expected."""
    modalities = select(func.array_agg(aggregate_order_by(SeriesRow.modality.distinct(), SeriesRow.modality)))
    return (
        select(StudyRow.id, JobRow.state, JobRow.priority, StudyRow.first_received)
        .add_columns(
            modalities.where(SeriesRow.study_id == StudyRow.id).scalar_subquery().label("modalities"),
            _own_appointment(until).label("reads_at"),
            func.coalesce(_patients_appointment(until), _newer_unread()).label("wanted_by"),
        )
        .join(JobRow, and_(JobRow.study_id == StudyRow.id, JobRow.revision == StudyRow.revision))
        .join(PatientRow, PatientRow.id == StudyRow.patient_id)
        .where(JobRow.state.in_([fixed(state) for state in LIVE]), StudyRow.state.in_([fixed(state) for state in ARRIVED]))
    )


def _own_appointment(until: datetime) -> ScalarSelect[datetime]:
    mine = (ExpectedReadingRow.accession == StudyRow.accession) & (ExpectedReadingRow.accession != text("''"))
    return _first(mine, until)


def _patients_appointment(until: datetime) -> ScalarSelect[datetime]:
    """Of another examination than this one."""
    his = (ExpectedReadingRow.patient_id == PatientRow.patient_id) & (ExpectedReadingRow.patient_id != text("''"))
    return _first(his & (ExpectedReadingRow.accession != func.coalesce(func.nullif(StudyRow.accession, ""), "-")), until)


def _first(which: ColumnElement[bool], until: datetime) -> ScalarSelect[datetime]:
    soon = ExpectedReadingRow.reads_at.between(func.now(), until)
    return select(func.min(ExpectedReadingRow.reads_at)).where(which, soon).correlate(StudyRow, PatientRow).scalar_subquery()


def _newer_unread() -> ScalarSelect[datetime]:
    """Now, where the patient has a newer examination that a reader has not finished."""
    newer, job, report = aliased(StudyRow), aliased(JobRow), aliased(ReportRow)
    current = (job.study_id == newer.id) & (job.revision == newer.revision)
    live = job.state.in_([fixed(state) for state in LIVE]) & (job.priority < Priority.NIGHT.value)
    open_report = exists().where(report.study_id == newer.id, report.state.in_([fixed(state) for state in UNREAD]))
    of_patient = (newer.patient_id == StudyRow.patient_id) & (newer.study_date > StudyRow.study_date)
    found = select(func.now()).select_from(newer).join(job, current).where(of_patient, or_(live, open_report))
    return found.limit(1).correlate(StudyRow).scalar_subquery()


def _item(plan: Plan, position: int, item: Planned) -> dict[str, Any]:
    order = {"plan_id": plan.id, "study_id": item.study_id, "position": position, "kind": item.kind.value, "priority": item.priority.value}
    return {**order, "reads_at": item.reads_at, "expected_at": item.expected_at}
