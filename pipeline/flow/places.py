"""Where the images of a series stand along their normal, and where one that is evenly spaced otherwise lacks some. What a gap is says `geometry`."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline import geometry
from pipeline.evidence import Gap
from pipeline.model import Instance, Series


def along(image: Instance) -> float:
    """Place in mm along the slice normal. The image has position and orientation."""
    assert image.orientation is not None
    assert image.position_mm is not None
    return geometry.along(image.orientation, image.position_mm)


def by_place(images: Sequence[Instance]) -> tuple[tuple[Instance, ...], ...]:
    """The images at each place, rising along the normal; those of one place in the order in which they are given."""
    return tuple(tuple(images[index] for index in sorted(group)) for group in geometry.by_place([along(image) for image in images]))


def places(images: Sequence[Instance]) -> int:
    """How many different places along the slice normal the images stand at."""
    return len(geometry.by_place([along(image) for image in images]))


def gaps(series: Series) -> tuple[Gap, ...]:
    """Where slices are missing between the outermost ones. Every image has a place; one orientation; of several at a place the first counts. See
    `geometry.missing`."""
    images = [group[0] for group in by_place(series.instances)]
    numbers = [image.instance_number for image in images]
    found = geometry.missing([along(image) for image in images], numbers)
    return tuple(_gap(series, hole, numbers[hole.after - 1], numbers[hole.after]) for hole in found)


def _gap(series: Series, hole: geometry.Hole, before: int | None, behind: int | None) -> Gap:
    shown = None if before is None or behind is None or before == behind else (before, behind)
    return Gap(series.description, hole.after, round(hole.after_mm, 1), hole.missing, hole.numbered, series.number, shown)
