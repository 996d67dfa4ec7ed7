"""k by region, age and phantom, and what is said where something has to be assumed."""

from __future__ import annotations

from datetime import date
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import BadInput
from pipeline.irradiation import DoseFactor, DoseSource, Irradiation
from pipeline.rules.factors import REGION_NAMES, factor_of, weigh, years_between
from pipeline.rules.seed import seed_dose_factors
from pipeline.rules.seed.dose import dose_factors, dose_rules

FACTORS = seed_dose_factors()
REGIONS = sorted({row.region for row in FACTORS})


def event(dlp: float | None, region: str = "chest", phantom_cm: int | None = 32) -> Irradiation:
    return Irradiation("1.2", DoseSource.RDSR, region, dlp, phantom_cm=phantom_cm, notes=("注",))


@pytest.mark.parametrize(
    ("region", "age", "phantom_cm", "k"),
    [
        ("chest", 50.0, 32, 0.0145),
        ("abdomen", 50.0, 32, 0.0153),
        ("pelvis", 50.0, 32, 0.0129),
        ("head", 50.0, 16, 0.0019),
        ("neck", 50.0, 16, 0.0051),
        ("head-neck", 50.0, 16, 0.0031),
        ("trunk", 50.0, 32, 0.015),
        ("chest", 0.0, 16, 0.039),
        ("chest", 0.99, 16, 0.039),
        ("chest", 1.0, 16, 0.026),
        ("chest", 17.9, 16, 0.013),
        ("chest", 18.0, 32, 0.0145),
        ("head", 7.0, 16, 0.0040),
        ("abdomen-pelvis", 5.0, 16, 0.020),
    ],
)
def test_published_values(region: str, age: float, phantom_cm: int, k: float) -> None:
    assert factor_of(region, age, phantom_cm, FACTORS) == (k, ())


def test_every_region_age_and_phantom_has_a_row_with_its_source() -> None:
    assert {(row.region, row.age_years, row.phantom_cm) for row in FACTORS} == {
        (r, a, p) for r in REGIONS for a in (0, 1, 5, 10, 18) for p in (16, 32)
    }
    assert set(REGIONS) == set(REGION_NAMES) - {""}
    assert all("AAPM" in row.source or "Deak" in row.source for row in FACTORS)


def test_a_younger_group_has_no_smaller_factor_and_the_larger_phantom_twice_the_factor() -> None:
    for region in REGIONS:
        for age in (0, 1, 5, 10, 18):
            small, large = (factor_of(region, float(age), cm, FACTORS)[0] for cm in (16, 32))
            assert large == pytest.approx(2 * small)
        by_age = [factor_of(region, float(age), 16, FACTORS)[0] for age in (0, 1, 5, 10, 18)]
        assert all(young > old for young, old in pairwise(by_age))


def test_an_unknown_region_takes_the_largest_factor_of_an_adult_and_says_so() -> None:
    assert factor_of("", 40.0, 32, FACTORS) == (0.0153, ("部位不明，按最大的 k",))
    assert factor_of("", None, None, FACTORS) == (0.0153, ("年龄不明，按成人", "模体不明，按 32 cm", "部位不明，按最大的 k"))


def test_an_unknown_phantom_is_that_of_the_region() -> None:
    assert factor_of("head", 40.0, None, FACTORS) == (0.0019, ("模体不明，按 16 cm",))
    assert factor_of("chest", 3.0, None, FACTORS) == (0.052, ("模体不明，按 32 cm",))


def test_a_phantom_without_a_row_takes_the_largest() -> None:
    rows = [DoseFactor("chest", 18, 32, 0.0145, "x"), DoseFactor("head", 18, 16, 0.0019, "x")]
    assert factor_of("chest", 40.0, 16, rows) == (0.0019, ("该模体没有 k，按最大的 k",))
    with pytest.raises(BadInput, match="empty"):
        factor_of("chest", 40.0, 32, [])


def test_an_event_is_weighed_and_keeps_its_notes() -> None:
    weighed = weigh(event(500.0, ""), 40.0, FACTORS)
    assert (weighed.k, weighed.notes) == (0.0153, ("注", "部位不明，按最大的 k"))
    assert weighed.msv == pytest.approx(7.65)
    assert weigh(event(None), 40.0, FACTORS).msv is None
    assert weigh(event(0.0, "", None), None, FACTORS).notes == ("注",)


@given(st.sampled_from([*REGIONS, ""]), st.none() | st.floats(0, 120), st.sampled_from([None, 16, 32]), st.floats(0, 1e5), st.floats(0, 1e5))
def test_effective_dose_grows_with_dlp(region: str, age: float | None, phantom_cm: int | None, one: float, other: float) -> None:
    low, high = sorted((one, other))
    weighed = [weigh(event(dlp, region, phantom_cm), age, FACTORS).msv for dlp in (low, high)]
    assert weighed[0] is not None
    assert weighed[1] is not None
    assert 0 <= weighed[0] <= weighed[1]


def test_ages_are_of_the_day_of_the_examination() -> None:
    assert years_between(date(2008, 1, 15), date(2026, 1, 15)) == pytest.approx(18.0, abs=0.01)
    assert years_between(None, date(2026, 1, 15)) is None
    assert years_between(date(2026, 1, 16), date(2026, 1, 15)) is None


FACTOR = {"region": "chest", "phantom_cm": 32, "ages": [18], "k": [0.0145], "source": "own"}
RULE = {"id": "a", "window_months": 12, "threshold_msv": 50.0, "message": "甲", "triggers": ["CT"]}


def test_a_hospitals_own_tables_are_read() -> None:
    assert dose_factors([FACTOR]) == (DoseFactor("chest", 18, 32, 0.0145, "own"),)
    (rule,) = dose_rules([RULE | {"region": "head", "max_age_years": 18}], 7)
    assert (rule.version, rule.region, rule.min_age_years, rule.max_age_years) == (7, "head", None, 18.0)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"k": [0.0145, 0.02]}, "one length"),
        ({"k": [2.0]}, "between 0 and 1"),
        ({"k": [0]}, "between 0 and 1"),
        ({"k": ["0.01"]}, "no number"),
        ({"ages": [1.5]}, "whole years"),
        ({"ages": [1]}, "for adults"),
        ({"phantom_cm": 20}, "16 and 32"),
        ({"source": " "}, "'source' is missing"),
        ({"region": 3}, "'region' is missing"),
    ],
)
def test_a_factor_that_cannot_be_names_its_fault(change: dict[str, object], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        dose_factors([FACTOR | change])


def test_two_rows_for_one_place_are_refused() -> None:
    with pytest.raises(BadInput, match="one region, age and phantom"):
        dose_factors([FACTOR, FACTOR])
    with pytest.raises(BadInput, match="one id"):
        dose_rules([RULE, RULE], 1)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"triggers": []}, "triggers"),
        ({"triggers": [""]}, "triggers"),
        ({"window_months": 0}, "whole number"),
        ({"window_months": 1.5}, "whole number"),
        ({"threshold_msv": -1}, "threshold_msv"),
        ({"threshold_msv": True}, "threshold_msv"),
        ({"message": "甲（乙）"}, "must not hold"),
        ({"id": ""}, "'id' is missing"),
        ({"min_age_years": "x"}, "min_age_years"),
    ],
)
def test_a_rule_that_cannot_be_names_its_fault(change: dict[str, object], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        dose_rules([RULE | change], 1)
