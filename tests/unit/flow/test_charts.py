"""Control charts: quiet where nothing drifts, and which drift they see how soon."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.flow.charts import LEAST_BASELINE, drift, learning, limit_of, weighted
from pipeline.sampling import Chart, Measured

FIRST = date(2026, 1, 1)
MEANS = {"fields": 0.98, "terms": 0.5, "sides": 1.0, "repetition": 0.05, "length": 300.0, "acceptance": 0.7}
SPREAD = {"fields": 0.02, "terms": 0.7, "sides": 0.0, "repetition": 0.04, "length": 40.0, "acceptance": 0.08}
GROUPS = (("CT1", "radiology"), ("CT1", "oncology"), ("CT2", "radiology"), ("CT2", "oncology"))


def night(
    number: int,
    rng: random.Random,
    each: int = 5,
    shift: Mapping[str, float] | None = None,
    only: tuple[str, str] | None = None,
    model: str = "m@1",
    rules: int = 1,
) -> list[Measured]:
    """One night of two scanners and two departments; `shift` in standard deviations, of `only` one group where that is given."""
    return [
        Measured(
            UUID(int=rng.getrandbits(128)),
            FIRST + timedelta(days=number),
            department,
            scanner,
            model,
            rules,
            {
                name: rng.gauss(mean, SPREAD[name]) + ((shift or {}).get(name, 0.0) * SPREAD[name] if only in (None, (scanner, department)) else 0.0)
                for name, mean in MEANS.items()
            },
        )
        for scanner, department in GROUPS
        for _ in range(each)
    ]


def past(rng: random.Random, nights: int = 20) -> list[Measured]:
    return [one for number in range(nights) for one in night(number, rng)]


def test_without_drift_hardly_a_night_rings() -> None:
    rng = random.Random(1)
    history, rung = past(rng), 0
    for number in range(20, 80):
        tonight = night(number, rng)
        rung += bool(drift(tonight, history))
        history = [*history, *tonight][-800:]
    assert rung <= 4, f"{rung} of 60 nights rang without drift; a hundredth is what the limits are set for"


def test_a_scanner_that_jumps_is_named_with_its_department_model_and_rules() -> None:
    rng = random.Random(2)
    alarms = drift(night(20, rng, shift={"acceptance": -3.0}, only=("CT2", "oncology"), model="m@2", rules=7), past(rng))
    first = alarms[0]
    assert (first.figure, first.chart, first.scanners, first.departments) == ("acceptance", Chart.JUMP, ("CT2",), ("oncology",))
    assert (first.models, first.rules_versions, first.fresh) == (("m@2",), (7,), ("m@2", "rules 7"))
    assert first.value < first.limit < first.expected
    assert all("CT2" in alarm.scanners for alarm in alarms)


def test_a_shift_of_everything_too_small_for_one_group_is_seen_in_all_together() -> None:
    rng = random.Random(3)
    alarms = drift(night(20, rng, shift={"length": 1.2}), past(rng))
    assert [alarm.figure for alarm in alarms][:1] == ["length"]
    assert set(alarms[0].scanners) == {"CT1", "CT2"}


def test_slow_drift_is_a_trend_before_any_night_alone_is_out() -> None:
    rng = random.Random(4)
    history = past(rng, 30)
    charts: set[Chart] = set()
    for step in range(1, 6):
        tonight = night(29 + step, rng, shift={"repetition": 0.45 * step})
        charts = {alarm.chart for alarm in drift(tonight, history) if alarm.figure == "repetition" and len(alarm.scanners) == 2}
        if charts:
            break
        history = [*history, *tonight]
    assert Chart.TREND in charts


@pytest.mark.parametrize(("figure", "shift"), [("fields", 3.0), ("terms", -3.0), ("repetition", -3.0), ("acceptance", 3.0)])
def test_drafts_that_get_better_are_no_alarm(figure: str, shift: float) -> None:
    rng = random.Random(5)
    assert figure not in {alarm.figure for alarm in drift(night(20, rng, shift={figure: shift}), past(rng))}


@pytest.mark.parametrize("shift", [-3.0, 3.0])
def test_reports_may_become_neither_longer_nor_shorter(shift: float) -> None:
    rng = random.Random(6)
    assert "length" in {alarm.figure for alarm in drift(night(20, rng, shift={"length": shift}), past(rng))}


def test_a_figure_that_never_varied_rings_for_a_real_fault_and_not_for_a_hair() -> None:
    rng = random.Random(7)
    history = past(rng)

    def with_sides(value: float) -> Sequence[Measured]:
        return [Measured(**{name: getattr(one, name) for name in NAMES} | {"figures": {"sides": value}}) for one in night(20, rng)]

    assert not drift(with_sides(0.985), history)
    assert {alarm.figure for alarm in drift(with_sides(0.8), history)} == {"sides"}


NAMES = ("draft_id", "night", "department", "scanner", "model", "rules_version")


def test_a_short_baseline_learns_and_says_nothing() -> None:
    rng = random.Random(8)
    history = night(0, rng, each=1)
    assert drift(night(1, rng, shift={"length": 20.0}), history) == ()
    assert learning(history) == LEAST_BASELINE - 4
    assert learning(past(rng)) == 0


def test_one_odd_draft_of_a_scanner_is_no_drift() -> None:
    rng = random.Random(9)
    alarms = drift(night(20, rng, each=1, shift={"terms": 6.0}, only=("CT1", "oncology")), past(rng))
    assert ("CT1",) not in {alarm.scanners for alarm in alarms if alarm.drafts == 1}


def test_nothing_measured_is_no_chart() -> None:
    rng = random.Random(10)
    empty = [Measured(UUID(int=1), FIRST, "radiology", "CT1", "m@1", 1, dict.fromkeys(MEANS))]
    assert drift(empty, past(rng)) == ()
    assert drift([], past(rng)) == ()


def test_one_scanner_and_department_are_one_chart_not_four() -> None:
    rng = random.Random(11)
    alone = [one for one in past(rng) if (one.scanner, one.department) == GROUPS[0]]
    tonight = [one for one in night(20, rng, shift={"acceptance": -6.0}, only=GROUPS[0]) if (one.scanner, one.department) == GROUPS[0]]
    alarms = [alarm for alarm in drift(tonight, alone) if alarm.figure == "acceptance"]
    assert len({alarm.chart for alarm in alarms}) == len(alarms)


@given(st.integers(1, 500), st.integers(LEAST_BASELINE, 2000), st.booleans())
def test_limits_widen_with_more_charts_and_with_a_shorter_baseline(charts: int, baseline: int, two_sided: bool) -> None:
    limit = limit_of(charts, baseline, two_sided)
    assert limit_of(charts + 1, baseline, two_sided) > limit > limit_of(charts, baseline + 1, two_sided) > 2.3


@given(st.lists(st.lists(st.floats(-5, 5), min_size=1, max_size=6), min_size=1, max_size=6))
def test_a_weighted_mean_lies_within_its_nights_and_knows_its_variance(nights: list[list[float]]) -> None:
    level = weighted(nights)
    values = [value for each in nights for value in each]
    assert min(values) - 1e-9 <= level.mean <= max(values) + 1e-9
    assert 1 / len(values) - 1e-9 <= level.share_of_variance <= 1.0
    assert level.drafts == len(values)
