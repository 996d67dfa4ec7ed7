"""Where the slices of a series stand along their normal, and where one that is evenly spaced otherwise lacks some."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from pipeline.model import Gap, Instance, Series

SAME_PLACE_MM = 0.01
EVEN = 0.1  # a step is regular within this share of the median one
REGULAR_SHARE = 0.6  # fewer regular steps than this: the series is unevenly spaced, and nothing can be told of what is missing
WIDE = 1.5  # a step this many times the median one is wide


def normal(cosines: Sequence[float]) -> tuple[float, float, float]:
    """Row × column: the direction in which slices follow each other (PS3.3 C.7.6.2.1.1)."""
    (a, b, c), (d, e, f) = cosines[:3], cosines[3:6]
    return b * f - c * e, c * d - a * f, a * e - b * d


def along(image: Instance) -> float:
    """Place in mm along the slice normal. The image has position and orientation."""
    assert image.orientation is not None
    assert image.position_mm is not None
    return sum(a * b for a, b in zip(normal(image.orientation), image.position_mm, strict=True))


def places(images: Sequence[Instance]) -> int:
    """How many different places along the slice normal the images stand at."""
    standing = sorted(along(image) for image in images)
    return sum(1 for i, place in enumerate(standing) if i == 0 or place - standing[i - 1] > SAME_PLACE_MM)


def gaps(series: Series) -> tuple[Gap, ...]:
    """Where slices are missing between the outermost ones. Every image has a place; one orientation.

    Told only of a series with one image a place (no phases) whose steps are mostly equal. Where InstanceNumber jumps with the place, images
    are missing for sure; where it does not, the scanner may have left a space between two blocks, so a wide one is not counted.
    """
    images = sorted(series.instances, key=along)
    steps = [along(b) - along(a) for a, b in pairwise(images)]
    if len(steps) < 2 or min(steps) <= SAME_PLACE_MM:
        return ()
    step = median(steps)
    if sum(abs(one - step) <= EVEN * step for one in steps) < REGULAR_SHARE * len(steps):
        return ()
    stride = _stride(images)
    found = [_gap(series, images, index, round(width / step) - 1, stride) for index, width in enumerate(steps) if width >= WIDE * step]
    spaces = sum(gap.missing for gap in found if not gap.numbered)
    return tuple(gap for gap in found if gap.numbered or 2 * spaces <= len(images))


def _gap(series: Series, images: Sequence[Instance], index: int, missing: int, stride: float | None) -> Gap:
    jump = _jump(images[index], images[index + 1])
    numbered = stride is not None and jump == stride * (missing + 1)
    return Gap(series.description, index + 1, round(along(images[index]), 1), missing, numbered)


def _stride(images: Sequence[Instance]) -> float | None:
    """By how much InstanceNumber grows from slice to slice; None where it is missing, repeats or does not follow the slices."""
    jumps = [_jump(a, b) for a, b in pairwise(images)]
    known = [jump for jump in jumps if jump is not None]
    if len(known) < len(jumps) or not (all(jump > 0 for jump in known) or all(jump < 0 for jump in known)):
        return None
    return median(known)


def _jump(a: Instance, b: Instance) -> int | None:
    return None if a.instance_number is None or b.instance_number is None else b.instance_number - a.instance_number
