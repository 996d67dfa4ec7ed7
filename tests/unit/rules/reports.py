"""Reports as the packaged model is trained to write them, of patients drawn here, with an encoder's perfect candidates for them."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from datetime import date

from pipeline.checking import CheckContext, Checked, RuleSet
from pipeline.drafting.departments import NAMES, RADIOLOGY
from pipeline.drafting.parse import parse
from pipeline.drafting.schema import MAX_CANDIDATES, dumps
from pipeline.model import Candidate, Report, Side
from pipeline.rules.checks import run
from pipeline.rules.seed import seed_dose_rules, seed_lexicon, seed_terms
from pipeline.training.corpus import pair
from pipeline.training.reasons import Reason
from pipeline.training.truth import DENSITIES, LIVER_KINDS, LOBES, Lesion, LiverLesion, Node, Truth

RULES = RuleSet(1, seed_terms(), seed_dose_rules(), seed_lexicon())  # without guidelines, which speak of right reports too
SEEN = ("肺", "纵隔", "心脏", "肝", "脾", "上腹", "肾上腺")
DAY = date(2026, 1, 15)
SIDES = tuple(Side)
OTHER = {Side.LEFT: Side.RIGHT, Side.RIGHT: Side.LEFT}
EITHER = ((), (Side.LEFT,), (Side.RIGHT,), SIDES)


@dataclass(frozen=True)
class Case:
    """One report and what the check step knows besides."""

    report: Report
    context: CheckContext

    def checked(self, report: Report | None = None) -> Checked:
        return run(report or self.report, RULES, self.context)


def case(seed: int) -> Case:
    """The report of one patient: department, reason and findings follow from the seed."""
    lot = random.Random(seed)
    return case_of(drawn(seed), lot.choice(tuple(NAMES)), lot.choice(tuple(Reason)))


def case_of(truth: Truth, department: str = RADIOLOGY, reason: Reason = Reason.UNKNOWN, *, sex: str = "") -> Case:
    """The true report of these findings."""
    seen = candidates(truth)
    report = parse(dumps(pair(seen, truth, department, reason)))
    known = CheckContext(DAY, candidates=seen, covers=SEEN, contrast=truth.contrast, sex=sex, structured=True, department=department)
    known = replace(known, effusion=tuple(truth.effusion), emphysema=tuple(truth.emphysema), fibrosis=tuple(truth.fibrosis))
    return Case(report, known)


def drawn(seed: int) -> Truth:
    """Findings of every kind at chance; lesions far apart, now and then twins on both sides."""
    lot = random.Random(f"truth {seed}")
    lesions = [_lesion(lot, place) for place in range(lot.choice((0, 1, 1, 2, 3)))]
    if lesions and lesions[0].lobe != "中叶" and lot.random() < 0.3:
        lesions.append(_mirrored(lesions[0]))
    return Truth(
        lesions=tuple(lesions),
        effusion=frozenset(lot.choice(EITHER)),
        low_dose=lot.random() < 0.3,
        seed=seed,
        kvp=120.0,
        mas=100.0,
        kernel=lot.choice(("B31f", "B70f")),
        nodes=tuple(Node(lot.uniform(11, 25), (lot.choice((-20.0, 20.0)), 0.0, 60.0 * n)) for n in range(lot.choice((0, 0, 1, 2)))),
        liver=tuple(LiverLesion(lot.choice(LIVER_KINDS), lot.uniform(8, 40), (-80.0, 60.0 * n, -150.0)) for n in range(lot.choice((0, 0, 1, 2)))),
        emphysema=frozenset(lot.choice(EITHER)),
        fibrosis=frozenset(lot.choice(EITHER)),
        contrast=lot.random() < 0.3,
    )


def _lesion(lot: random.Random, place: int) -> Lesion:
    side = lot.choice(SIDES)
    kind = lot.choice(("结节", "结节", "结节", "实变"))
    nodule = kind == "结节"
    return Lesion(
        kind,
        side,
        lot.choice(LOBES[side]),
        lot.choice(DENSITIES) if nodule else "实性",
        lot.uniform(4, 28) if nodule else lot.uniform(20, 60),
        (60.0 if side is Side.LEFT else -60.0, 80.0 * place, 100.0),
        lot.choice(("光滑", "分叶", "毛刺")) if nodule else "模糊",
        nodule and lot.random() < 0.2,
        nodule and lot.random() < 0.2,
    )


def _mirrored(lesion: Lesion) -> Lesion:
    """The same lesion in the other lung."""
    x, y, z = lesion.center_mm
    return replace(lesion, side=OTHER[lesion.side], center_mm=(-x, y, z))


def candidates(truth: Truth) -> tuple[Candidate, ...]:
    """Everything that the truth holds, as measured without error."""
    things: list[Lesion | Node | LiverLesion] = [*truth.lesions, *truth.nodes, *truth.liver]
    return tuple(_candidate(number, thing) for number, thing in enumerate(things[:MAX_CANDIDATES], start=1))


def _candidate(number: int, thing: Lesion | Node | LiverLesion) -> Candidate:
    kind = "淋巴结" if isinstance(thing, Node) else thing.kind
    side = Side.LEFT if thing.center_mm[0] > 0 else Side.RIGHT
    if not isinstance(thing, Lesion):
        return Candidate(number, kind, thing.center_mm, side, None, None, thing.size_mm, 1.0)
    seen = Candidate(number, kind, thing.center_mm, side, thing.lobe, thing.density, thing.size_mm, 1.0)
    return replace(seen, margin=thing.margin, calcified=thing.calcified, retraction=thing.retraction)
