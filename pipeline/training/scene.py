"""What one report states, before it is put into words: the truth of every lesion that the encoder proposed, and what the scan was like."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from pipeline.drafting.schema import MAX_LESIONS, MAX_LIVER, MAX_NODES, MAX_SIZE_MM
from pipeline.flow.kernels import Sharpness, sharpness
from pipeline.model import Candidate, Side
from pipeline.training.pairing import paired
from pipeline.training.phantom import Lesion, LiverLesion, Node, Truth
from pipeline.training.reasons import Reason

NOWHERE = "无"
SPREAD_NAMES = {
    frozenset[Side](): NOWHERE,
    frozenset({Side.LEFT}): "左侧",
    frozenset({Side.RIGHT}): "右侧",
    frozenset({Side.LEFT, Side.RIGHT}): "双侧",
}
CONSOLIDATION, NODULE = "实变", "结节"


class Placed(Protocol):
    """Something of a size at a place (patient LPS, mm)."""

    @property
    def size_mm(self) -> float:
        """Its diameter."""

    @property
    def center_mm(self) -> tuple[float, float, float]:
        """Its middle."""


Thing = TypeVar("Thing", bound=Placed)
Listed = Lesion | Node | LiverLesion  # what the lists of a report are of


@dataclass(frozen=True, slots=True)
class Said:
    """One lung lesion as the report states it."""

    candidate: int
    kind: str
    lung: str
    lobe: str
    density: str
    size_mm: int
    margin: str = "光滑"
    calcified: bool = False
    retraction: bool = False

    @property
    def consolidated(self) -> bool:
        """True for consolidation."""
        return self.kind == CONSOLIDATION

    @property
    def signs(self) -> tuple[str, ...]:
        """What speaks for malignancy, in the order in which reports name it."""
        lobed = {"分叶": ("分叶征",), "毛刺": ("毛刺征",)}.get(self.margin, ())
        return (*lobed, *(("胸膜牵拉",) if self.retraction else ()))


@dataclass(frozen=True, slots=True)
class SaidNode:
    """One enlarged lymph node; `size_mm` is its short axis."""

    candidate: int
    size_mm: int


@dataclass(frozen=True, slots=True)
class SaidLiver:
    """One lesion of the liver."""

    candidate: int
    kind: str
    size_mm: int


@dataclass(frozen=True, slots=True)
class Scene:
    """Everything that the wording depends on. All of it stands in the features or in the prompt."""

    lesions: tuple[Said, ...] = ()
    nodes: tuple[SaidNode, ...] = ()
    liver: tuple[SaidLiver, ...] = ()
    effusion: str = NOWHERE
    emphysema: str = NOWHERE
    fibrosis: str = NOWHERE
    low_dose: bool = False
    contrast: bool = False
    sharp: bool = False
    reason: Reason = Reason.UNKNOWN

    @property
    def clear(self) -> bool:
        """True when nothing at all was found."""
        found = (*self.lesions, *self.nodes, *self.liver)
        return not found and {self.effusion, self.emphysema, self.fibrosis} == {NOWHERE}


def scene(candidates: Sequence[Candidate], truth: Truth, reason: Reason = Reason.UNKNOWN) -> Scene:
    """What a report of these proposals says: their sizes as measured, every other word as it is true; what was not proposed is left out."""
    return scene_of(candidates, match(candidates, there_is(truth)), truth, reason)


def there_is(truth: Truth) -> list[Listed]:
    """Everything of a truth that can be proposed."""
    return [*truth.lesions, *truth.nodes, *truth.liver]


def scene_of(candidates: Sequence[Candidate], found: Mapping[int, Listed], truth: Truth, reason: Reason = Reason.UNKNOWN) -> Scene:
    """The same where it is known which proposal is what; of `truth` only what has no place is read."""
    measured = {candidate.index: min(MAX_SIZE_MM, max(1, round(candidate.size_mm))) for candidate in candidates}
    lesions = [_said(index, thing, measured[index]) for index, thing in found.items() if isinstance(thing, Lesion)]
    nodes = [SaidNode(index, measured[index]) for index, thing in found.items() if isinstance(thing, Node)]
    liver = [SaidLiver(index, thing.kind, measured[index]) for index, thing in found.items() if isinstance(thing, LiverLesion)]
    return Scene(
        lesions=tuple(lesions[:MAX_LESIONS]),
        nodes=tuple(nodes[:MAX_NODES]),
        liver=tuple(liver[:MAX_LIVER]),
        effusion=SPREAD_NAMES[truth.effusion],
        emphysema=SPREAD_NAMES[truth.emphysema],
        fibrosis=SPREAD_NAMES[truth.fibrosis],
        low_dose=truth.low_dose,
        contrast=truth.contrast,
        sharp=sharpness(truth.kernel) is Sharpness.SHARP,
        reason=reason,
    )


def match(candidates: Sequence[Candidate], lesions: Sequence[Thing]) -> dict[int, Thing]:
    """Candidate index → lesion, nearest pairs first, each used once, in the order of the candidates."""
    found = paired({candidate.index: candidate.center_mm for candidate in candidates}, [(lesion.center_mm, lesion.size_mm) for lesion in lesions])
    return {index: lesions[found[index]] for index in sorted(found)}


def _said(index: int, lesion: Lesion, size_mm: int) -> Said:
    lung = f"{lesion.side}肺"
    return Said(index, lesion.kind, lung, lesion.lobe, lesion.density, size_mm, lesion.margin, lesion.calcified, lesion.retraction)
