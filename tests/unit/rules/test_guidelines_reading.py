"""Critical findings, guidelines, cues and growth as TOML: read, written, read again; what cannot be meant is refused with its place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pipeline.errors import BadInput
from pipeline.rules import guidelines_reading as reading
from pipeline.rules.seed import seed_critical, seed_cues, seed_growth, seed_guidelines

CRITICAL = '[[critical]]\nid = "a"\nfinding = "甲"\nwords = ["甲"]\nseverity = "urgent"\nminutes = 30\nsource = "s"\n'
ROW = '[[guideline.row]]\nid = "r"\nsource = "Table 1"\nadvice = "随访"\n'
GUIDELINE = '[[guideline]]\nid = "g"\nname = "G"\nsource = "s"\nround_mm = 1.0\n'
CUE = '[[cue]]\ninput = "cancer"\nanswer = "yes"\nwords = ["癌史"]\n'
GROWTH = reading.growth_toml([seed_growth()])


@pytest.mark.parametrize(
    ("rows", "write", "read"),
    [
        (seed_critical(), reading.critical_toml, reading.read_critical),
        (seed_guidelines(), reading.guidelines_toml, reading.read_guidelines),
        (seed_cues(), reading.cues_toml, reading.read_cues),
        ((seed_growth(),), reading.growth_toml, reading.read_growth),
    ],
)
def test_what_is_written_is_read_back_the_same(rows: Any, write: Callable[[Any], str], read: Callable[[str], Any]) -> None:
    assert read(write(rows)) == rows
    assert read(write(())) == ()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (CRITICAL.replace("30", "0"), "'minutes' must be a number from 1 to 1440"),
        (CRITICAL.replace("30", "1.5"), "whole"),
        (CRITICAL.replace('"urgent"', '"soon"'), "immediate, urgent"),
        (CRITICAL.replace('["甲"]', "[]"), "'words'"),
        (CRITICAL.replace('"甲"\nwords', '""\nwords'), "'finding'"),
        (CRITICAL + 'organ = "肺"\n', "the key 'organ' is unknown"),
        (CRITICAL + CRITICAL, "the id 'a' twice"),
        (CRITICAL + CRITICAL.replace('"a"', '"b"').replace("30", "true"), "line 8"),
        (CRITICAL + "percent = 0\n", "'percent'"),
        ("x = 1\n", "must hold [[critical]]"),
    ],
)
def test_a_bad_critical_finding_is_refused(text: str, says: str) -> None:
    with pytest.raises(BadInput) as refused:
        reading.read_critical(text)
    assert says in str(refused.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (GUIDELINE, "holds no [[guideline.row]]"),
        (GUIDELINE + ROW + "from_mm = 8\nbelow_mm = 6\n", "'from_mm' must be less"),
        (GUIDELINE + ROW + 'densities = ["液性"]\n', "实性, 部分实性, 磨玻璃"),
        (GUIDELINE + ROW + 'count = "two"\n', "single, multiple"),
        (GUIDELINE + ROW + 'courses = ["old"]\n', "baseline, new, growing, stable"),
        (GUIDELINE + ROW + ROW, "the id 'r' twice"),
        (GUIDELINE + 'excludes = ["age"]\n' + ROW, "cancer, immunosuppressed"),
        (GUIDELINE + 'population = "all"\n' + ROW, "incidental, screening"),
        (GUIDELINE + "enabled = 1\n" + ROW, "true or false"),
    ],
)
def test_a_bad_guideline_is_refused(text: str, says: str) -> None:
    with pytest.raises(BadInput) as refused:
        reading.read_guidelines(text)
    assert says in str(refused.value)


def test_a_bad_cue_or_growth_rule_is_refused() -> None:
    for text, says in ((CUE.replace("yes", "high"), "yes, no"), (CUE.replace("cancer", "age"), "screening, cancer"), (CUE + CUE, "one answer twice")):
        with pytest.raises(BadInput, match=says):
            reading.read_cues(text)
    for text, says in (
        (GROWTH + GROWTH, "one \\[\\[growth\\]\\] table, not 2"),
        (GROWTH.replace("thickness_factor = 2.0", "thickness_factor = 0.5"), "1 to 100"),
    ):
        with pytest.raises(BadInput, match=says):
            reading.read_growth(text)


def test_a_guideline_is_off_unless_it_says_otherwise() -> None:
    (one,) = reading.read_guidelines(GUIDELINE + ROW)
    assert (one.enabled, one.population, one.rows[0].densities) == (False, None, ())
