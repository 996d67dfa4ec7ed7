"""Beam search, plain and with the MTP layer running ahead: time, passes and the score of what it finds, text by text in turn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any

from pipeline.engine.beam import Beamed, beam_search
from pipeline.engine.generate import Engine
from pipeline.evaluation.decode_texts import MAX_TOKENS, Case, Told

SAME = 1e-4  # of a score: passes of other sizes differ by about 1e-6 in their logits


@dataclass(frozen=True, slots=True)
class Searched:
    """One text searched for both ways."""

    plain: Beamed
    assisted: Beamed


def run(engine: Engine, cases: Sequence[Case], width: int, told: Told, max_tokens: int = MAX_TOKENS) -> Iterator[Searched]:
    """Search for each case's report with `width` branches, both ways."""
    for number, case in enumerate(cases):
        told(number / len(cases), f"beam search {number + 1} of {len(cases)}")
        plain, assisted = (_search(engine, case, width, max_tokens, assisted=assisted) for assisted in (False, True))
        yield Searched(plain, assisted)


def _search(engine: Engine, case: Case, width: int, max_tokens: int, *, assisted: bool) -> Beamed:
    return beam_search(engine, case.prompt, case.features, case.schema, width, assisted=assisted, max_tokens=max_tokens)


def rows(taken: Sequence[Searched], width: int) -> list[dict[str, Any]]:
    """A row per way. `at_least_plain`: texts whose score is not below that of plain search."""
    ratio = round(median(one.plain.seconds / one.assisted.seconds for one in taken), 2)
    equal = sum(one.plain.ids == one.assisted.ids for one in taken)
    not_below = sum(one.assisted.score >= one.plain.score - SAME for one in taken)
    plain = _row("beam search, plain", [one.plain for one in taken], width)
    assisted = _row("beam search, mtp", [one.assisted for one in taken], width)
    return [
        plain | {"speedup_vs_plain": 1.0, "identical": len(taken), "at_least_plain": len(taken)},
        assisted | {"speedup_vs_plain": ratio, "identical": equal, "at_least_plain": not_below},
    ]


def _row(what: str, found: Sequence[Beamed], width: int) -> dict[str, Any]:
    return {
        "part": "beam",
        "what": what,
        "width": width,
        "texts": len(found),
        "median_ms": round(1000 * median(one.seconds for one in found), 1),
        "tokens_per_s": round(median(len(one.ids) / one.seconds for one in found), 1),
        "forwards": median(one.forwards for one in found),
        "drafts": median(one.drafts for one in found),
        "score": round(fmean(one.score for one in found), 4),
    }
