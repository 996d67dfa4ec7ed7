"""Labelled sentences of tests/golden: what each rule should say of them, what it says, and how often both agree.

A case has a `rule`, the text of any sections (`findings`, `impression`, `advice`), what is known besides (`indication`, `sex`, `age_years`,
`contrast`, `covers`, `has_prior`, `structured`, `department`, sides of `effusion`, `emphysema`, `fibrosis`; rows of `lesions` as the report
lists them, of `candidates` as the encoder measured them, with a place in LPS where one matters; of `doses` with day and mSv; of `priors`, each an
earlier day and its nodules with side, lobe, size and place), and `expect`: for a rule of the registry the words that its hits point at (the section's
name where a hit has no span), for the readings below what they read. An empty `expect` is a case where the rule stays silent.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from pipeline.checking import CheckContext, Checked, Prior, Spot
from pipeline.irradiation import DoseEvent
from pipeline.model import Candidate, Finding, Frame, Report, Side
from pipeline.rules.analysis import analysed
from pipeline.rules.checks import run
from pipeline.rules.measures import Measure, MeasureKind
from pipeline.rules.mentions import Mention, Section
from tests.unit.rules.lexicons import RULES

FOLDER = Path(__file__).parents[2] / "golden"
TEXTS = {"findings": "检查所见", "impression": "诊断意见", "advice": "建议"}
KNOWN = ("indication", "sex", "age_years", "contrast", "covers", "has_prior", "structured", "department")
SPREAD = {"effusion": "胸腔积液", "emphysema": "肺气肿", "fibrosis": "纤维化"}
ROWS = (*SPREAD, "lesions", "candidates", "doses", "priors")
LUNGS = Frame((-150.0, -100.0, 0.0, 150.0, 100.0, 250.0), 0.0, 1.0, 1.0)  # of every examination in these cases
DAY = date(2026, 1, 15)


@dataclass(frozen=True)
class Case:
    """One labelled sentence."""

    file: str
    number: int
    rule: str
    report: Report
    context: CheckContext
    expect: tuple[str, ...]


@dataclass
class Score:
    """Right, invented and missed words of one rule over its cases."""

    cases: int = 0
    right: int = 0
    invented: int = 0
    missed: int = 0

    @property
    def precision(self) -> float:
        return self.right / (self.right + self.invented) if self.right + self.invented else 1.0

    @property
    def recall(self) -> float:
        return self.right / (self.right + self.missed) if self.right + self.missed else 1.0


def cases(pattern: str = "rules_*.toml") -> Iterator[Case]:
    for file in sorted(FOLDER.glob(pattern)):
        for number, case in enumerate(tomllib.loads(file.read_text(encoding="utf-8"))["case"], start=1):
            yield _case(file.name, number, case)


def _case(file: str, number: int, case: dict[str, Any]) -> Case:
    unknown = set(case) - {"rule", "expect", *TEXTS, *KNOWN, *ROWS}
    assert not unknown, f"{file}, case {number}: unknown {unknown}"
    findings, impression, advice = (case.get(name, "") for name in TEXTS)
    report = Report(findings, impression, advice, tuple(map(_finding, case.get("lesions", ()))))
    return Case(file, number, case["rule"], report, _context(case), tuple(case["expect"]))


def _context(case: dict[str, Any]) -> CheckContext:
    known: dict[str, Any] = {key: tuple(case[key]) if key == "covers" else case[key] for key in KNOWN if key in case}
    known |= {name: tuple(map(Side, case[name])) for name in SPREAD if name in case}
    candidates = tuple(_candidate(number, *row) for number, row in enumerate(case.get("candidates", ()), start=1))
    doses = tuple(DoseEvent(day, date.fromisoformat(day), "chest", msv / 0.014, msv, 0.014) for day, msv in case.get("doses", ()))
    priors = tuple(_prior(day, nodules) for day, *nodules in case.get("priors", ()))
    frame = LUNGS if priors else None
    return CheckContext(DAY, doses=doses, candidates=candidates, priors=priors, frame=frame, **known)


def _prior(day: str, nodules: list[list[Any]]) -> Prior:
    spots = [Spot(n, "结节", (x, y, z), Side(side), lobe, size_mm) for n, (side, lobe, size_mm, x, y, z) in enumerate(nodules, start=1)]
    return Prior(date.fromisoformat(day), True, tuple(spots), LUNGS, ("肺",))


def _finding(row: list[Any]) -> Finding:
    """A listed lesion is that of the first candidate, or of the one that a sixth value numbers; margin, inside and around it may follow."""
    kind, side, lobe, density, size_mm, *more = row
    number = None if kind in SPREAD.values() else more[0] if more else 1
    return Finding(number, kind, side, lobe or None, density or None, size_mm or None, *more[1:])


def _candidate(number: int, kind: str, side: str, lobe: str, density: str, size_mm: float, *place: float) -> Candidate:
    x, y, z = place or (0.0, 0.0, 0.0)
    return Candidate(number, kind, (x, y, z), Side(side), lobe, density, size_mm, 0.9)


def said(case: Case) -> tuple[str, ...]:
    """What the rule or reading says of the case."""
    reading = READINGS.get(case.rule)
    if reading is None:
        return tuple(_words(run(case.report, RULES, case.context), case.rule))
    return tuple(word for section in analysed(case.report, RULES, case.context).sections.values() for word in reading(section))


def _words(checked: Checked, rule: str) -> Iterator[str]:
    for hit in checked.hits:
        if hit.rule == rule:
            yield hit.original or checked.report.sections()[hit.section][hit.start : hit.end] or hit.section


def scores(every: Iterable[Case]) -> dict[str, Score]:
    found: dict[str, Score] = {}
    for case in every:
        score, expected, told = found.setdefault(case.rule, Score()), Counter(case.expect), Counter(said(case))
        score.cases += 1
        score.right += (expected & told).total()
        score.invented += (told - expected).total()
        score.missed += (expected - told).total()
    return found


def table(found: dict[str, Score]) -> str:
    lines = [f"{rule:<24} {s.cases:>5} {s.precision:>10.3f} {s.recall:>7.3f}" for rule, s in sorted(found.items())]
    return "\n".join([f"{'rule':<24} {'cases':>5} {'precision':>10} {'recall':>7}", *lines])


def _terms(wanted: Callable[[Mention], bool]) -> Callable[[Section], Iterator[str]]:
    return lambda section: (mention.term for mention in section.observations() if wanted(mention))


def _measured(kind: MeasureKind) -> Callable[[Section], Iterator[str]]:
    return lambda section: (_written(one) for one in section.measures if one.kind is kind and not one.technical)


def _written(one: Measure) -> str:
    if one.low != one.high:
        return f"{one.low:g}–{one.high:g}"
    return "×".join(f"{value:g}" for value in one.values) or "0"


def _placed(section: Section) -> Iterator[str]:
    for mention in section.observations():
        yield " ".join(filter(None, (mention.term, mention.side, mention.organ, mention.lobe, mention.segment)))


READINGS: dict[str, Callable[[Section], Iterator[str]]] = {
    "scope.absent": _terms(lambda mention: mention.negated),
    "scope.uncertain": _terms(lambda mention: mention.uncertain),
    "scope.past": _terms(lambda mention: mention.historical),
    "measure.size": _measured(MeasureKind.SIZE),
    "measure.hu": _measured(MeasureKind.HU),
    "measure.count": _measured(MeasureKind.COUNT),
    "place": _placed,
}
