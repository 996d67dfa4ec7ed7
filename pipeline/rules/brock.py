"""Brock model: the probability that a lung nodule is malignant, and only where every input is known.

McWilliams A, et al. Probability of cancer in pulmonary nodules detected on first screening CT. N Engl J Med 2013;369:910-919, full model with
spiculation (2b). Coefficients as published there; Uthoff J, et al. Eur Radiol 2019;29:5367-5377, Table 2, gives the same with other offsets.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

from pipeline.checking import Malignancy
from pipeline.guidance import Density

FORMULA = "Brock (PanCan) 2b"
SOURCE = (
    "McWilliams A, et al. Probability of cancer in pulmonary nodules detected on first screening CT. N Engl J Med 2013;369:910-919, model 2b; "
    "developed on current and former smokers of 50-75 years at their first screening CT"
)
INTERCEPT = -6.7892
PER_YEAR, MEAN_AGE_YEARS = 0.0287, 62
FEMALE, FAMILY, EMPHYSEMA, UPPER_LOBE, SPICULATED = 0.6011, 0.2961, 0.2953, 0.6581, 0.7729
PER_SIZE, MEAN_SIZE = -5.3854, 1.58113883  # of (size in cm) ** -0.5; the mean is that of 4 mm
PER_NODULE, MEAN_NODULES = -0.0824, 4
TYPE = {Density.SOLID: 0.0, Density.PART_SOLID: 0.377, Density.GROUND_GLASS: -0.1276}
LARGEST_MM = 30.0  # beyond, it is a mass and no nodule
YOUNGEST_YEARS = 18


@dataclass(frozen=True, slots=True)
class Inputs:
    """Everything that the formula asks. `size_mm`: the longest diameter, `nodules`: how many the scan shows."""

    age_years: float
    female: bool
    family_history: bool  # of lung cancer
    emphysema: bool  # on this scan
    size_mm: float
    density: Density
    upper_lobe: bool
    nodules: int
    spiculated: bool


def brock(inputs: Inputs) -> Malignancy | None:
    """The probability with its inputs; None for what the model was not made for: children, masses, a size or a count that is none."""
    if inputs.age_years < YOUNGEST_YEARS or not 0 < inputs.size_mm <= LARGEST_MM or inputs.nodules < 1:
        return None
    probability = 1 / (1 + math.exp(-_log_odds(inputs)))
    return Malignancy(round(probability, 4), FORMULA, SOURCE, {**asdict(inputs), "density": inputs.density.value})


def _log_odds(inputs: Inputs) -> float:
    patient = PER_YEAR * (inputs.age_years - MEAN_AGE_YEARS) + FEMALE * inputs.female + FAMILY * inputs.family_history + EMPHYSEMA * inputs.emphysema
    size = PER_SIZE * (1 / math.sqrt(inputs.size_mm / 10) - MEAN_SIZE)
    look = TYPE[inputs.density] + UPPER_LOBE * inputs.upper_lobe + SPICULATED * inputs.spiculated
    return INTERCEPT + patient + size + look + PER_NODULE * (inputs.nodules - MEAN_NODULES)
