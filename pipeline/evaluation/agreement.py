"""Do list and prose of one report say the same? Each listed finding has its words, and no words have no listed finding."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.evaluation.told import LIVER_KINDS, LUNG_KINDS, SPREAD
from pipeline.model import Finding

ROUNDING_MM = 0.5


def agree(listed: Sequence[Finding], said: Sequence[Finding], *, detailed: bool) -> bool:
    """True when both name the same findings with the same side, lobe and size; `detailed`: with what else the list gives of lung lesions, too."""
    pairs = paired(listed, said)
    whole = len(pairs) == len(listed) == len(said)
    return whole and all(_same(listed[row], said[at]) and (not detailed or _same_details(listed[row], said[at])) for row, at in pairs.items())


def paired(listed: Sequence[Finding], said: Sequence[Finding]) -> dict[int, int]:
    """Number of a listed finding → number of the statement about it, best fits first; only what lies in one organ can be the same."""
    fits = sorted((-_fit(one, other), row, at) for row, one in enumerate(listed) for at, other in enumerate(said) if _group(one) == _group(other))
    taken: dict[int, int] = {}
    for _, row, at in fits:
        if row not in taken and at not in taken.values():
            taken[row] = at
    return taken


def _group(one: Finding) -> str:
    """A lesion of lung or liver may be called by another kind, and then differs; it is still what the text speaks of."""
    return "肺" if one.kind in LUNG_KINDS else "肝" if one.kind in LIVER_KINDS else one.kind


def _fit(one: Finding, other: Finding) -> int:
    """Kind before side before lobe before size before density."""
    return (
        16 * (one.kind == other.kind)
        + 8 * (one.side == other.side)
        + 4 * (one.lobe == other.lobe)
        + 2 * _same_size(one, other)
        + (one.density == other.density)
    )


def _same(one: Finding, other: Finding) -> bool:
    return one.kind == other.kind and one.side == other.side and one.lobe == other.lobe and (one.kind in SPREAD or _same_size(one, other))


def _same_size(one: Finding, other: Finding) -> bool:
    if one.size_mm is None or other.size_mm is None:
        return one.size_mm is other.size_mm
    return abs(one.size_mm - other.size_mm) <= ROUNDING_MM


def _same_details(one: Finding, other: Finding) -> bool:
    """Density and margin as listed; calcification and retraction are said where they are listed, and may go unsaid where not."""
    if one.kind not in LUNG_KINDS:
        return True
    words = one.density == other.density and one.margin == other.margin
    return words and (one.internal == "钙化") == (other.internal == "钙化") and (one.surround == "胸膜牵拉") == (other.surround == "胸膜牵拉")
