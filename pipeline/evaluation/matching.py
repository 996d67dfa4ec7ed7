"""Findings and true lesions are matched by coordinates: through the candidate region that each finding names, never by words."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.model import Candidate, Finding
from pipeline.training.pairing import Place, paired


def matched(findings: Sequence[Finding], candidates: Sequence[Candidate], places: Sequence[Place]) -> dict[int, int]:
    """Number of a finding → number of a true place; nearest pairs first, each finding and each place once."""
    centers = {candidate.index: candidate.center_mm for candidate in candidates}
    return paired({row: centers[finding.candidate] for row, finding in enumerate(findings) if finding.candidate in centers}, places)
