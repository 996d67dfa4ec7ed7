"""From single texts to rows: speed beside plain decoding, and what became of the drafts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any

from pipeline.evaluation.decode_contenders import JUMPS, PLAIN
from pipeline.evaluation.decode_run import Taken
from pipeline.model import Generation

Row = dict[str, Any]
POSITIONS = 8
FIRST = 4


def rows(taken: Iterable[Taken]) -> list[Row]:
    """One row per contender, plain first. Speed-ups are medians over texts of plain seconds over the contender's for the same text."""
    groups: dict[str, list[Taken]] = {}
    for one in taken:
        groups.setdefault(one.what, []).append(one)
    ordered = sorted(groups, key=lambda what: what not in (PLAIN, JUMPS))
    return [_row(what, groups[what], groups[PLAIN], groups.get(JUMPS, [])) for what in ordered]


def _row(what: str, group: Sequence[Taken], plain: Sequence[Taken], jumps: Sequence[Taken]) -> Row:
    made = [one.generation for one in group if one.generation is not None]
    return {
        "part": "single",
        "what": what,
        "texts": len(group),
        "identical": sum(one.same for one in group),
        "median_ms": round(1000 * median(one.seconds for one in group), 1),
        "cpu_median_ms": round(1000 * median(one.cpu_s for one in group), 1),
        "tokens_per_s": round(median(one.tokens / one.seconds for one in group), 1),
        "speedup_vs_plain": speedup(group, plain),
        "speedup_vs_plain_jumps": speedup(group, jumps),
        **(drafts(made) if made else {}),
    }


def speedup(group: Sequence[Taken], other: Sequence[Taken]) -> float | None:
    """Median over the texts of both of the other's seconds a token over the group's; None without a common text."""
    before = {one.case: one.seconds / max(one.tokens, 1) for one in other}
    ratios = [before[one.case] * max(one.tokens, 1) / one.seconds for one in group if one.case in before]
    return round(median(ratios), 2) if ratios else None


def drafts(made: Sequence[Generation]) -> Row:
    """What drafting brought over all texts: shares of the whole, forced grammar tokens being no drafts."""
    tokens, steps = sum(one.tokens for one in made), sum(one.verify_count for one in made)
    positions = at_positions(made)
    four = positions[:FIRST]
    return {
        "tokens": tokens,
        "tokens_per_step": round(tokens / steps, 2) if steps else None,
        "forced_share": _share(sum(one.forced for one in made), tokens),
        "acceptance": _share(sum(accepted for _, accepted in positions), sum(drafted for drafted, _ in positions)),
        "acceptance_at": [_share(accepted, drafted) for drafted, accepted in positions[:POSITIONS]],
        "first_four_mean": round(sum(a / d for d, a in four) / FIRST, 4) if len(four) == FIRST and all(d for d, _ in four) else None,
        "first_four_all": _share(four[-1][1], four[-1][0]) if len(four) == FIRST else None,
        "sections": _sections(made),
        "sources": _sources(made),
    }


def at_positions(made: Sequence[Generation]) -> list[tuple[int, int]]:
    """(drafted, accepted) at position 1, 2, … over all texts; accepted there means that everything before it stood as well."""
    longest = max((len(one.positions) for one in made), default=0)
    columns = [[one.positions[place] for one in made if place < len(one.positions)] for place in range(longest)]
    return [(sum(drafted for drafted, _ in column), sum(accepted for _, accepted in column)) for column in columns]


def _sections(made: Sequence[Generation]) -> dict[str, Row]:
    names = dict.fromkeys(name for one in made for name in one.sections)
    found: dict[str, Row] = {}
    for name in names:
        tokens, drafted, accepted = (sum(column) for column in zip(*(one.sections[name] for one in made if name in one.sections), strict=True))
        found[name] = {"tokens": tokens, "drafted": drafted, "acceptance": _share(accepted, drafted)}
    return found


def _sources(made: Sequence[Generation]) -> dict[str, Row]:
    names = dict.fromkeys(name for one in made for name in one.sources)
    found: dict[str, Row] = {}
    for name in names:
        drafted, accepted = (sum(column) for column in zip(*(one.sources[name] for one in made if name in one.sources), strict=True))
        found[name] = {"drafted": drafted, "acceptance": _share(accepted, drafted)}
    return found


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None
