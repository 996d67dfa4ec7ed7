"""Which images of a series belong together as one stack: one orientation, one matrix, one image at a place, one acquisition or phase.

A series is left whole where it is one stack as it is (also of many acquisitions, as step-and-shoot scans are). Only where images stand at one place,
crowd between each other or lie far apart is it taken apart: by phase, acquisition and kind of image, then by the order of the numbers, at last by
place. Breath holds that follow each other are put together again; what the first one shows already is left out of the second.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median

from pipeline import geometry
from pipeline.flow.places import along, by_place, places
from pipeline.model import Instance, Series

CT_IMAGE = "1.2.840.10008.5.1.4.1.1.2"
ENHANCED, LEGACY_CONVERTED = "1.2.840.10008.5.1.4.1.1.2.1", "1.2.840.10008.5.1.4.1.1.2.2"
MULTI_FRAME = frozenset({ENHANCED, LEGACY_CONVERTED})
LOCALIZERS = frozenset({"LOCALIZER", "SCOUT", "TOP"})
WITHIN = frozenset({"MIP", "MINIP", "MPR", "TOP"})  # words that stand behind others in one value of ImageType ("CT_SOM5 MIP", "CSA MPR")
APART_MM = 40.0  # blocks of different acquisitions further apart are different scans
OVERLAP = 0.2  # acquisitions that share more than this of their places show the same body twice
NEXT_STEPS = 3.0  # and two that follow each other are at most so many steps apart
MOST_GROUPS = 200  # acquisitions; a series that counts more numbers each image, which tells nothing
TELLING = 3  # images in the largest acquisition: where each exposure has a number of its own, numbers tell no pass from another
MOSTLY = 0.9  # of all places in one run of numbers: the others are images sent or taken again
CROWDED = 0.5  # of the median step: images of another acquisition stand between


@dataclass(frozen=True, slots=True)
class Stack:
    """Images that can be read as one volume as far as the header says, rising along the normal; `label` is empty for the whole series."""

    label: str
    images: tuple[Instance, ...]
    left_out: int = 0  # images of the series at places that the stack shows already


@dataclass
class _Strand:
    """Images that were surely taken together, one at a place; or several, all at one place (what follows the bolus)."""

    images: list[Instance]
    low_mm: float = field(init=False)
    high_mm: float = field(init=False)
    places: int = field(init=False)
    left_out: int = 0

    def __post_init__(self) -> None:
        self._measure()

    def _measure(self) -> None:
        alongs = [along(image) for image in self.images]
        self.low_mm, self.high_mm, self.places = min(alongs), max(alongs), len(geometry.by_place(alongs))

    def follows(self, other: _Strand, step_mm: float) -> bool:
        """True when `other` goes on where this one ends, of the same phase and kind."""
        if (self.images[0].temporal, self.images[0].image_type) != (other.images[0].temporal, other.images[0].image_type):
            return False
        if self.places < len(self.images) or other.places < len(other.images):
            return False
        apart_mm = max(other.low_mm - self.high_mm, self.low_mm - other.high_mm)
        return apart_mm <= NEXT_STEPS * step_mm and len(other.images) - len(self._beyond(other, step_mm)) <= OVERLAP * len(other.images)

    def join(self, other: _Strand, step_mm: float) -> None:
        """Take over what `other` shows beyond this one."""
        new = self._beyond(other, step_mm)
        self.left_out += other.left_out + len(other.images) - len(new)
        self.images += new
        self._measure()

    def _beyond(self, other: _Strand, step_mm: float) -> list[Instance]:
        half = max(step_mm / 2, geometry.SAME_PLACE_MM)
        return [image for image in other.images if not self.low_mm - half < along(image) < self.high_mm + half]


def stacks(series: Series) -> tuple[Stack, ...]:
    """The stacks of a series, largest first, in the same order whatever order the images come in. Localizers and dose pages belong to none."""
    images = sorted((image for image in series.instances if is_image(image)), key=_listed)
    placed = [image for image in images if image.sop_class == CT_IMAGE and is_placed(image)]
    frames = _grouped((image for image in images if image.sop_class in MULTI_FRAME), lambda image: (image.sop_class, image.rows, image.columns))
    unplaced = [image for image in images if image.sop_class == CT_IMAGE and not is_placed(image)]
    strands = [strand for group in _planes(placed) for strand in _apart(group)]
    found = [(sorted(strand.images, key=along), strand.left_out) for strand in strands] + [(group, 0) for group in (*frames, unplaced) if group]
    found.sort(key=lambda one: (-_layers(one[0]), _listed(one[0][0])))
    labels = _labels([group for group, _ in found])
    return tuple(Stack(label, tuple(group), left_out) for label, (group, left_out) in zip(labels, found, strict=True))


def _layers(images: Sequence[Instance]) -> int:
    return places(images) if all(map(is_placed, images)) else sum(image.frames for image in images)


def is_image(image: Instance) -> bool:
    """A CT image that could be a slice, or an object that holds such."""
    return (image.sop_class == CT_IMAGE or image.sop_class in MULTI_FRAME) and LOCALIZERS.isdisjoint(kinds_of(image)) and not image.content


def kinds_of(image: Instance) -> frozenset[str]:
    """Values of ImageType, upper-case, and what stands within them."""
    values = [token.upper() for token in image.image_type]
    return frozenset([*values, *(word for value in values for word in value.split() if word in WITHIN)])


def is_placed(image: Instance) -> bool:
    """True when the header says where it stands and which way it faces."""
    return image.position_mm is not None and image.orientation is not None and geometry.is_orientation(image.orientation)


def _listed(image: Instance) -> tuple[bool, int, str]:
    return image.instance_number is None, image.instance_number or 0, image.sop_uid


def _grouped(images: Iterable[Instance], key: Callable[[Instance], Hashable]) -> list[list[Instance]]:
    groups: dict[Hashable, list[Instance]] = defaultdict(list)
    for image in images:
        groups[key(image)].append(image)
    return list(groups.values())


def _planes(images: Sequence[Instance]) -> list[list[Instance]]:
    """Images of one matrix and one orientation."""
    found = []
    for group in _grouped(images, lambda image: (image.rows, image.columns)):
        turned = geometry.by_orientation([image.orientation or () for image in group])
        found += [[group[index] for index in indexes] for indexes in turned]
    return found


def _apart(images: list[Instance]) -> list[_Strand]:
    """One strand where the images are one stack as they are, else as many as there are."""
    groups = _grouped(images, lambda image: (image.temporal, image.acquisition, image.image_type))
    if _is_one(images, len(groups)) or places(images) == 1:
        return [_Strand(images)]
    if len(groups) > MOST_GROUPS or max(map(len, groups)) < TELLING:
        groups = _grouped(images, lambda image: (image.temporal, image.image_type))
    told = groups if len(groups) <= MOST_GROUPS else [images]
    return _joined([_Strand(strand) for group in told for strand in _singles(group)], _step_mm(images))


def _is_one(images: Sequence[Instance], groups: int) -> bool:
    """True when no two images stand at one place and, of several acquisitions, none crowds into another or lies far away."""
    alongs = sorted(along(image) for image in images)
    steps = [b - a for a, b in pairwise(alongs)]
    if not steps or groups == 1:
        return not steps or min(steps) > geometry.SAME_PLACE_MM
    return min(steps) > max(geometry.SAME_PLACE_MM, CROWDED * median(steps)) and max(steps) <= APART_MM


def _singles(images: list[Instance]) -> list[list[Instance]]:
    """One acquisition as strands: by the order of the numbers where that keeps the places together, else by place where each has as many.

    Where numbers are absent, come twice or follow nothing, or a place lacks an image, nothing here tells phases apart: all images stay together, and
    whoever reads their headers parts them or refuses. A volume is never made of two phases.
    """
    at = by_place(images)
    numbers = {image.instance_number for image in images}
    if len(at) in (1, len(images)) or None in numbers or len(numbers) < len(images):
        return [images]
    runs = _runs(images, {image.sop_uid: index for index, group in enumerate(at) for image in group})
    most, longest = max(map(len, at)), max(map(len, runs))
    if longest >= MOSTLY * len(at) or (len(runs) <= most and 2 * longest >= len(at)):
        return runs
    if any(len(group) < most for group in at):
        return [images]
    ranked = [[group[rank] for group in at] for rank in range(most)]
    return ranked if all(map(_follow, ranked)) else [images]


def _follow(images: Sequence[Instance]) -> bool:
    """True when the numbers rise, or fall, from place to place. Each has one."""
    jumps = [(b.instance_number or 0) - (a.instance_number or 0) for a, b in pairwise(images)]
    return all(jump > 0 for jump in jumps) or all(jump < 0 for jump in jumps)


def _runs(images: Sequence[Instance], place: dict[str, int]) -> list[list[Instance]]:
    """The images in the order of their numbers, a new run wherever a place comes again or the way turns: a phase that reaches farther than the one
    before it begins where that one has no images."""
    runs: list[list[Instance]] = []
    at: list[int] = []  # places of the present run
    seen: set[int] = set()
    for image in images:
        here = place[image.sop_uid]
        turns = len(at) > 1 and (here - at[-1]) * (at[-1] - at[-2]) < 0
        if not at or here in seen or turns:
            first = turns and here not in seen and len(at) > 2 and abs(at[-1] - at[-2]) > 1  # the last image was the first of this run
            runs.append([runs[-1].pop()] if first else [])
            at = at[-1:] if first else []
            seen = set(at)
        runs[-1].append(image)
        at.append(here)
        seen.add(here)
    return runs


def _step_mm(images: Sequence[Instance]) -> float:
    alongs = [along(group[0]) for group in by_place(images)]
    return median([b - a for a, b in pairwise(alongs)] or [0.0])


def _joined(strands: list[_Strand], step_mm: float) -> list[_Strand]:
    """Strands put together where one goes on after the other, beginning with the largest."""
    left = sorted(strands, key=lambda strand: (-strand.places, _listed(strand.images[0])))
    found = []
    while left:
        base, left = left[0], left[1:]
        for upward in (True, False):
            for other in sorted(left, key=lambda strand: strand.low_mm if upward else -strand.high_mm):
                if base.follows(other, step_mm):
                    base.join(other, step_mm)
                    left = [one for one in left if one is not other]
        found.append(base)
    return found


def _labels(groups: Sequence[Sequence[Instance]]) -> list[str]:
    """What tells the stacks of a series apart, as a reader is told; one stack needs no label."""
    if len(groups) < 2:
        return [""] * len(groups)
    everything = [image for group in groups for image in group]
    traits = [trait for trait in _TRAITS if len({trait(image) for image in everything}) > 1]
    labels = ["，".join(filter(None, (_range([trait(image) for image in group]) for trait in traits))) for group in groups]
    return [label if label and labels.count(label) == 1 else f"{label}第 {index} 组" for index, label in enumerate(labels, start=1)]


def _range(words: Sequence[str]) -> str:
    known = list(dict.fromkeys(words))
    return known[0] if len(known) == 1 else f"{known[0]} 等"


def _phase(image: Instance) -> str:
    return "" if image.temporal is None else f"时相 {image.temporal}"


def _acquisition(image: Instance) -> str:
    return "" if image.acquisition is None else f"采集 {image.acquisition}"


def _matrix(image: Instance) -> str:
    return f"{image.rows}×{image.columns}"


_TRAITS: tuple[Callable[[Instance], str], ...] = (_phase, _acquisition, _matrix)
