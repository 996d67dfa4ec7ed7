"""The morning report: what was planned for a night, what came of it, how it was read, and what will not be ready for the first reader."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from statistics import median
from typing import Any

from pipeline.flow.sample import told
from pipeline.model import JobState, Priority
from pipeline.nightly import Encoding, Night, NightDraft, NightStudy, Pace, Reading
from pipeline.sampling import Sample

HOUR = timedelta(hours=1)
READING_MIN = {"before": 12, "with_drafts": 6}  # minutes per report before and with drafts, as the source article gives them
ON_CPU = frozenset({"compact"})  # encoders that need no GPU
ENDED = frozenset({JobState.FAILED.value, JobState.UNSUPPORTED.value})
Span = tuple[datetime, datetime]


def morning(night: Night, sample: Sample | None = None) -> dict[str, Any]:
    """All figures of one night, as `ctreport night report --json` gives them; `sample`: its quality sample, None while it was not taken."""
    planned = [one for one in night.studies if one.kind is not None]
    return {
        "window": {"opens": _iso(night.window.opens), "closes": _iso(night.window.closes)},
        "first_reader": _iso(night.first_reader_at),
        "made_at": _iso(night.now),
        "plan": _plan(night),
        "studies": counted(night.studies) | {"planned": len(planned), "arrived": len(night.studies) - len(planned)},
        "planned": counted(planned) | {"kinds": dict(Counter(str(one.kind) for one in planned))},
        "failed": _reasons(night.studies),
        "not_ready": [_open(one) for one in night.studies if is_late(one, night)],
        **figures(night.drafts, night.readings),
        "hours": hours(night.drafts, night.encodings),
        "drift": drifted(sample),
        "reading_minutes_of_the_source_article": READING_MIN,
        "departments": {name: _department(night, name) for name in _departments(night)},
    }


def drifted(sample: Sample | None) -> dict[str, Any] | None:
    """What the quality sample of the night says: how many drafts were measured, how many the baseline lacks, and each alarm in words."""
    if sample is None:
        return None
    counts = {"night": sample.night.isoformat(), "sampled": len(sample.measured), "drafts": sample.drafts, "learning": sample.learning}
    return counts | {"alarms": [told(alarm) for alarm in sample.alarms]}


def counted(studies: Sequence[NightStudy]) -> dict[str, int]:
    """Studies by what came of them; a partial one is ready too."""
    return {
        "ready": sum(one.drafted_at is not None for one in studies),
        "partial": sum(one.drafted_at is not None and bool(one.partial) for one in studies),
        "failed": sum(one.drafted_at is None and one.state in ENDED for one in studies),
        "open": sum(one.drafted_at is None and one.state not in ENDED for one in studies),
    }


def figures(drafts: Sequence[NightDraft], readings: Sequence[Reading]) -> dict[str, Any]:
    """Flags, times and acceptance of some drafts, and how reports were read."""
    drafted, accepted = (sum(getattr(one, name) for one in drafts) for name in ("drafted", "accepted"))
    return {
        "drafts": len(drafts),
        "flags": _flags(drafts),
        "arrival_to_draft_s": by_priority(drafts, lambda one: one.drafted_at - one.received),
        "draft_to_opened_s": by_priority(readings, lambda one: one.opened_at - one.drafted_at),
        "opened_to_signed_s": by_priority([one for one in readings if one.signed_at], lambda one: (one.signed_at or one.opened_at) - one.opened_at),
        "acceptance": round(accepted / drafted, 4) if drafted else None,
    }


def by_priority(rows: Sequence[Any], seconds: Callable[[Any], timedelta]) -> dict[str, dict[str, float | int]]:
    """n, median and 95th percentile in seconds, of all and of each priority that occurs."""
    groups: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        value = seconds(row) / timedelta(seconds=1)
        for name in ("all", Priority(row.priority).name.lower()):
            groups[name].append(value)
    order = ["all", *(priority.name.lower() for priority in Priority)]
    return {name: spread(groups[name]) for name in order if name in groups}


def spread(values: Sequence[float]) -> dict[str, float | int]:
    """n, median and p95 (nearest rank: the smallest value that at least 95 % do not exceed)."""
    ranked = sorted(values)
    return {"n": len(ranked), "median": round(median(ranked), 3), "p95": round(ranked[math.ceil(0.95 * len(ranked)) - 1], 3)}


def hours(drafts: Sequence[NightDraft], encodings: Sequence[Encoding] = ()) -> dict[str, float]:
    """Hours of work. A draft of the embedded engine takes a processor for itself, so these add up; a server writes many at once, so of these the
    hours count in which it wrote any. Encoders likewise, those for GPUs with the servers."""
    own = sum((timedelta(seconds=one.seconds) for one in drafts if not one.served), timedelta())
    on_cpu = [(one.begins, one.ends) for one in encodings if one.encoder in ON_CPU]
    on_gpu = [(one.begins, one.ends) for one in encodings if one.encoder not in ON_CPU]
    served = [(one.drafted_at - timedelta(seconds=one.seconds), one.drafted_at) for one in drafts if one.served]
    return {"cpu": round((own + covered(on_cpu)) / HOUR, 4), "gpu": round(covered([*on_gpu, *served]) / HOUR, 4)}


def covered(spans: Iterable[Span]) -> timedelta:
    """How much time some spans cover together, each moment once."""
    total, until = timedelta(), None
    for begins, ends in sorted(spans):
        begins = begins if until is None else max(begins, until)
        total += max(ends - begins, timedelta())
        until = ends if until is None else max(until, ends)
    return total


def is_late(one: NightStudy, night: Night) -> bool:
    """True when somebody wants it and its draft will not be there in time: by the plan's estimate, by now, or because it has ended without one."""
    wanted = one.reads_at or (night.first_reader_at if one.kind is None else None)
    if one.drafted_at is not None or wanted is None:
        return False
    return one.state in ENDED or max(one.expected_at or night.now, night.now) > wanted


def _plan(night: Night) -> dict[str, Any] | None:
    plan = night.plan
    if plan is None:
        return None
    pace = _pace(plan.pace) if plan.pace else None
    return {"id": str(plan.id), "planned_at": _iso(plan.planned_at), "ended_at": _iso(plan.ended_at), "pace": pace}


def _pace(pace: Pace) -> dict[str, float | int]:
    slots = {"encode_slots": pace.encode_slots, "draft_slots": pace.draft_slots}
    return {"encode_s": pace.encode_s, "draft_s": pace.draft_s, "measured_on": pace.studies, **slots}


def _reasons(studies: Sequence[NightStudy]) -> list[dict[str, Any]]:
    """Why studies have ended without a draft, the commonest reason first."""
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for one in studies:
        if one.drafted_at is None and one.state in ENDED:
            found[one.state, one.reason].append(str(one.study_id))
    ordered = sorted(found.items(), key=lambda item: (-len(item[1]), item[0]))
    return [{"state": state, "reason": reason, "count": len(ids), "studies": ids} for (state, reason), ids in ordered]


def _open(one: NightStudy) -> dict[str, Any]:
    stands = {"state": one.state, "step": one.step, "reason": one.reason}
    times = {"reads_at": _iso(one.reads_at), "expected_at": _iso(one.expected_at)}
    return {"id": str(one.study_id), "priority": one.priority.name.lower(), **stands, **times}


def _flags(drafts: Sequence[NightDraft]) -> dict[str, Any]:
    """Hits by severity and by rule, and how many drafts have any."""
    by_severity: Counter[str] = Counter()
    by_rule: Counter[str] = Counter()
    for one in drafts:
        for (rule, severity), hits in one.flags.items():
            by_severity[severity] += hits
            by_rule[rule] += hits
    return {"drafts": sum(bool(one.flags) for one in drafts), "severity": dict(by_severity.most_common()), "rule": dict(by_rule.most_common())}


def _departments(night: Night) -> list[str]:
    missing = (name for one in night.studies for name in one.departments)
    return sorted({*(one.department for one in night.drafts), *(one.department for one in night.readings), *missing})


def _department(night: Night, name: str) -> Mapping[str, Any]:
    drafts = [one for one in night.drafts if one.department == name]
    partial = {one.study_id for one in night.studies if one.partial}
    counts = {"ready": len(drafts), "partial": sum(one.study_id in partial for one in drafts)}
    counts["unwritten"] = sum(name in one.departments for one in night.studies)
    return counts | figures(drafts, [one for one in night.readings if one.department == name]) | {"hours": hours(drafts)}


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat(timespec="seconds")
