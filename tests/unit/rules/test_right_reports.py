"""Whole reports that are right: silence. One thing wrong in them: told."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

import pytest

from pipeline.checking import CheckContext
from pipeline.model import Report, Severity
from pipeline.rules.checks import run
from tests.unit.rules.lexicons import RULES

KNOWN = CheckContext(date(2026, 1, 15), covers=("肺", "纵隔", "心脏", "肝", "脾", "上腹", "甲状腺"), contrast=False, sex="F")
FILE = Path(__file__).parents[2] / "golden" / "reports_right.toml"


@dataclass(frozen=True)
class Right:
    """One report, and what is known besides."""

    report: Report
    context: CheckContext


def _right(row: dict[str, str | bool]) -> Right:
    report = Report(str(row["findings"]), str(row["impression"]), str(row["advice"]))
    return Right(report, replace(KNOWN, has_prior=bool(row.get("has_prior"))))


REPORTS = tuple(map(_right, tomllib.loads(FILE.read_text(encoding="utf-8"))["report"]))


def rules_of(report: Report, context: CheckContext) -> list[str]:
    """Rules that find something wrong. A guideline's suggestion and a critical finding are no fault of the text."""
    hits = run(report, RULES, context).hits
    return [hit.rule for hit in hits if hit.severity is not Severity.REPLACED and not hit.rule.startswith(("guideline.", "critical."))]


@pytest.mark.parametrize("right", REPORTS, ids=range(len(REPORTS)))
def test_a_right_report_has_no_hit(right: Right) -> None:
    assert rules_of(right.report, right.context) == []


@pytest.mark.parametrize("right", REPORTS, ids=range(len(REPORTS)))
def test_one_that_breaks_off_blocks(right: Right) -> None:
    cut = replace(right.report, findings_text=right.report.findings_text + "右肺上叶见结节，大小约")
    hits = [hit for hit in run(cut, RULES, right.context).hits if hit.severity is Severity.BLOCK]
    assert [hit.rule for hit in hits] == ["text.truncated"]
    assert cut.findings_text[hits[0].start : hits[0].end] == "右肺上叶见结节，大小约"


@pytest.mark.parametrize("right", REPORTS, ids=range(len(REPORTS)))
def test_a_finding_that_only_the_impression_has_is_flagged(right: Right) -> None:
    invented = replace(right.report, impression=right.report.impression + "阑尾炎。")
    assert "impression.unfounded" in rules_of(invented, right.context)


def test_an_impression_with_sides_exchanged_is_flagged_in_most() -> None:
    """A report that finds the same on both sides cannot tell."""
    exchange = str.maketrans("左右", "右左")
    sided = [one for one in REPORTS if any(side in one.report.impression for side in "左右")]
    turned = [(replace(one.report, impression=one.report.impression.translate(exchange)), one.context) for one in sided]
    told = [report for report, context in turned if "side.impression" in rules_of(report, context)]
    assert len(told) >= 0.8 * len(sided) >= 8
