"""Steadiness: how long a report takes that shares a batch with shorter and longer ones, in continuous and in padded static batches.

Padded batches are played: the engine writes a group, and each report of it is taken to be ready when the whole group is. The engine spends no
row on texts that are done, which real padding would; so the padded figures are at their best here.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, pvariance
from typing import Any

import numpy as np

from pipeline.engine.generate import Decoded, Engine, Request
from pipeline.engine.policy import Policy
from pipeline.evaluation.decode_texts import Case, Told

CONTINUOUS, PADDED = "ctreport continuous", "padded static"
ARTICLE_SD_MS: Mapping[str, float] = {CONTINUOUS: 18.0, PADDED: 112.0}  # source article: native and padded batches, on its own machine and model


@dataclass(frozen=True, slots=True)
class Ready:
    """One report in one round: `place` is its place among the cases, `seconds` pass between its start and its being ready."""

    what: str
    place: int
    long: bool
    seconds: float


def mixed(lengths: Sequence[int], count: int) -> list[int]:
    """Places of the `count` // 2 shortest and as many of the longest texts; fewer where there are fewer."""
    order = sorted(range(len(lengths)), key=lambda place: lengths[place])
    half = min(count, len(order)) // 2
    return [*order[:half], *order[len(order) - half :]]


def run(engine: Engine, cases: Sequence[Case], lengths: Sequence[int], batch: int, rounds: int, told: Told) -> Iterator[Ready]:
    """Write the cases both ways, shuffled anew in each round so that each report meets other neighbours; `lengths` are their tokens.

    Longer than the middle one counts as long.
    """
    rng = random.Random(0)
    middle = sorted(lengths)[len(lengths) // 2]
    engine.generate_many([case.request for case in cases[:batch]], batch=batch, policy=Policy.default())  # touches the caches
    for number in range(rounds):
        order = list(range(len(cases)))
        rng.shuffle(order)
        for what, write in WAYS.items():
            told(number / rounds, f"{what}, round {number + 1} of {rounds}")
            took = write(engine, [cases[place].request for place in order], batch)
            yield from (Ready(what, place, lengths[place] >= middle, seconds) for place, seconds in zip(order, took, strict=True))


def _continuous(engine: Engine, requests: Sequence[Request], batch: int) -> list[float]:
    return [one.generation.seconds for one in _written(engine, requests, batch)]


def _padded(engine: Engine, requests: Sequence[Request], batch: int) -> list[float]:
    took: list[float] = []
    for start in range(0, len(requests), batch):
        group = requests[start : start + batch]
        began = time.perf_counter()
        _written(engine, group, batch)
        took += [time.perf_counter() - began] * len(group)
    return took


def _written(engine: Engine, requests: Sequence[Request], batch: int) -> list[Decoded]:
    return engine.generate_many(requests, batch=batch, policy=Policy.default())


WAYS: Mapping[str, Callable[[Engine, Sequence[Request], int], list[float]]] = {CONTINUOUS: _continuous, PADDED: _padded}


def rows(taken: Sequence[Ready], batch: int) -> list[dict[str, Any]]:
    """One row per way: latencies of all, of short and of long reports. `own_sd_ms`: how far one strays from its own mean."""
    return [_row(what, [one for one in taken if one.what == what], batch) for what in WAYS]


def _row(what: str, taken: Sequence[Ready], batch: int) -> dict[str, Any]:
    return {
        "part": "steady",
        "what": what,
        "batch": batch,
        "texts": len(taken),
        **spread([one.seconds for one in taken]),
        "own_sd_ms": own_sd_ms(taken),
        "short": spread([one.seconds for one in taken if not one.long]),
        "long": spread([one.seconds for one in taken if one.long]),
        "article_sd_ms": ARTICLE_SD_MS[what],
    }


def spread(seconds: Sequence[float]) -> dict[str, float | None]:
    """Mean, standard deviation, 5th and 95th percentile in ms; None for no values."""
    if not seconds:
        return dict.fromkeys(("mean_ms", "sd_ms", "p5_ms", "p95_ms"))
    ms = 1000 * np.asarray(seconds)
    low, high = np.percentile(ms, [5, 95])
    return {"mean_ms": round(float(ms.mean()), 1), "sd_ms": round(float(ms.std()), 1), "p5_ms": round(float(low), 1), "p95_ms": round(float(high), 1)}


def own_sd_ms(taken: Sequence[Ready]) -> float:
    """Root mean square, over reports, of the standard deviation of a report's latency over the rounds."""
    places = {one.place for one in taken}
    variances = [pvariance([one.seconds for one in taken if one.place == place]) for place in places]
    return round(1000 * math.sqrt(fmean(variances)), 1)
