"""All contenders write the same reports, in turn within each text, and each text is compared with the plain one."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pipeline.evaluation.decode_contenders import Contender
from pipeline.evaluation.decode_texts import MAX_TOKENS, Case, Told
from pipeline.model import Generation


@dataclass(frozen=True, slots=True)
class Taken:
    """One text by one contender. `same`: its ids are those of the first contender; `generation` is None of a peer."""

    what: str
    case: str
    seconds: float
    cpu_s: float
    tokens: int
    same: bool
    generation: Generation | None = None


def run(contenders: Sequence[Contender], cases: Sequence[Case], told: Told) -> Iterator[Taken]:
    """Measure every contender on every case; the first, the plain one, opens each text, the others take turns at being next.

    Everyone writes the first text once before anything is timed: costs are measured, sentences read and code warm by then.
    """
    plain, *others = contenders
    tokens = len(plain.write(cases[0], MAX_TOKENS).ids)
    for one in others:
        one.write(cases[0], tokens)
    for number, case in enumerate(cases):
        told(number / len(cases), f"text {number + 1} of {len(cases)}")
        yield from _one_text([plain, *_turned(others, number)], case, number)


def _one_text(contenders: Sequence[Contender], case: Case, number: int) -> Iterator[Taken]:
    reference: tuple[int, ...] | None = None
    for one in contenders:
        if one.texts is not None and number >= one.texts:
            continue
        wall, cpu = time.perf_counter(), time.process_time()
        made = one.write(case, MAX_TOKENS if reference is None else len(reference))
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        reference = made.ids if reference is None else reference
        yield Taken(one.what, case.name, wall, cpu, len(made.ids), made.ids == reference, made.generation)


def _turned(contenders: Sequence[Contender], by: int) -> list[Contender]:
    start = by % len(contenders) if contenders else 0
    return [*contenders[start:], *contenders[:start]]
