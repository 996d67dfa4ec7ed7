"""The nightly quality samples in PostgreSQL."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from datetime import date, datetime
from typing import Any, cast
from uuid import UUID

from sqlalchemy import delete, func, select, update
from sqlalchemy.dialects.postgresql import insert

from pipeline.model import Candidate, Finding, Generation, Report, Severity, Side
from pipeline.sampling import Alarm, Chart, Drafted, Measured, Sample, Sampled, Stratum
from pipeline.store.repository import Repository
from pipeline.store.tables import (
    DraftCandidateRow,
    DraftFrameRow,
    DraftRow,
    FindingRow,
    FlagRow,
    JobRow,
    SampleAlarmRow,
    SampledDraftRow,
    SampleRow,
    StudyRow,
)

NO_STATION = "unknown"  # a scanner that does not say its station name
DIGEST = 12  # digits of a model's digest that tell it from others
Many = dict[UUID, list[Any]]


class PgSamples(Repository):
    """`sampling.Samples`."""

    def open(self, sample: Sample) -> bool:
        """Somebody else's open transaction on the same night is waited for; once it is there, this is nobody's work any more."""
        facts = {name: getattr(sample, name) for name in ("night", "since", "until", "share", "seed")}
        made = self.session.execute(insert(SampleRow).values(**facts).on_conflict_do_nothing().returning(SampleRow.night))
        return made.scalar_one_or_none() is not None

    def drafts(self, since: datetime, until: datetime) -> tuple[Drafted, ...]:
        """By the time at which they were saved."""
        query = (
            select(DraftRow.id, DraftRow.department, StudyRow.station)
            .join(JobRow, JobRow.id == DraftRow.job_id)
            .join(StudyRow, StudyRow.id == JobRow.study_id)
            .where(DraftRow.created_at >= since, DraftRow.created_at < until)
            .order_by(DraftRow.created_at, DraftRow.id)
        )
        return tuple(Drafted(draft_id, department, station or NO_STATION) for draft_id, department, station in self.session.execute(query))

    def read(self, ids: Sequence[UUID]) -> tuple[Sampled, ...]:
        """In the order of `ids`; what is gone meanwhile is left out."""
        query = (
            select(DraftRow, StudyRow.station, StudyRow.indication)
            .join(JobRow, JobRow.id == DraftRow.job_id)
            .join(StudyRow, StudyRow.id == JobRow.study_id)
            .where(DraftRow.id.in_(ids))
        )
        found = {row.id: (row, station or NO_STATION, indication) for row, station, indication in self.session.execute(query)}
        findings, regions = self._of(FindingRow, ids, FindingRow.position), self._of(DraftCandidateRow, ids, DraftCandidateRow.index)
        frames = self.session.scalars(select(DraftFrameRow).where(DraftFrameRow.draft_id.in_(ids)))
        midlines = {frame.draft_id: frame.midline_mm for frame in frames}
        flags = self.session.scalars(select(FlagRow.draft_id).where(FlagRow.draft_id.in_(ids), FlagRow.severity == Severity.REPLACED.value))
        replaced = Counter(flags)
        return tuple(
            Sampled(
                id=draft_id,
                department=row.department,
                scanner=station,
                model=f"{row.model}@{row.model_digest[:DIGEST]}",
                rules_version=row.rules_version,
                report=_report(row, findings[draft_id]),
                indication=indication,
                candidates=tuple(_candidate(region) for region in regions[draft_id]),
                midline_mm=midlines.get(draft_id),
                replaced=replaced[draft_id],
                acceptance=_acceptance(row),
            )
            for draft_id in ids
            if draft_id in found
            for row, station, indication in [found[draft_id]]
        )

    def history(self, before: date, nights: int) -> tuple[Measured, ...]:
        """See the port."""
        begun = select(func.max(SampleRow.night)).where(SampleRow.anew, SampleRow.night < before).scalar_subquery()
        wanted = select(SampleRow.night).where(SampleRow.night < before, SampleRow.night >= func.coalesce(begun, date.min))
        newest = wanted.order_by(SampleRow.night.desc()).limit(nights)
        return self._measured(SampledDraftRow.night.in_(newest))

    def keep(self, sample: Sample) -> None:
        """See the port."""
        night = sample.night
        self.session.execute(delete(SampledDraftRow).where(SampledDraftRow.night == night))
        facts = {"strata": [asdict(one) for one in sample.strata], "learning": sample.learning}
        self.session.execute(update(SampleRow).where(SampleRow.night == night).values(**facts))
        for one in sample.measured:
            self.session.add(SampledDraftRow(**asdict(one) | {"figures": dict(one.figures)}))
        for position, alarm in enumerate(sample.alarms):
            self.session.add(_alarm_row(position, alarm))
        self.session.flush()

    def get(self, night: date) -> Sample | None:
        """See the port."""
        row = self.session.get(SampleRow, night)
        if row is None:
            return None
        strata = tuple(Stratum(**cast("dict[str, Any]", one)) for one in row.strata)
        measured = self._measured(SampledDraftRow.night == night)
        return Sample(night, row.since, row.until, row.share, row.seed, strata, measured, self.alarms(night), row.learning)

    def last(self) -> date | None:
        """See the port."""
        return self.session.scalar(select(func.max(SampleRow.night)))

    def alarms(self, night: date) -> tuple[Alarm, ...]:
        """The worst first."""
        rows = self.session.scalars(select(SampleAlarmRow).where(SampleAlarmRow.night == night).order_by(SampleAlarmRow.position))
        return tuple(_alarm(row) for row in rows)

    def begin_anew(self, night: date) -> bool:
        """See the port."""
        done = self.session.execute(update(SampleRow).where(SampleRow.night == night).values(anew=True).returning(SampleRow.night))
        return done.scalar_one_or_none() is not None

    def _measured(self, condition: Any) -> tuple[Measured, ...]:
        rows = self.session.scalars(select(SampledDraftRow).where(condition).order_by(SampledDraftRow.night, SampledDraftRow.draft_id))
        names = ("draft_id", "night", "department", "scanner", "model", "rules_version", "figures")
        return tuple(Measured(**{name: getattr(row, name) for name in names}) for row in rows)

    def _of(self, table: Any, ids: Sequence[UUID], order: Any) -> Many:
        found: Many = defaultdict(list)
        for row in self.session.scalars(select(table).where(table.draft_id.in_(ids)).order_by(order)):
            found[row.draft_id].append(row)
        return found


def _report(row: DraftRow, findings: Sequence[FindingRow]) -> Report:
    names = ("candidate", "kind", "side", "lobe", "density", "size_mm", "margin", "internal", "surround")
    told = tuple(Finding(**{name: getattr(one, name) for name in names}) for one in findings)
    return Report(row.findings_text, row.impression, row.advice, told)


def _candidate(row: DraftCandidateRow) -> Candidate:
    x, y, z = row.center_mm
    return Candidate(row.index, row.kind, (x, y, z), Side(row.side), row.lobe or None, row.density or None, row.size_mm, row.score)


def _acceptance(row: DraftRow) -> float | None:
    """None where no token was drafted: then there is nothing to accept."""
    positions = tuple((drafted, accepted) for drafted, accepted in row.positions)
    histogram = tuple(row.accepted_histogram)
    drafted = sum(drafted for drafted, _ in positions) if positions else (len(histogram) - 1) * sum(histogram)
    return Generation(row.tokens, row.verify_count, histogram, row.seconds, positions=positions).acceptance if drafted > 0 else None


def _alarm_row(position: int, alarm: Alarm) -> SampleAlarmRow:
    facts = asdict(alarm)
    facts["limit_at"], facts["chart"] = facts.pop("limit"), alarm.chart.value
    return SampleAlarmRow(position=position, **{name: list(value) if isinstance(value, tuple) else value for name, value in facts.items()})


def _alarm(row: SampleAlarmRow) -> Alarm:
    names = ("night", "figure", "value", "expected", "drafts", "baseline_drafts")
    lists = ("scanners", "departments", "models", "rules_versions", "fresh")
    facts = {name: getattr(row, name) for name in names} | {name: tuple(getattr(row, name)) for name in lists}
    return Alarm(**facts, chart=Chart(row.chart), limit=row.limit_at)
