"""Where planes stand in space: slice normal, places along it, even steps and what is missing between them. Plain numbers in and out; mm, patient LPS.

One truth for the step that waits for a study to be complete and for the room that reads its pixels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

Vector = tuple[float, float, float]

AXIAL_COSINE = 0.85  # |z| of the normal of an axial plane: up to 31° of gantry tilt; coronal and sagittal have 0
COSINE_TOLERANCE = 1e-3  # direction cosines this close are one orientation
SAME_PLACE_MM = 0.01
EVEN = 0.1  # a step is regular within this share of the median one
REGULAR_SHARE = 0.6  # fewer regular steps than this: unevenly spaced, and nothing can be told of what was meant to be there
WIDE = 1.4  # a step this many times the median one is a hole
MAX_GAP_MM = 40.0  # in an evenly spaced series, wider than a lesion that matters: refuse instead of interpolating
MAX_STEP_MM = 80.0  # in one that is unevenly spaced throughout, where every step is told
LONG_RUN = 4  # so many equal steps are meant
MOSTLY = 0.8


@dataclass(frozen=True, slots=True)
class Hole:
    """A step wider than the others. `after` is the plane before it, 1-based from the low end of the normal."""

    after: int
    after_mm: float  # place of that plane along the normal
    step_mm: float
    missing: int  # planes of the median step that would fill it
    numbered: bool  # InstanceNumber jumps there by just that many: evidence that images are missing, not space


@dataclass(frozen=True, slots=True)
class Spacing:
    """The steps between planes that stand at different places."""

    step_mm: float  # the median one
    even: bool  # most steps are the median one: a hole means something is missing
    holes: tuple[Hole, ...]


@dataclass(frozen=True, slots=True)
class Run:
    """Planes that follow each other at one step; `first` and `last` are 1-based."""

    first: int
    last: int
    step_mm: float


def normal(cosines: Sequence[float]) -> Vector:
    """Row × column: the direction in which slices follow each other (PS3.3 C.7.6.2.1.1)."""
    (a, b, c), (d, e, f) = cosines[:3], cosines[3:6]
    return b * f - c * e, c * d - a * f, a * e - b * d


def is_orientation(cosines: Sequence[float], tolerance: float = 0.01) -> bool:
    """Six finite numbers: two unit vectors at right angles."""
    if len(cosines) != 6 or not all(map(math.isfinite, cosines)):
        return False
    row, column = cosines[:3], cosines[3:]
    return all(abs(value) <= tolerance for value in (dot(row, row) - 1, dot(column, column) - 1, dot(row, column)))


def orthonormal(cosines: Sequence[float]) -> tuple[float, ...]:
    """The same orientation with unit vectors at right angles: headers round, and a thousandth is a third of a millimetre along a chest."""
    row = _unit(cosines[:3])
    column = cosines[3:6]
    leaning = dot(row, column)
    return (*row, *_unit([b - leaning * a for a, b in zip(row, column, strict=True)]))


def _unit(vector: Sequence[float]) -> Vector:
    length = math.sqrt(dot(vector, vector))
    return vector[0] / length, vector[1] / length, vector[2] / length


def dot(a: Sequence[float], b: Sequence[float]) -> float:
    """Scalar product of two vectors of three."""
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def along(cosines: Sequence[float], position_mm: Sequence[float]) -> float:
    """Place of a plane in mm along its own normal."""
    return dot(normal(cosines), position_mm)


def by_orientation(cosines: Sequence[Sequence[float]], tolerance: float = COSINE_TOLERANCE) -> tuple[tuple[int, ...], ...]:
    """Indexes of the planes of each orientation, in the order in which orientations first appear; each is compared with the first of its group."""
    groups: list[list[int]] = []
    for index, own in enumerate(cosines):
        fitting = (group for group in groups if max(abs(a - b) for a, b in zip(own, cosines[group[0]], strict=True)) <= tolerance)
        if (group := next(fitting, None)) is None:
            groups.append([index])
        else:
            group.append(index)
    return tuple(map(tuple, groups))


def by_place(alongs: Sequence[float]) -> tuple[tuple[int, ...], ...]:
    """Indexes of the planes at each place, rising along the normal; more than one index: images at one position."""
    groups: list[list[int]] = []
    last = -math.inf
    for index in sorted(range(len(alongs)), key=alongs.__getitem__):
        if alongs[index] - last > SAME_PLACE_MM:
            groups.append([])
        groups[-1].append(index)
        last = alongs[index]
    return tuple(map(tuple, groups))


def spacing(alongs: Sequence[float], numbers: Sequence[int | None] | None = None) -> Spacing | None:
    """Steps and holes of planes given in rising order; None for fewer than two, or where two stand at one place. `numbers` are InstanceNumbers."""
    steps = [b - a for a, b in pairwise(alongs)]
    if not steps or min(steps) <= SAME_PLACE_MM:
        return None
    step = median(steps)
    regular = sum(abs(one - step) <= EVEN * step for one in steps)
    jumps = [None] * len(steps) if numbers is None else [None if a is None or b is None else b - a for a, b in pairwise(numbers)]
    stride = _stride(jumps)
    holes = tuple(_hole(alongs, index, step, jumps[index], stride) for index, one in enumerate(steps) if one >= WIDE * step)
    return Spacing(step, regular >= REGULAR_SHARE * len(steps), holes)


def missing(alongs: Sequence[float], numbers: Sequence[int | None] | None = None) -> tuple[Hole, ...]:
    """The holes where images are missing. Planes in rising order.

    Told only of planes at different places whose steps are mostly equal. Where InstanceNumber jumps with the place, images are missing for sure;
    where it does not, the scanner may have left a space between two blocks, so wide ones are not counted.
    """
    if len(alongs) < 3 or (found := spacing(alongs, numbers)) is None or not found.even:
        return ()
    spaces = sum(hole.missing for hole in found.holes if not hole.numbered)
    return tuple(hole for hole in found.holes if hole.numbered or 2 * spaces <= len(alongs))


def runs(alongs: Sequence[float]) -> tuple[Run, ...]:
    """Maximal runs of steps that are equal to the first of their run within EVEN. Planes in rising order, at different places."""
    found: list[Run] = []
    for index, (a, b) in enumerate(pairwise(alongs), start=1):
        step = b - a
        if found and abs(step - found[-1].step_mm) <= EVEN * found[-1].step_mm:
            found[-1] = Run(found[-1].first, index + 1, found[-1].step_mm)
        else:
            found.append(Run(index, index + 1, step))
    return tuple(found)


def lasting_runs(alongs: Sequence[float]) -> tuple[Run, ...]:
    """The long runs of a series that was taken at two or more steps; () where it has one step, or none that lasts."""
    found = tuple(run for run in runs(alongs) if run.last - run.first >= LONG_RUN)
    if len(found) < 2 or sum(run.last - run.first for run in found) < MOSTLY * (len(alongs) - 1):
        return ()
    low, high = min(run.step_mm for run in found), max(run.step_mm for run in found)
    return found if high - low > EVEN * low else ()


def torn(alongs: Sequence[float]) -> bool:
    """True where a step is too wide for anything to be interpolated across it: no volume. Planes in rising order, at different places."""
    found = spacing(alongs)
    if found is None:
        return False
    return max(b - a for a, b in pairwise(alongs)) > (MAX_GAP_MM if found.even or lasting_runs(alongs) else MAX_STEP_MM)


def _hole(alongs: Sequence[float], index: int, step: float, jump: int | None, stride: float | None) -> Hole:
    width = alongs[index + 1] - alongs[index]
    count = max(1, round(width / step) - 1)
    return Hole(index + 1, alongs[index], width, count, stride is not None and jump == stride * (count + 1))


def _stride(jumps: Sequence[int | None]) -> float | None:
    """By how much InstanceNumber grows from plane to plane; None where it is missing, repeats or does not follow the planes."""
    known = [jump for jump in jumps if jump is not None]
    if not known or len(known) < len(jumps) or not (all(jump > 0 for jump in known) or all(jump < 0 for jump in known)):
        return None
    return median(known)
