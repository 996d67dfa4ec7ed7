"""Assemble: claim quiet studies, and freeze one as a revision with its job."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import BigInteger, Select, exists, func, literal_column, select, update

from pipeline.choosing import SeriesChoice, SeriesScore
from pipeline.evidence import Patience, Verdict, VerdictKind
from pipeline.model import Instance, JobState, Lease, Priority, ReportState, Series, Study, StudyState
from pipeline.renewing import Cause
from pipeline.store import ranking
from pipeline.store.barring import bar
from pipeline.store.evidence import as_facts, is_candidate
from pipeline.store.rejecting import is_rejected
from pipeline.store.repository import Repository, in_seconds, plain
from pipeline.store.tables import DraftRow, InstanceRow, JobRow, SeriesRow, StudyRow
from pipeline.urgency import rank

FREE = {"lease_owner": None, "lease_until": None}
SUPERSEDED = "a newer revision of the study took its place"


def quiet_studies(patience: Patience, urgent: bool = False) -> Select[UUID]:
    """Ids of the studies that may be complete, or of those of them that are STAT, in the order of the claim."""
    ready = select(StudyRow.id).where(is_candidate(patience)).order_by(StudyRow.last_received)
    return ready.where(StudyRow.priority == literal_column(str(Priority.STAT.value), BigInteger)) if urgent else ready


class Assembling(Repository):
    """The assemble step's rows."""

    def claim_quiet(self, patience: Patience, limit: int, lease: Lease) -> tuple[Study, ...]:
        """Up to `limit` studies that may be complete under a lease, STAT alone where there is any, oldest first; see the Studies port."""
        return self._claim_quiet(quiet_studies(patience, urgent=True), limit, lease) or self._claim_quiet(quiet_studies(patience), limit, lease)

    def _claim_quiet(self, which: Select[UUID], limit: int, lease: Lease) -> tuple[Study, ...]:
        quiet = which.limit(limit).with_for_update(of=StudyRow, skip_locked=True).cte("quiet")
        leased = {"lease_owner": lease.owner, "lease_until": in_seconds(lease.seconds), "attempts": StudyRow.attempts + 1}
        taken = update(StudyRow).where(StudyRow.id.in_(select(quiet.c.id))).values(**leased).returning(StudyRow)
        rows = self.session.scalars(taken, execution_options={"populate_existing": True, "synchronize_session": False}).all()
        rows = sorted(rows, key=lambda row: row.last_received)
        series = self._series([row.id for row in rows])
        return tuple(_study(row, series[row.id]) for row in rows)

    def freeze(
        self, study: Study, choice: SeriesChoice, is_phantom: bool, reason: str | None, verdict: Verdict, night_in_s: float = 0.0
    ) -> UUID | None:
        """Study → complete or partial, and a job for its next revision; None when an image arrived meanwhile or nothing changed. See the Studies
        port."""
        row = self._unchanged(study)
        if row is None:
            return None
        to = StudyState.COMPLETE if verdict.kind is VerdictKind.COMPLETE else StudyState.PARTIAL
        settled = {"state": StudyState(row.state).move(to).value, "attempts": 0, "evidence": as_facts(verdict), "renewal": "", **FREE}
        files = [instance.path for series in choice.chosen for instance in series.instances]
        if self._goes_on(row, choice, reason, verdict):
            self.session.execute(update(StudyRow).where(StudyRow.id == row.id).values(**settled))
            return None
        bar(self.session, row.id, (ReportState.WAITING,), SUPERSEDED, every_delivery=False)
        revision, cause = row.revision + 1, self._cause(row)
        self.session.execute(update(StudyRow).where(StudyRow.id == row.id).values(**settled, revision=revision))
        due_in_s = night_in_s if row.priority == Priority.NIGHT else 0.0
        return self._add_job(row, revision, files, choice, is_phantom, reason, verdict, cause, due_in_s)

    def _cause(self, row: StudyRow) -> Cause:
        """Why the next revision is made. What an operator wanted anew stays so until it is written."""
        if row.revision == 0 or row.renewal:
            return Cause(row.renewal)
        written = exists().where(DraftRow.job_id == JobRow.id)
        anew = select(JobRow.id).where(JobRow.study_id == row.id, JobRow.revision == row.revision, JobRow.cause == Cause.RERUN.value, ~written)
        return Cause.IMAGES if self.session.scalars(anew).one_or_none() is None else Cause.RERUN

    def _unchanged(self, study: Study) -> StudyRow | None:
        """The study's row, locked; None when it is not what was claimed: frozen by somebody else, held, or with a newer image."""
        query = select(StudyRow).where(StudyRow.id == study.id).with_for_update(key_share=True)
        row = self.session.scalars(query, execution_options={"populate_existing": True}).one_or_none()
        if row is None or row.state != StudyState.RECEIVING:
            return None
        return row if (row.last_received, row.images) == (study.last_received, study.images) else None

    def _goes_on(self, row: StudyRow, choice: SeriesChoice, reason: str | None, verdict: Verdict) -> bool:
        """True when the present job reads what would be read now, for the same order; what it falls back on is brought up to date."""
        if row.renewal:
            return False
        query = select(JobRow).filter_by(study_id=row.id, revision=row.revision).with_for_update()
        job = self.session.scalars(query, execution_options={"populate_existing": True}).one_or_none()
        if job is None or job.state == JobState.SUPERSEDED:
            return False
        unsupported = job.state == JobState.UNSUPPORTED
        fresh = ranking.refreshed(job, choice)
        same = fresh is not None and job.region == choice.region and unsupported == (reason is not None)
        if fresh is None or not same or job.completeness != plain(verdict.reason):
            return False
        job.series_ranked = fresh
        return True

    def _add_job(
        self,
        row: StudyRow,
        revision: int,
        files: list[str],
        choice: SeriesChoice,
        is_phantom: bool,
        reason: str | None,
        verdict: Verdict,
        cause: Cause,
        due_in_s: float,
    ) -> UUID:
        state = JobState.READY if reason is None else JobState.READY.move(JobState.UNSUPPORTED)
        job = JobRow(
            study_id=row.id,
            revision=revision,
            state=state.value,
            priority=row.priority,
            rank_at=rank(Priority(row.priority), row.arriving_since),
            due_at=in_seconds(due_in_s),
            cause=cause.value,
            reason=reason,
            series_chosen=[series.series_uid for series in choice.chosen],
            series_refused=[[uid, plain(why)] for uid, why in choice.refused],
            series_scores=[_score(one) for one in choice.scores],
            series_ranked=ranking.rows_of(choice),
            files=files,
            region=choice.region,
            is_phantom=is_phantom,
            completeness=plain(verdict.reason),
            evidence=as_facts(verdict),
            ended_at=None if reason is None else func.now(),
        )
        self.session.add(job)
        self.session.flush()
        return job.id

    def _series(self, study_ids: Sequence[UUID]) -> dict[UUID, tuple[Series, ...]]:
        """The series of some studies with their first instances, in slice order, without those that a rejection note took back."""
        instances: dict[UUID, list[InstanceRow]] = defaultdict(list)
        first = (
            select(InstanceRow)
            .join(StudyRow, StudyRow.id == InstanceRow.study_id)
            .where(InstanceRow.study_id.in_(study_ids), InstanceRow.is_first, ~is_rejected())
            .order_by(InstanceRow.instance_number.nulls_last(), InstanceRow.sop_uid)
        )
        for instance in self.session.scalars(first):
            instances[instance.series_id].append(instance)
        found: dict[UUID, list[Series]] = defaultdict(list)
        query = select(SeriesRow, StudyRow.study_uid).join(StudyRow, StudyRow.id == SeriesRow.study_id)
        for row, study_uid in self.session.execute(query.where(SeriesRow.study_id.in_(study_ids)).order_by(SeriesRow.series_uid)):
            if row.id in instances:
                found[row.study_id].append(_one_series(row, study_uid, instances[row.id]))
        return defaultdict(tuple, {study_id: tuple(series) for study_id, series in found.items()})


def _score(one: SeriesScore) -> dict[str, object]:
    """One stack's score as `ctreport show` gives it."""
    facts: dict[str, object] = {"uid": one.series_uid, "number": one.number, "description": plain(one.description), "stack": plain(one.stack)}
    parts = [{"rule": part.rule, "points": part.points, "reason": plain(part.reason)} for part in one.parts]
    return facts | {"images": one.images, "score": one.score, "refusal": plain(one.refusal), "parts": parts}


def _study(row: StudyRow, series: tuple[Series, ...]) -> Study:
    return Study(
        id=row.id,
        study_uid=row.study_uid,
        state=StudyState(row.state),
        revision=row.revision,
        first_received=row.first_received,
        last_received=row.last_received,
        images=row.images,
        indication=row.indication,
        description=row.description,
        series=series,
        station=row.station,
    )


def _one_series(row: SeriesRow, study_uid: str, instances: list[InstanceRow]) -> Series:
    return Series(
        series_uid=row.series_uid,
        modality=row.modality,
        description=row.description,
        body_part=row.body_part,
        kernel=row.kernel,
        thickness_mm=row.thickness_mm,
        number=row.number,
        kvp=row.kvp,
        contrast_agent=row.contrast_agent,
        protocol=row.protocol,
        instances=tuple(_instance(one, study_uid, row.series_uid) for one in instances),
    )


def _instance(row: InstanceRow, study_uid: str, series_uid: str) -> Instance:
    position = row.position_mm
    return Instance(
        sop_uid=row.sop_uid,
        sop_class=row.sop_class,
        transfer_syntax=row.transfer_syntax,
        study_uid=study_uid,
        series_uid=series_uid,
        modality=row.modality,
        sha256=row.sha256,
        size_bytes=row.size_bytes,
        path=row.path,
        instance_number=row.instance_number,
        rows=row.rows,
        columns=row.columns,
        position_mm=None if position is None else (position[0], position[1], position[2]),
        orientation=None if row.orientation is None else tuple(row.orientation),
        image_type=tuple(row.image_type),
        flags=tuple(row.flags),
        content=row.content,
        frames=row.frames,
        acquisition=row.acquisition,
        temporal=row.temporal,
        lossy=row.lossy,
    )
