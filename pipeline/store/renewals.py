"""What changed after a draft was written: drafts of earlier revisions, reports that newer rules must look at, corrected orders."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import ColumnElement, Select, delete, func, insert, or_, select, update

from pipeline.checking import Checked, Hit
from pipeline.errors import NotAllowed, NotFound
from pipeline.model import DraftSource, Finding, Job, JobState, Report, ReportState, StudyState
from pipeline.renewing import KEEPING, Cause, Change, Earlier, Order, Outdated
from pipeline.store.changes import SECTIONS, before, note
from pipeline.store.dose_recheck import OPENED, UNSIGNED, Rechecking, hit_of
from pipeline.store.frozen import Frozen
from pipeline.store.jobs import Jobs
from pipeline.store.naming import which
from pipeline.store.repository import Repository, fixed, plain
from pipeline.store.saving import findings_values
from pipeline.store.tables import DraftRow, FindingRow, FlagRow, JobRow, ReportRow, RuleVersionRow, StudyRow

WITHDRAWN = "study {} is withdrawn: its order is not corrected any more"
REVISED = frozenset({StudyState.COMPLETE, StudyState.PARTIAL})
WRITTEN = frozenset({JobState.DRAFTING, JobState.DRAFTED})  # its text has been written from the order as it was
RECHECKED = func.greatest(DraftRow.rules_version, DraftRow.rechecked_version)


class PgRenewals(Repository):
    """Renewals port on PostgreSQL."""

    def earlier(self, job: Job, department: str) -> Earlier | None:
        """What a job that was made for a change may keep."""
        if job.cause not in KEEPING:
            return None
        found = self.session.execute(before(job.study_id, job.revision, department)).one_or_none()
        if found is None:
            return None
        draft, old = found
        source = DraftSource(draft.rung, draft.model, draft.model_digest, draft.phantom_only, draft.server, draft.speculation)
        report = Report(draft.findings_text, draft.impression, draft.advice, self._findings(draft.id))
        frozen = Frozen(self.session).found(old.id)
        return Earlier(draft.id, old.features_path, draft.indication, frozen, report, source, self._hits(draft.id))

    def outdated(self, limit: int) -> tuple[UUID, ...]:
        """Ids of unsigned reports that readers see and that older rules have checked, oldest first."""
        return tuple(self.session.scalars(outdated_reports().order_by(ReportRow.created_at, ReportRow.id).limit(limit)))

    def take(self, report_id: UUID) -> Outdated | None:
        """Lock one; see the port."""
        mine = select(ReportRow.id).where(ReportRow.id == report_id).with_for_update(skip_locked=True)
        if self.session.scalars(mine).one_or_none() is None:
            return None
        # only now: who held the lock before has written what this statement sees
        if self.session.scalars(outdated_reports().where(ReportRow.id == report_id)).one_or_none() is None:
            return None
        query = select(ReportRow, DraftRow).join(DraftRow, DraftRow.id == ReportRow.draft_id).where(ReportRow.id == report_id)
        row, draft = self.session.execute(query, execution_options={"populate_existing": True}).one()
        (job,) = Jobs(self.session).read([draft.job_id])
        untouched = row.state == ReportState.WAITING.value and row.reviewed_by is None
        report = Report(draft.findings_text, draft.impression, draft.advice, self._findings(draft.id))
        return Outdated(row.id, draft.id, job, draft.department, untouched, draft.rules_version, report, self._hits(draft.id))

    def renew(self, one: Outdated, checked: Checked, hits: Sequence[Hit], changes: Sequence[Change]) -> bool:
        """See the port."""
        again = Rechecking(self.session).write_hits(one.draft_id, hits)
        values: dict[str, object] = {"rules_version": checked.rules_version}
        if one.untouched:
            values |= {SECTIONS[change.section]: plain(change.after) for change in changes}
            self._write_findings(one.draft_id, checked)
        self.session.execute(update(DraftRow).where(DraftRow.id == one.draft_id).values(**values))
        note(self.session, one.draft_id, Cause.RULES, changes, applied=one.untouched)
        return again

    def pass_over(self, one: Outdated, rules_version: int) -> None:
        """See the port."""
        self.session.execute(update(DraftRow).where(DraftRow.id == one.draft_id).values(rechecked_version=rules_version))

    def correct(self, study: str, order: Order, actor: str) -> tuple[UUID, tuple[str, ...], bool]:
        """See the port."""
        row = self.session.scalars(select(StudyRow).where(which(study)).with_for_update(key_share=True)).one_or_none()
        if row is None:
            raise NotFound("no study has this UID or id; `ctreport status` lists them")
        if row.state == StudyState.WITHDRAWN:
            raise NotAllowed(WITHDRAWN.format(row.id))
        said = {name: plain(value) for name in ("indication", "requesting_service") if (value := getattr(order, name)) is not None}
        new = tuple(name for name, value in said.items() if getattr(row, name) != value)
        for name in new:
            setattr(row, name, said[name])
        revised = bool(new) and self._is_written(row)
        if revised:
            row.renewal = Cause.ORDER.value
            if row.state in REVISED:
                _reopen(row)
        self.session.flush()
        return row.id, new, revised

    def _is_written(self, row: StudyRow) -> bool:
        """True when the text of the current revision was, or is being, written from the order as it was. What is assembled anew reads the new one."""
        query = select(JobRow.state).filter_by(study_id=row.id, revision=row.revision).with_for_update()
        return self.session.scalars(query).one_or_none() in WRITTEN

    def _findings(self, draft_id: UUID) -> tuple[Finding, ...]:
        names = ("candidate", "kind", "side", "lobe", "density", "size_mm", "margin", "internal", "surround")
        rows = self.session.scalars(select(FindingRow).where(FindingRow.draft_id == draft_id).order_by(FindingRow.position))
        return tuple(Finding(**{name: getattr(row, name) for name in names}) for row in rows)

    def _hits(self, draft_id: UUID) -> tuple[Hit, ...]:
        rows = self.session.scalars(select(FlagRow).where(FlagRow.draft_id == draft_id).order_by(FlagRow.position))
        return tuple(map(hit_of, rows))

    def _write_findings(self, draft_id: UUID, checked: Checked) -> None:
        """Advice, grading and what else follows from rules."""
        self.session.execute(delete(FindingRow).where(FindingRow.draft_id == draft_id))
        if rows := findings_values(draft_id, checked):
            self.session.execute(insert(FindingRow), rows)


def _reopen(row: StudyRow) -> None:
    """It is judged at once: nothing of it is waited for."""
    row.state = StudyState(row.state).move(StudyState.RECEIVING).value
    row.reason, row.attempts, row.due_at, row.arriving_since = None, 0, func.now(), func.now()
    row.lease_owner = row.lease_until = None


def outdated_reports() -> Select[UUID]:
    """Ids of unsigned reports that readers see and that the rules in force have not looked at."""
    newest: ColumnElement[int] = select(func.max(RuleVersionRow.version)).scalar_subquery()
    seen = or_(JobRow.state == fixed(JobState.DRAFTED), ReportRow.state.in_(OPENED))
    return (
        select(ReportRow.id)
        .join(DraftRow, DraftRow.id == ReportRow.draft_id)
        .join(JobRow, JobRow.id == DraftRow.job_id)
        .where(ReportRow.state.in_(UNSIGNED), seen, newest > RECHECKED)
    )
