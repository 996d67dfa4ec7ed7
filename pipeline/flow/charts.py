"""Control charts over the nightly samples: is this night, or the run of the last nights, as the nights before were? Pure.

For each figure and each group of drafts (all; each scanner; each department; each of both) the mean of the night is compared with the mean of the
baseline, the earlier nights, in units of its standard error (Shewhart's chart for means), and so is the weighted mean of the last nights, which sees
slow drift sooner (EWMA, Roberts 1959). The limit is set for all charts of a night together: without drift, one night in a hundred rings.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist, fmean, stdev

from pipeline.sampling import FIGURES, Alarm, Chart, Figure, Measured, Worse

FALSE_ALARMS = 0.01  # of a night, all its charts together
LEAST_BASELINE = 20  # drafts; with fewer a chart learns and says nothing
LEAST_DRAFTS = 2  # of the nights that are compared with it: one odd draft is no drift
RECENT_NIGHTS = 5  # that the weighted mean looks at; they are not in the baseline once it is long enough without them
WEIGHT = 0.25  # of the newest night
GROUPED_BY = ((True, True), (True, False), (False, True), (False, False))  # scanner, department


@dataclass(frozen=True, slots=True)
class Level:
    """Mean of some drafts and the variance of that mean, per variance of one draft. `drafts` that it rests on."""

    mean: float
    share_of_variance: float
    drafts: int


@dataclass(frozen=True, slots=True)
class Compared:
    """One chart's point, and what it is held against."""

    chart: Chart
    level: Level
    baseline: Sequence[float]


def drift(tonight: Sequence[Measured], history: Sequence[Measured]) -> tuple[Alarm, ...]:
    """What left its limits this night, the worst first. `history`: earlier nights, oldest first."""
    groups = list(_groups(tonight, history))
    points = [(figure, now, before, point) for now, before in groups for figure in FIGURES for point in _points(figure, now, before)]
    found = [
        (distance, _alarm(figure, now, before, point, limit))
        for figure, now, before, point in points
        for distance, limit in _outside(figure, point, len(points))
    ]
    return tuple(alarm for _, alarm in sorted(found, key=lambda one: -one[0]))


def learning(history: Sequence[Measured]) -> int:
    """How many more drafts the baseline of all drafts needs."""
    return max(0, LEAST_BASELINE - len(history))


def _groups(tonight: Sequence[Measured], history: Sequence[Measured]) -> Iterator[tuple[Sequence[Measured], Sequence[Measured]]]:
    """Tonight's and the earlier drafts of each group, the narrow ones first; a wider one with the same drafts is the same group."""
    seen = set()
    for scanner, department in GROUPED_BY:
        now, before = _split(tonight, scanner, department), _split(history, scanner, department)
        for key, members in sorted(now.items()):
            earlier = before.get(key, [])
            same = frozenset(one.draft_id for one in (*members, *earlier))
            if same not in seen:
                seen.add(same)
                yield members, earlier


def _points(figure: Figure, now: Sequence[Measured], before: Sequence[Measured]) -> Iterator[Compared]:
    """The night, and the run of nights where the baseline is long enough without them."""
    tonight = _values(figure, now)
    if not tonight:
        return
    nights = sorted({one.night for one in before})
    early = _values(figure, [one for one in before if one.night in nights[: -(RECENT_NIGHTS - 1)]])
    baseline = early if len(early) >= LEAST_BASELINE else _values(figure, before)
    if len(baseline) < LEAST_BASELINE:
        return
    if len(tonight) >= LEAST_DRAFTS:
        yield Compared(Chart.JUMP, Level(fmean(tonight), 1 / len(tonight), len(tonight)), baseline)
    recent = [_values(figure, [one for one in before if one.night == night]) for night in nights[-(RECENT_NIGHTS - 1) :]]
    if len(early) >= LEAST_BASELINE and any(recent):
        yield Compared(Chart.TREND, weighted([*filter(None, recent), tonight]), baseline)


def weighted(nights: Sequence[Sequence[float]]) -> Level:
    """Exponentially weighted mean of nights' means, the newest last."""
    raw = [WEIGHT * (1 - WEIGHT) ** age for age in reversed(range(len(nights)))]
    weights = [one / sum(raw) for one in raw]
    mean = sum(weight * fmean(values) for weight, values in zip(weights, nights, strict=True))
    share = sum(weight**2 / len(values) for weight, values in zip(weights, nights, strict=True))
    return Level(mean, share, sum(map(len, nights)))


def limit_of(charts: int, baseline: int, two_sided: bool) -> float:
    """How many standard errors a point may lie off, for so many charts: a quantile of Student's t (Cornish and Fisher 1937), since the spread is
    estimated from `baseline` drafts."""
    tail = FALSE_ALARMS / max(1, charts) / (2 if two_sided else 1)
    normal = NormalDist().inv_cdf(1 - tail)
    return normal + (normal**3 + normal) / (4 * (baseline - 1))


def _outside(figure: Figure, point: Compared, charts: int) -> Iterator[tuple[float, float]]:
    """How many standard errors the point lies off and the value that it passed, where it did."""
    expected, sd = fmean(point.baseline), max(stdev(point.baseline), figure.least_sd)
    error = sd * sqrt(point.level.share_of_variance + 1 / len(point.baseline))
    shift = point.level.mean - expected
    bad = {Worse.LOWER: -shift, Worse.HIGHER: shift, Worse.EITHER: abs(shift)}[figure.worse]
    most = max(limit_of(charts, len(point.baseline), figure.worse is Worse.EITHER) * error, figure.least_shift)
    if bad > most:
        yield bad / error, expected + (most if shift > 0 else -most)


def _alarm(figure: Figure, now: Sequence[Measured], before: Sequence[Measured], point: Compared, limit: float) -> Alarm:
    known = {*(one.model for one in before), *(f"rules {one.rules_version}" for one in before)}
    models, versions = _sorted(one.model for one in now), tuple(sorted({one.rules_version for one in now}))
    fresh = tuple(name for name in (*models, *(f"rules {version}" for version in versions)) if name not in known)
    return Alarm(
        night=now[0].night,
        figure=figure.name,
        chart=point.chart,
        scanners=_sorted(one.scanner for one in now),
        departments=_sorted(one.department for one in now),
        models=models,
        rules_versions=versions,
        value=point.level.mean,
        expected=fmean(point.baseline),
        limit=limit,
        drafts=point.level.drafts,
        baseline_drafts=len(point.baseline),
        fresh=fresh,
    )


def _values(figure: Figure, drafts: Iterable[Measured]) -> list[float]:
    return [value for one in drafts if (value := one.figures.get(figure.name)) is not None]


def _split(drafts: Iterable[Measured], scanner: bool, department: bool) -> dict[tuple[str, str], list[Measured]]:
    groups: defaultdict[tuple[str, str], list[Measured]] = defaultdict(list)
    for one in drafts:
        groups[one.scanner if scanner else "", one.department if department else ""].append(one)
    return groups


def _sorted(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(names)))
