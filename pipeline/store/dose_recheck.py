"""Unsigned reports of a patient whose dose has changed: read under a lock, and written again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import delete, exists, func, insert, or_, select, update

from pipeline.checking import Hit
from pipeline.model import JobState, Report, ReportState, Severity
from pipeline.ports import OpenReport
from pipeline.store.deliveries import FREE
from pipeline.store.doses import patient_of
from pipeline.store.repository import Repository, plain
from pipeline.store.saving import flag_values
from pipeline.store.tables import DeliveryRow, DeliveryState, DraftRow, FlagRow, JobRow, ReportRow, StudyRow

UNSIGNED = (ReportState.WAITING.value, ReportState.REVIEWING.value, ReportState.WRITTEN.value)
OPENED = (ReportState.REVIEWING.value, ReportState.WRITTEN.value)
WITHDRAWAL = "withdrawal"
Key = tuple[str, str, str, int]
UNRESOLVED: dict[str, object] = {"resolved_by": None, "resolved_at": None, "resolution": None}


class Rechecking(Repository):
    """The rows of checking again."""

    def drafting(self, study_id: UUID) -> bool:
        """True while a job of the study's patient is being drafted."""
        working = exists().where(JobRow.state == JobState.DRAFTING.value, StudyRow.id == JobRow.study_id, StudyRow.patient_id == patient_of(study_id))
        return bool(self.session.execute(select(working)).scalar_one())

    def open_reports(self, study_id: UUID) -> tuple[OpenReport, ...]:
        """Unsigned reports of the study's patient that readers see, locked in the order of their ids."""
        query = (
            select(ReportRow, DraftRow, JobRow, StudyRow.indication)
            .join(DraftRow, DraftRow.id == ReportRow.draft_id)
            .join(JobRow, JobRow.id == DraftRow.job_id)
            .join(StudyRow, StudyRow.id == ReportRow.study_id)
            .where(StudyRow.patient_id == patient_of(study_id), ReportRow.state.in_(UNSIGNED))
            .where(or_(JobRow.state == JobState.DRAFTED.value, ReportRow.state.in_(OPENED)))
            .order_by(ReportRow.id)
            .with_for_update(of=ReportRow)
        )
        rows = self.session.execute(query, execution_options={"populate_existing": True}).all()
        return tuple(self._open(report, draft, job, indication) for report, draft, job, indication in rows)

    def renew(self, report: OpenReport, advice: str, hits: Sequence[Hit]) -> bool:
        """New hits and, where it differs, a new 建议; see the Doses port."""
        if advice != report.report.advice:
            self.session.execute(update(DraftRow).where(DraftRow.id == report.draft_id).values(advice=plain(advice)))
        return self.write_hits(report.draft_id, hits)

    def write_hits(self, draft_id: UUID, hits: Sequence[Hit]) -> bool:
        """Put these hits in the place of a draft's; what was handed out is handed out again: True where anything was."""
        resolved = self._resolved(draft_id)
        self.session.execute(delete(FlagRow).where(FlagRow.draft_id == draft_id))
        keys = zip(_numbered(hits), hits, strict=True)
        flags = [flag_values(draft_id, position, hit) | resolved.get(key, UNRESOLVED) for position, (key, hit) in enumerate(keys)]
        if flags:
            self.session.execute(insert(FlagRow), flags)
        done, under_way = (
            DeliveryRow.state == DeliveryState.DONE.value,
            DeliveryRow.lease_owner.is_not(None),
        )  # who delivers it now has read the old text
        handed = (DeliveryRow.draft_id == draft_id) & or_(done, under_way) & (DeliveryRow.kind != WITHDRAWAL)
        again = {"state": DeliveryState.WAITING.value, "due_at": func.now(), "attempts": 0, "done_at": None, **FREE}
        asked = update(DeliveryRow).where(handed).values(**again).returning(DeliveryRow.id)
        return self.session.execute(asked, execution_options={"synchronize_session": False}).first() is not None

    def _resolved(self, draft_id: UUID) -> dict[Key, dict[str, object]]:
        """What somebody has answered for stays so, wherever its hit stands now; its twin, for which nobody has, does not."""
        rows = self.session.scalars(select(FlagRow).where(FlagRow.draft_id == draft_id).order_by(FlagRow.position)).all()
        known = zip(_numbered([hit_of(row) for row in rows]), rows, strict=True)
        return {key: {name: getattr(row, name) for name in UNRESOLVED} for key, row in known if row.resolved_at is not None}

    def _open(self, report: ReportRow, draft: DraftRow, job: JobRow, indication: str) -> OpenReport:
        """Touched once anybody has opened it, also when it was put back."""
        untouched = report.state == ReportState.WAITING.value and report.reviewed_by is None
        text = Report(draft.findings_text, draft.impression, draft.advice)
        flags = self.session.scalars(select(FlagRow).where(FlagRow.draft_id == draft.id).order_by(FlagRow.position))
        return OpenReport(report.id, report.study_id, job.id, draft.id, untouched, text, tuple(map(hit_of, flags)), indication)


def _numbered(hits: Sequence[Hit]) -> list[Key]:
    """What a hit is known by when its place moves; of equal ones the first, the second, …"""
    seen: Counter[tuple[str, str, str]] = Counter()
    keys = []
    for hit in hits:
        same = (hit.rule, hit.section, hit.message)
        seen[same] += 1
        keys.append((*same, seen[same]))
    return keys


def hit_of(row: FlagRow) -> Hit:
    """One flag's row as the hit that it was."""
    return Hit(row.rule, row.version, Severity(row.severity), row.section, row.start_at, row.end_at, row.message, row.original)
