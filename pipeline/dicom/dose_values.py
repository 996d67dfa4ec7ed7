"""Numbers of a dose report with their units: finite, not negative, plausible, or a note that says what was wrong."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from pipeline.dicom.dose_codes import REGION_WORDS
from pipeline.dicom.dose_tree import Item


def quantity(found: Sequence[Item], units: Mapping[str, float], most: float, name: str, notes: list[str]) -> float | None:
    """The first value of these items in the house's unit. Absent: None. Unusable: None and a note. Without a unit: the usual one, with a note."""
    for item in found:
        written = item.number()
        if written is None:
            continue
        value, unit = _finite(written[0]), written[1].strip().lower()
        factor = units.get(unit, None if unit else 1.0)
        if value is None or factor is None or not 0 <= value * factor <= most:
            notes.append(f"{name} 的值“{written[0][:16]} {written[1][:16]}”不可用，未计入")
            return None
        if not unit:
            notes.append(f"{name} 未写单位，按常用单位计")
        return value * factor
    return None


def _finite(written: str) -> float | None:
    try:
        value = float(written)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def region_of_words(*texts: str) -> str:
    """The region that the first speaking text names; empty when none does."""
    for words in texts:
        for pattern, region in REGION_WORDS:
            if words and re.search(pattern, words, re.IGNORECASE):
                return region
    return ""
