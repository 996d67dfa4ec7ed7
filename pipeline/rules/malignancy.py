"""恶性概率 of a listed nodule: by the Brock formula where all that it asks is known and measured, else not at all."""

from __future__ import annotations

from pipeline.checking import Malignancy
from pipeline.guidance import Density
from pipeline.model import Candidate, Finding
from pipeline.rules.analysis import Analysis
from pipeline.rules.brock import Inputs, brock
from pipeline.rules.grounding import differences
from pipeline.rules.guidelines_inputs import history

NODULE, SPICULATED, UPPER = "结节", "毛刺", "上叶"
SEXES = {"F": True, "M": False}


def malignancy(finding: Finding, seen: Candidate, analysis: Analysis) -> Malignancy | None:
    """None where an input is unknown, where list and images differ, for a calcified nodule, and where the indication speaks of a cancer."""
    context = analysis.context
    told = history(analysis.ruleset, context.indication)
    family, emphysema, female = told.get("family"), context.emphysema, SEXES.get(context.sex)
    if finding.kind != NODULE or seen.calcified is not False or told.get("cancer", "no") != "no" or any(differences(finding, seen)):
        return None
    if seen.lobe is None or seen.margin is None or seen.density is None or (finding.margin, finding.density) != (seen.margin, seen.density):
        return None
    number = _nodules(analysis)
    if family is None or emphysema is None or female is None or context.age_years is None or number is None:
        return None
    return brock(
        Inputs(
            age_years=context.age_years,
            female=female,
            family_history=family == "yes",
            emphysema=bool(emphysema),
            size_mm=round(seen.size_mm, 1),
            density=Density(seen.density),
            upper_lobe=seen.lobe == UPPER,
            nodules=number,
            spiculated=seen.margin == SPICULATED,
        )
    )


def _nodules(analysis: Analysis) -> int | None:
    """How many the scan has; None where the list and the images do not agree."""
    listed = sum(finding.kind == NODULE for finding in analysis.report.findings)
    return listed if listed == sum(one.kind == NODULE for one in analysis.context.candidates) else None
