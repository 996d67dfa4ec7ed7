import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.guidance import Density
from pipeline.rules.brock import LARGEST_MM, YOUNGEST_YEARS, Inputs, brock

PATIENT = Inputs(60, False, False, False, 10.0, Density.SOLID, False, 1, False)
FLAGS = ("female", "family_history", "emphysema", "upper_lobe", "spiculated")
INPUTS = st.builds(
    Inputs,
    age_years=st.floats(YOUNGEST_YEARS, 100),
    female=st.booleans(),
    family_history=st.booleans(),
    emphysema=st.booleans(),
    size_mm=st.floats(1, 29),
    density=st.sampled_from(Density),
    upper_lobe=st.booleans(),
    nodules=st.integers(1, 20),
    spiculated=st.booleans(),
)


def other_form(given: Inputs) -> float:
    """Uthoff 2019, Table 2: the same model without centred variables; size enters as (mm / 10) ** -0.5, the intercept is 0.2761."""
    weights = {"female": 0.6011, "family_history": 0.2961, "emphysema": 0.2953, "upper_lobe": 0.6581, "spiculated": 0.7729}
    x = 0.2761 + 0.0287 * given.age_years - 5.3854 * (given.size_mm / 10) ** -0.5 - 0.0824 * given.nodules
    x += {Density.SOLID: 0.0, Density.PART_SOLID: 0.377, Density.GROUND_GLASS: -0.1276}[given.density]
    return math.exp(x + sum(weight * getattr(given, name) for name, weight in weights.items()))


@given(INPUTS)
def test_the_centred_formula_is_the_one_of_an_independent_table(given: Inputs) -> None:
    odds = other_form(given)
    found = brock(given)
    assert found is not None
    assert found.probability == pytest.approx(odds / (1 + odds), abs=1e-4)


@given(INPUTS)
def test_every_sign_of_malignancy_raises_it_and_more_nodules_lower_it(given: Inputs) -> None:
    def at(**changes: object) -> float:
        found = brock(replace(given, **changes))  # type: ignore[arg-type]  # by name
        assert found is not None
        return found.probability

    assert all(at(**{flag: True}) >= at(**{flag: False}) for flag in FLAGS)
    assert at(size_mm=given.size_mm + 1) >= at(size_mm=given.size_mm)
    assert at(nodules=given.nodules + 1) <= at(nodules=given.nodules)


def test_the_inputs_and_the_paper_stand_beside_the_figure() -> None:
    found = brock(PATIENT)
    assert found is not None
    assert dict(found.inputs) == {
        "age_years": 60,
        "female": False,
        "family_history": False,
        "emphysema": False,
        "size_mm": 10.0,
        "density": "实性",
        "upper_lobe": False,
        "nodules": 1,
        "spiculated": False,
    }
    assert "N Engl J Med 2013;369:910-919" in found.source


@pytest.mark.parametrize("outside", [{"age_years": 12}, {"size_mm": LARGEST_MM + 0.1}, {"size_mm": 0.0}, {"nodules": 0}])
def test_what_the_model_was_not_made_for_has_no_figure(outside: dict[str, float]) -> None:
    assert brock(replace(PATIENT, **outside)) is None  # type: ignore[arg-type]  # by name
