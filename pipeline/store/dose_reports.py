"""Dose objects that wait to be read: a trigger writes one row for each as it is registered. A claim holds it for a lease, so that what a
killed worker held comes back, and a row whose attempts run out is left unread with the reason."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, exists, func, select, update

from pipeline.irradiation import DoseReportState
from pipeline.model import Lease, Patient
from pipeline.ports import DoseReport
from pipeline.store.dose_taken_back import REJECTED
from pipeline.store.doses import patient_of
from pipeline.store.rejecting import is_rejected
from pipeline.store.repository import Repository, fixed, in_seconds, plain
from pipeline.store.tables import DoseEventRow, DoseReportRow, InstanceRow, PatientRow, StudyRow

OPEN = (DoseReportState.WAITING, DoseReportState.RECHECK)
REPORT = "dose-report"
GAVE_UP = "reading it was started {attempts} times and never ended; look at the log of worker-io"
LEFT = 240  # characters of a reason


def is_open() -> ColumnElement[bool]:
    """Not looked at yet, or to be looked at again; as the partial index says it."""
    return DoseReportRow.state.in_([fixed(state) for state in OPEN])


class DoseReports(Repository):
    """The rows of dose objects."""

    def claim(self, limit: int, lease: Lease, max_attempts: int) -> tuple[DoseReport, ...]:
        """Due dose objects, oldest first; see the Doses port."""
        due = select(DoseReportRow.instance_id).where(is_open(), DoseReportRow.due_at <= func.now())
        chosen = due.order_by(DoseReportRow.due_at).limit(limit).with_for_update(skip_locked=True).cte("chosen")
        held = {"attempts": DoseReportRow.attempts + 1, "due_at": in_seconds(lease.seconds)}
        taken = update(DoseReportRow).where(DoseReportRow.instance_id.in_(select(chosen.c.instance_id))).values(**held)
        ids = self.session.scalars(taken.returning(DoseReportRow.instance_id), execution_options={"synchronize_session": False}).all()
        query = (
            select(DoseReportRow, InstanceRow, is_rejected())
            .join(InstanceRow, InstanceRow.id == DoseReportRow.instance_id)
            .join(StudyRow, StudyRow.id == InstanceRow.study_id)
            .where(DoseReportRow.instance_id.in_(ids))
            .order_by(InstanceRow.received_at, InstanceRow.sop_uid)
        )
        claimed = []
        for row, instance, rejected in self.session.execute(query, execution_options={"populate_existing": True}).all():
            report = _claimed(row, instance)
            if report.attempts > max_attempts:
                ended = DoseReportState.UNREAD if report.state is DoseReportState.WAITING else DoseReportState.READ  # its events are stored by then
                self.move(report, ended, reason=GAVE_UP.format(attempts=max_attempts))
            elif rejected and report.state is DoseReportState.WAITING:
                self.move(report, DoseReportState.UNREAD, reason=REJECTED)
            else:
                claimed.append(report)
        return tuple(claimed)

    def waiting(self) -> int:
        """How many could be claimed right now."""
        due = select(func.count()).select_from(DoseReportRow).where(is_open(), DoseReportRow.due_at <= func.now())
        return self.session.execute(due).scalar_one()

    def move(self, report: DoseReport, to: DoseReportState, *, events: int | None = None, reason: str | None = None, due_s: float = 0.0) -> bool:
        """The claimed row's next state; with `due_s` it is free again then, with a fresh count of attempts. False when somebody else has claimed it
        since."""
        mine = (DoseReportRow.instance_id == report.instance_id) & (DoseReportRow.attempts == report.attempts) & is_open()
        values: dict[str, Any] = {"state": to.value, "ended_at": None if to in OPEN else func.now()}
        values |= {"attempts": 0, "due_at": in_seconds(due_s)} if due_s else {}
        values |= {} if events is None else {"events": events}
        values |= {} if reason is None else {"reason": plain(reason)[:LEFT]}
        moved = update(DoseReportRow).where(mine).values(**values).returning(DoseReportRow.instance_id)
        return self.session.execute(moved, execution_options={"synchronize_session": False}).first() is not None

    def patient(self, study_id: UUID) -> Patient:
        """Whose study it is, as the store knows the patient."""
        row = self.session.scalars(select(PatientRow).where(PatientRow.id == patient_of(study_id))).one()
        guess = row.name_guess and row.name_confirmed_at is None
        return Patient(row.patient_id, row.issuer, row.name, guess, row.birth_date, row.sex, row.name_charset)

    def needs_estimate(self, study_id: UUID) -> bool:
        """True when the study has no dose event, and no dose report of it waits."""
        has_dose = exists().where(DoseEventRow.study_id == study_id)
        awaited = exists().where(
            InstanceRow.study_id == study_id, InstanceRow.content == REPORT, DoseReportRow.instance_id == InstanceRow.id, is_open()
        )
        return bool(self.session.execute(select(~has_dose & ~awaited)).scalar_one())


def _claimed(row: DoseReportRow, instance: InstanceRow) -> DoseReport:
    return DoseReport(row.instance_id, instance.study_id, DoseReportState(row.state), instance.content, instance.path, row.attempts)
