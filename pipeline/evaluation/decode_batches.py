"""Several texts at a time: tokens per second of continuous batches of 1, 4 and 8, under the same policy."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from pipeline.engine.generate import Engine, Request
from pipeline.engine.policy import Policy
from pipeline.evaluation.decode_contenders import DEFAULT, PLAIN
from pipeline.evaluation.decode_texts import Case, Told

SIZES = (1, 4, 8)
POLICIES: Mapping[str, Policy] = {PLAIN: Policy.plain(), DEFAULT: Policy.default()}


@dataclass(frozen=True, slots=True)
class Batched:
    """All texts once, `batch` at a time, in one round."""

    what: str
    batch: int
    round: int
    seconds: float
    tokens: int
    ids: tuple[tuple[int, ...], ...]


def run(engine: Engine, cases: Sequence[Case], texts: int, rounds: int, told: Told) -> Iterator[Batched]:
    """Write `texts` reports (cases over again where there are fewer) at each size under each policy, in turn within each round.

    Round 0 writes only as many as fit at once and is not to be counted: costs are measured and caches touched in it.
    """
    requests = [case.request for case in around(cases, texts)]
    for number in range(rounds + 1):
        for batch in SIZES:
            for what, policy in POLICIES.items():
                told(number / (rounds + 1), f"batch {batch}, round {number} of {rounds}")
                yield _once(engine, what, policy, batch, number, requests if number else requests[:batch])


def around(cases: Sequence[Case], count: int) -> list[Case]:
    """`count` cases, from the first on again behind the last."""
    return [cases[number % len(cases)] for number in range(count)]


def _once(engine: Engine, what: str, policy: Policy, batch: int, number: int, requests: Sequence[Request]) -> Batched:
    began = time.perf_counter()
    made = engine.generate_many(requests, batch=batch, policy=policy)
    spent = time.perf_counter() - began
    return Batched(what, batch, number, spent, sum(len(one.ids) for one in made), tuple(one.ids for one in made))


def rows(taken: Sequence[Batched]) -> list[dict[str, Any]]:
    """One row per policy and size; `speedup_vs_batch_1` is the median over rounds of the same policy's seconds one at a time over these."""
    counted = [one for one in taken if one.round]
    reference = next(one.ids for one in counted if (one.what, one.batch) == (PLAIN, 1))
    return [_row([one for one in counted if (one.what, one.batch) == (what, batch)], counted, reference) for what in POLICIES for batch in SIZES]


def _row(group: Sequence[Batched], every: Sequence[Batched], reference: Sequence[tuple[int, ...]]) -> dict[str, Any]:
    first = group[0]
    alone = {one.round: one.seconds for one in every if (one.what, one.batch) == (first.what, 1)}
    return {
        "part": "batch",
        "what": first.what,
        "batch": first.batch,
        "texts": len(first.ids) * len(group),
        "identical": sum(ids == wanted for one in group for ids, wanted in zip(one.ids, reference, strict=True)),
        "rounds": len(group),
        "median_ms": round(1000 * median(one.seconds for one in group) / len(first.ids), 1),  # of a report, all told
        "tokens_per_s": round(median(one.tokens / one.seconds for one in group), 1),
        "speedup_vs_batch_1": round(median(alone[one.round] / one.seconds for one in group), 2),
    }
