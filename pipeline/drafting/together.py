"""Several texts of one report as one: what they cost together, and who wrote them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest

from pipeline.model import DraftSource, Generation

AND = " + "  # versions hold a bare plus


def generation_of(parts: Mapping[str, Generation]) -> Generation:
    """Sums over the sections; the first token is that of the first section, and `lengths` says what was drafted per step in each."""
    made = list(parts.values())
    return Generation(
        tokens=sum(one.tokens for one in made),
        verify_count=sum(one.verify_count for one in made),
        accepted_histogram=_columns(one.accepted_histogram for one in made),
        seconds=sum(one.seconds for one in made),
        forced=sum(one.forced for one in made),
        positions=tuple((drafted, accepted) for drafted, accepted in _rows(one.positions for one in made)),
        sections={name: (a, b, c) for name, (a, b, c) in _by_name(one.sections for one in made).items()},
        sources={name: (a, b) for name, (a, b) in _by_name(one.sources for one in made).items()},
        first_token_s=made[0].first_token_s if made else None,
        lengths={name: k for section, part in parts.items() for name, k in (part.lengths or {section: part.k}).items()},
    )


def source_of(sources: Sequence[DraftSource]) -> DraftSource:
    """The one source, or all of them joined by ` + ` where rungs took over from each other; phantom-only as soon as one of them is."""
    return DraftSource(
        rung=_joined(one.rung for one in sources),
        model=_joined(one.model for one in sources),
        model_digest=_joined(one.model_digest for one in sources),
        phantom_only=any(one.phantom_only for one in sources),
        server=_joined(one.server for one in sources),
        speculation=_joined(one.speculation for one in sources),
    )


def _joined(texts: Iterable[str]) -> str:
    return AND.join(dict.fromkeys(part for text in texts for part in text.split(AND) if part))


def _columns(rows: Iterable[Sequence[int]]) -> tuple[int, ...]:
    """Sums of columns; a short row counts as zeros."""
    return tuple(sum(column) for column in zip_longest(*rows, fillvalue=0))


def _rows(tables: Iterable[Sequence[tuple[int, int]]]) -> list[tuple[int, ...]]:
    """Sums of equal rows of several tables; a short table counts as zeros."""
    return [_columns(rows) for rows in zip_longest(*tables, fillvalue=(0, 0))]


def _by_name(tables: Iterable[Mapping[str, tuple[int, ...]]]) -> dict[str, tuple[int, ...]]:
    """Sums of the counts under one name."""
    summed: dict[str, tuple[int, ...]] = {}
    for table in tables:
        for name, counts in table.items():
            summed[name] = _columns((summed.get(name, ()), counts))
    return summed
