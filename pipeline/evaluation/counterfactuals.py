"""One change of a phantom at a time, and whether the report follows: what a model writes that looks at the image, and not what is usual."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from pipeline.evaluation.answers import Answer, Case, Changed
from pipeline.evaluation.matching import matched
from pipeline.evaluation.score import chest_matches
from pipeline.evaluation.told import LUNG_KINDS, SPREAD_SIDES, Told, heads, told
from pipeline.model import Finding, Side
from pipeline.training.phantom import Lesion, Lung, Phantom
from pipeline.training.placing import Room, has_room

GROWN_MM, SAID_GROWN_MM = 8.0, 4.0
FLUID_MM = 30.0  # the middle of what phantoms have
CLEAR_MM = 4.0
HEADS_AT = 0.5  # from this score on the encoder counts its own proposal
SWAPPED: Mapping[str, str] = MappingProxyType({"实性": "磨玻璃", "磨玻璃": "实性", "部分实性": "实性"})
OTHER = {Side.LEFT: Side.RIGHT, Side.RIGHT: Side.LEFT}
SHIFTS_MM = (0.0, 8.0, -8.0, 16.0, -16.0, 24.0, -24.0)  # up and down from the mirrored place, until there is room


@dataclass(frozen=True, slots=True)
class Change:
    """The phantom after one change. `lesion` is the number of the changed lesion in the truth before."""

    what: str
    lesion: int | None
    phantom: Phantom


def told_of(answer: Answer) -> Told:
    """What the drafter's text tells; where nobody drafted, the heads."""
    return told(answer.text) if answer.text is not None else heads_of(answer)


def heads_of(answer: Answer) -> Told:
    """What the encoder says by itself."""
    return heads(answer.candidates, HEADS_AT, answer.effusion, answer.emphysema, answer.fibrosis)


def found_lesions(answer: Answer) -> tuple[int, ...]:
    """Numbers of the true lung lesions that the report has."""
    return tuple(sorted(chest_matches(told_of(answer), answer.candidates, answer.truth).values()))


def changes(phantom: Phantom, found: Sequence[int]) -> tuple[Change, ...]:
    """At most one change of each kind, of the first lesion among those `found` that allows it; beginning elsewhere in each phantom."""
    start = phantom.truth.seed % max(len(found), 1)
    order = [*found[start:], *found[:start]]
    made = [next((one for number in order for one in make(phantom, number)), None) for make in _OF_LESIONS.values()]
    return tuple(one for one in (*made, next(_effusion(phantom), None)) if one is not None)


def _removed(phantom: Phantom, number: int) -> Iterator[Change]:
    lesions = phantom.truth.lesions
    yield Change("removed", number, _with_lesions(phantom, (*lesions[:number], *lesions[number + 1 :])))


def _mirrored(phantom: Phantom, number: int) -> Iterator[Change]:
    """The lesion at the same place of the other lung, moved up or down until there is room."""
    lesion = phantom.truth.lesions[number]
    here, there = (_lung(phantom, side) for side in (lesion.side, OTHER[lesion.side]))
    share = (np.array(lesion.center_mm) - np.array(here.center_mm)) / np.array(here.axes_mm)
    middle = np.array(there.center_mm) + share * np.array([-1, 1, 1]) * np.array(there.axes_mm)
    for shift in SHIFTS_MM:
        x, y, z = (float(value) for value in middle + np.array([0, 0, shift]))
        moved = replace(lesion, side=there.side, lobe=there.lobe_at(y, z), center_mm=(x, y, z))
        if _fits(phantom, moved, number):
            yield Change("mirrored", number, _with_lesion(phantom, number, moved))


def _density(phantom: Phantom, number: int) -> Iterator[Change]:
    lesion = phantom.truth.lesions[number]
    if lesion.kind == "结节" and not lesion.calcified:
        yield Change("density", number, _with_lesion(phantom, number, replace(lesion, density=SWAPPED[lesion.density])))


def _larger(phantom: Phantom, number: int) -> Iterator[Change]:
    lesion = phantom.truth.lesions[number]
    grown = replace(lesion, size_mm=lesion.size_mm + GROWN_MM)
    if lesion.kind == "结节" and _fits(phantom, grown, number):
        yield Change("larger", number, _with_lesion(phantom, number, grown))


_OF_LESIONS: Mapping[str, Callable[[Phantom, int], Iterator[Change]]] = MappingProxyType(
    {"removed": _removed, "mirrored": _mirrored, "density": _density, "larger": _larger}
)
KINDS = (*_OF_LESIONS, "effusion")


def _effusion(phantom: Phantom) -> Iterator[Change]:
    """Fluid on a side that has none, no fibrosis, and no lesion that would lie in it."""
    truth = phantom.truth
    for side in sorted(Side, key=lambda one: (one is Side.LEFT) ^ (truth.seed % 2 == 0)):
        if side not in truth.effusion | truth.fibrosis and all(_is_clear(phantom, one) for one in truth.lesions if one.side is side):
            wet = replace(truth, effusion=truth.effusion | {side})
            yield Change("effusion", None, replace(phantom, truth=wet, effusion_mm={**phantom.effusion_mm, side: FLUID_MM}))


def _is_clear(phantom: Phantom, lesion: Lesion) -> bool:
    lung = _lung(phantom, lesion.side)
    return lesion.center_mm[1] + lesion.size_mm / 2 <= lung.center_mm[1] + lung.axes_mm[1] - FLUID_MM - CLEAR_MM


def _fits(phantom: Phantom, lesion: Lesion, number: int) -> bool:
    """There is room for the lesion beside what is there without lesion `number`."""
    room = Room(phantom.anatomy, phantom.effusion_mm, phantom.truth.fibrosis)
    others = [one for row, one in enumerate(phantom.truth.lesions) if row != number]
    center = np.array(lesion.center_mm)
    apart = all(np.linalg.norm(center - np.array(one.center_mm)) > (lesion.size_mm + one.size_mm) / 2 + 12 for one in others)
    return apart and has_room(room, _lung(phantom, lesion.side), center, lesion.size_mm / 2)


def _lung(phantom: Phantom, side: Side) -> Lung:
    return next(lung for lung in phantom.lungs if lung.side is side)


def _with_lesion(phantom: Phantom, number: int, lesion: Lesion) -> Phantom:
    lesions = phantom.truth.lesions
    return _with_lesions(phantom, (*lesions[:number], lesion, *lesions[number + 1 :]))


def _with_lesions(phantom: Phantom, lesions: tuple[Lesion, ...]) -> Phantom:
    return replace(phantom, truth=replace(phantom.truth, lesions=lesions))


def followed(plain: Answer, changed: Changed) -> bool:
    """True when the report after the change says it, at the place of the change."""
    after = told_of(changed.answer)
    if not after.valid:
        return False
    if changed.lesion is None:
        return (changed.answer.truth.effusion - plain.truth.effusion) <= _wet(after)
    before = plain.truth.lesions[changed.lesion]
    if changed.what == "removed":
        return not _said_there(after, changed.answer, before)
    now = _said_of(after, changed.answer, changed.lesion)
    if now is None:
        return False
    if changed.what == "mirrored":
        return now.side == f"{OTHER[before.side]}肺" and not _said_there(after, changed.answer, before)
    if changed.what == "density":
        return now.density == SWAPPED[before.density]
    said = _said_of(told_of(plain), plain, changed.lesion)
    return said is not None and (now.size_mm or 0) >= (said.size_mm or 0) + SAID_GROWN_MM


def follow(cases: Sequence[Case]) -> dict[str, list[bool]]:
    """Kind of change → whether each was followed. Changes of lesions were made of such as the report had before, so none counts that it had not."""
    answers: dict[str, list[bool]] = {kind: [] for kind in KINDS}
    for case in cases:
        for one in case.changed or ():
            answers[one.what].append(followed(case.plain, one))
    return answers


def _wet(report: Told) -> frozenset[Side]:
    named = next((one.side for one in report.findings if one.kind == "胸腔积液"), "无")
    return next(sides for sides, name in SPREAD_SIDES.items() if name == named)


def _said_of(report: Told, answer: Answer, number: int) -> Finding | None:
    """The finding that is the true lesion `number`."""
    rows = {lesion: row for row, lesion in chest_matches(report, answer.candidates, answer.truth).items()}
    return report.findings[rows[number]] if number in rows else None


def _said_there(report: Told, answer: Answer, lesion: Lesion) -> bool:
    """Some finding lies where the lesion was."""
    lung = [one for one in report.findings if one.kind in LUNG_KINDS]
    return bool(matched(lung, answer.candidates, [(lesion.center_mm, lesion.size_mm)]))
