"""Sentences by somebody who had not seen the rules, reported apart: how far the rules carry beyond what they were written with.

A case with labelled words is right when the rule points at words that overlap them, a case without when it stays silent; of critical findings any
alert counts, since one alert stands for sign and condition. Sections that a case does not give hold words. `pytest -s` prints the table.
"""

from __future__ import annotations

import tomllib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from pipeline.checking import CheckContext
from pipeline.model import Report
from pipeline.rules.analysis import analysed
from pipeline.rules.checks import run
from pipeline.rules.dose import asks_for_ct
from pipeline.rules.measures import MeasureKind
from tests.unit.rules.golden import DAY, FOLDER, TEXTS
from tests.unit.rules.lexicons import RULES

LEAST = 0.75  # of all cases; a floor against steps back, no aim
# category of the sentences → ids of the rules that answer for it
ANSWERING = {
    "term.standard": ("term.standard",),
    "term.unlisted": ("term.unlisted",),
    "side.impression": ("side.impression", "presence.contradiction", "impression.unfounded"),
    "presence.contradiction": ("presence.contradiction",),
    "size.impression": ("size.impression",),
    "count.mismatch": ("count.mismatch",),
    "organ.outside": ("organ.unseen",),
    "organ.sex": ("organ.sex",),
    "contrast.wording": ("contrast.missing",),
    "prior.comparison": ("prior.missing",),
    "impression.without_finding": ("impression.unfounded", "side.impression"),
    "finding.without_impression": ("finding.unconcluded",),
    "nodule.margin": ("margin.solid",),
    "repetition": ("text.repeated",),
    "truncation": ("text.truncated",),
    "generality": ("generality.dropped", "generality.stated"),
    "section.empty": ("section.empty",),
    "critical.suspected": ("critical.finding",),
}


@dataclass(frozen=True)
class Blind:
    """One labelled text, and the words that were said of it."""

    number: int
    category: str
    expect: tuple[str, ...]
    said: tuple[str, ...]

    @property
    def right(self) -> bool:
        if not self.expect:
            return not self.said
        return any(_overlap(word, label) or self.category == "critical.suspected" for word in self.said for label in self.expect)


def _overlap(word: str, label: str) -> bool:
    """Two characters in common, or one of them whole inside the other."""
    return word in label or label in word or any(label[i : i + 2] in word for i in range(len(label) - 1))


def blind() -> Iterator[Blind]:
    for number, case in enumerate(tomllib.loads((FOLDER / "blind.toml").read_text(encoding="utf-8"))["case"], start=1):
        yield Blind(number, case["rule"], tuple(case["expect"]), tuple(_said(case)))


def _said(case: dict[str, Any]) -> Iterator[str]:
    given = "如下。" if case["rule"] == "section.empty" else ""
    report = Report(*(case.get(name, given) for name in TEXTS))
    context = CheckContext(
        DAY,
        sex=case.get("sex", ""),
        age_years=case.get("age"),
        contrast=case.get("contrast"),
        covers=tuple(case.get("covers", ())),
        has_prior=case.get("prior", False),
    )
    if case["rule"] in ("scope", "measure"):
        yield from _read(case["rule"], report, context)
    elif case["rule"] == "dose.recommend":
        yield from (case["expect"] or ("CT",)) if asks_for_ct(report, RULES.dose[0].triggers) else ()
    else:
        checked = run(report, RULES, context)
        for hit in checked.hits:
            if hit.rule in ANSWERING[case["rule"]]:
                yield hit.original or checked.report.sections()[hit.section][hit.start : hit.end]


def _read(category: str, report: Report, context: CheckContext) -> Iterator[str]:
    for section in analysed(report, RULES, context).sections.values():
        text = section.text
        if category == "scope":
            present = (mention for mention in section.observations() if not mention.negated and not mention.historical)
            yield from (text[mention.start : mention.end] for mention in present)
        else:
            sizes = (one for one in section.measures if one.kind is MeasureKind.SIZE and not one.technical)
            yield from (text[one.start : one.end] for one in sizes)


def test_most_sentences_of_a_stranger_are_answered_right() -> None:
    found: dict[str, list[Blind]] = defaultdict(list)
    for case in blind():
        found[case.category].append(case)
    print(f"\n{'category':<28} {'found':>8} {'silent':>8}")
    for category, cases in found.items():
        labelled, quiet = [c for c in cases if c.expect], [c for c in cases if not c.expect]
        print(f"{category:<28} {sum(c.right for c in labelled):>4}/{len(labelled):<3} {sum(c.right for c in quiet):>4}/{len(quiet):<3}")
        print("\n".join(f"    {c.number}: says {list(c.said)}, not {list(c.expect)}" for c in cases if not c.right))
    every = [case for cases in found.values() for case in cases]
    share = sum(case.right for case in every) / len(every)
    print(f"all: {sum(case.right for case in every)}/{len(every)} = {share:.3f}")
    assert len(every) >= 100
    assert share >= LEAST


@pytest.mark.parametrize("word", ["毛玻璃", "结节"])
def test_labels_are_compared_by_overlap(word: str) -> None:
    assert _overlap(word, "毛玻璃结节影")
    assert not _overlap(word, "胸腔积液")
