"""Id and issuer decide who somebody is; name and birth date check it."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest

from pipeline.model import Patient
from pipeline.rules.same_patient import OTHER_BIRTH, OTHER_ID, OTHER_NAME, differs

KNOWN = Patient("P-1", "HOSP", "张^小东", False, date(1970, 1, 1), "M")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ""),
        ({"patient_id": " P-1 "}, ""),
        ({"patient_id": ""}, ""),
        ({"patient_id": "P-2"}, OTHER_ID),
        ({"issuer": ""}, ""),
        ({"issuer": "OTHER"}, OTHER_ID),
        ({"birth_date": None}, ""),
        ({"birth_date": date(1970, 1, 2)}, OTHER_BIRTH),
        ({"name": ""}, ""),
        ({"name": "张小东"}, ""),
        ({"name": "张 小东"}, ""),
        ({"name": "Zhang^Xiaodong"}, ""),  # another script cannot be compared
        ({"name": "Zhang^Xiaodong=张^小东"}, ""),
        ({"name": "李^大力"}, OTHER_NAME),
        ({"name": "Zhang^Xiaodong=李^大力"}, OTHER_NAME),
        ({"name": "李^大力", "name_guess": True}, ""),
    ],
)
def test_what_speaks_against_it(changes: dict[str, object], expected: str) -> None:
    assert differs(replace(KNOWN, **changes), KNOWN) == expected  # type: ignore[arg-type]  # a table of changes


def test_latin_names_agree_in_any_order_and_case() -> None:
    latin = replace(KNOWN, name="ZHANG^XIAODONG")
    assert differs(replace(latin, name="Xiaodong Zhang"), latin) == ""
    assert differs(replace(latin, name="Wang^Li"), latin) == OTHER_NAME


def test_a_patient_known_by_one_study_alone_has_no_issuer_to_compare() -> None:
    assert differs(KNOWN, replace(KNOWN, issuer="1.2.840.1")) == ""
