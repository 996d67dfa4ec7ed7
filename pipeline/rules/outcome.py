"""What one rule says about a report."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.checking import Hit
from pipeline.model import Report


@dataclass(frozen=True, slots=True)
class Outcome:
    """The report after one rule, and its hits. `advice_shift`: characters by which the old text of 建议 moved to the right."""

    report: Report
    hits: tuple[Hit, ...] = ()
    advice_shift: int = 0
