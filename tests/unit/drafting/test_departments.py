"""Which department a RequestingService is, and what each may say of a lesion."""

from __future__ import annotations

import pytest

from pipeline.drafting.departments import NAMES, TOKENS_PER_LESION, asked_by
from pipeline.model import DEPARTMENTS
from pipeline.rules.length import LONGEST_TOKENS


@pytest.mark.parametrize(
    ("service", "department"),
    [
        ("肿瘤内科", "oncology"),
        ("胸部肿瘤外科二病区", "oncology"),
        ("放射治疗科", "oncology"),
        ("放疗科", "oncology"),
        ("Radiation Therapy", "oncology"),
        ("DEPT OF MEDICAL ONCOLOGY", "oncology"),
        ("ONC", "oncology"),
        ("呼吸与危重症医学科", "pulmonology"),
        ("结核科", "pulmonology"),
        (" pulmonology ", "pulmonology"),
        ("Respiratory  Medicine", "pulmonology"),
        ("放射科", "radiology"),
        ("医学影像中心", "radiology"),
        ("RADIOLOGY", "radiology"),
        ("concierge", None),
        ("急诊科", None),
        ("胸外科", None),
        ("", None),
        ("   ", None),
    ],
)
def test_usual_names_are_understood_and_others_ask_for_nothing(service: str, department: str | None) -> None:
    assert asked_by(service) == department


def test_the_sites_own_names_come_first_in_any_letter_case() -> None:
    local = {"Ward 7": "oncology", "肿瘤科": "pulmonology"}
    assert [asked_by(name, local) for name in ("ward  7", "肿瘤科", "呼吸科")] == ["oncology", "pulmonology", "pulmonology"]


def test_every_department_has_a_name_and_the_budget_that_the_rules_check() -> None:
    assert dict(NAMES) == dict(DEPARTMENTS)
    assert dict(LONGEST_TOKENS) == TOKENS_PER_LESION
    assert set(TOKENS_PER_LESION) == set(DEPARTMENTS)
