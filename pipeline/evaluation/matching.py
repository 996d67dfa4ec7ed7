"""Findings and true lesions are matched by coordinates: through the candidate region that each finding names, never by words."""

from __future__ import annotations

from collections.abc import Sequence
from math import dist

from pipeline.model import Candidate, Finding

NEAR_MM = 10.0  # a candidate this near, or within half the lesion's size, is that lesion: as the corpus has it

Point = tuple[float, float, float]  # LPS, mm
Place = tuple[Point, float]  # centre and size, mm


def matched(findings: Sequence[Finding], candidates: Sequence[Candidate], places: Sequence[Place]) -> dict[int, int]:
    """Number of a finding → number of a true place; nearest pairs first, each finding and each place once."""
    centers = {candidate.index: candidate.center_mm for candidate in candidates}
    pairs = sorted(
        (dist(centers[finding.candidate], center), row, number)
        for row, finding in enumerate(findings)
        if finding.candidate in centers
        for number, (center, size_mm) in enumerate(places)
        if dist(centers[finding.candidate], center) <= max(NEAR_MM, size_mm / 2)
    )
    taken: dict[int, int] = {}
    for _, row, number in pairs:
        if row not in taken and number not in taken.values():
            taken[row] = number
    return taken
