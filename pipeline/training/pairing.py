"""Which proposal is which true thing: nearest pairs first, each used once. The corpus writes by it and evaluation counts by it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import dist

NEAR_MM = 10.0  # a proposal this near, or within half the thing's size, is that thing

Point = tuple[float, float, float]  # LPS, mm
Place = tuple[Point, float]  # centre and size, mm


def paired(points: Mapping[int, Point], places: Sequence[Place]) -> dict[int, int]:
    """Key of a point → number of the place that it is at, nearest pairs first."""
    near = sorted(
        (dist(point, center), key, number)
        for key, point in points.items()
        for number, (center, size_mm) in enumerate(places)
        if dist(point, center) <= max(NEAR_MM, size_mm / 2)
    )
    found: dict[int, int] = {}
    for _, key, number in near:
        if key not in found and number not in found.values():
            found[key] = number
    return found
