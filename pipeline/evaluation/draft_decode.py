"""Decoding alone: 512 tokens behind 512 without a grammar and without an end, MTP on and off, one text at a time and up to 32."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from statistics import median
from typing import Any

from pipeline.drafting.prompt import PLACEHOLDER
from pipeline.drafting.served import ServedGenerator, generation_of
from pipeline.engine.generate import Engine
from pipeline.engine.policy import Policy
from pipeline.evaluation.decode_texts import Case, Told
from pipeline.evaluation.draft_freely import Prompt, Written, endless
from pipeline.evaluation.draft_rows import ALARM, acceptance
from pipeline.evaluation.draft_ways import EMBEDDED, OWN_WAY, PLAIN_WAY, SERVED_PLAIN

Row = dict[str, Any]
Write = Callable[[int, int], Written]  # texts at once, tokens each
DECODE, BATCH = "decode", "batch"
WAYS: Mapping[str, Policy] = {PLAIN_WAY: Policy.plain(), OWN_WAY: Policy(), "mtp 2": Policy.fixed(2), "mtp 4": Policy.fixed(4)}
PAYS = 1.05  # a speed-up below this is none


@dataclass(frozen=True, slots=True)
class Load:
    """What is written: tokens before, tokens of each text, texts at once, how often."""

    tokens_in: int = 512
    tokens_out: int = 512
    rounds: int = 3
    batches: tuple[int, ...] = (1, 2, 4, 8, 16, 32)
    batch_tokens: int = 128  # of each text of the sweep
    batch_rounds: int = 2

    def short(self) -> Load:
        """Rough figures."""
        return replace(self, rounds=1, batches=(1, 4, 16), batch_tokens=48, batch_rounds=1)


@dataclass(frozen=True, slots=True)
class Timed:
    """One round of one contender."""

    engine: str
    way: str
    part: str
    batch: int
    round: int
    written: Written

    @property
    def seconds(self) -> float:
        """For all texts."""
        return self.written.seconds


def writers(engine: Engine, served: Mapping[str, ServedGenerator], case: Case, tokens_in: int) -> dict[tuple[str, str], Write]:
    """(engine, way) → how it writes behind a prompt of `tokens_in` tokens that begins as a report's does. The plain one of each comes first."""
    prompt = longer(engine, case, tokens_in)
    ids, rows = engine.prepared(prompt, case.features, 1)
    found: dict[tuple[str, str], Write] = {
        (EMBEDDED, way): partial(_embedded, engine, (ids[:tokens_in], rows), policy) for way, policy in WAYS.items()
    }
    for name, one in sorted(served.items(), key=lambda item: item[0] != SERVED_PLAIN):
        found[name, PLAIN_WAY if name == SERVED_PLAIN else OWN_WAY] = partial(_served, one, prompt, case)
    return found


def longer(engine: Engine, case: Case, tokens: int) -> str:
    """The case's prompt with its own report behind it, again and again, cut so that it has at most `tokens` tokens."""
    before = len(engine.tokenizer.encode(case.prompt))
    report = engine.generate(case.prompt, case.features, schema=case.schema).text
    behind = engine.tokenizer.encode(report)
    wanted = max(tokens - before, 0)
    repeated = (behind * (wanted // max(len(behind), 1) + 1))[:wanted]
    return case.prompt + engine.tokenizer.decode(repeated).strip("\ufffd").replace(PLACEHOLDER, "")


def run(those: Mapping[tuple[str, str], Write], load: Load, told: Told) -> Iterator[Timed]:
    """Each contender in turn within each round, alone with long texts and then at each batch size; round 0 is short and is not counted."""
    for (engine, way), write in those.items():
        yield Timed(engine, way, DECODE, 1, 0, write(1, 8))
    for number in range(1, load.rounds + 1):
        for (engine, way), write in those.items():
            told(number / (load.rounds + 1) / 2, f"{engine} {way}, {load.tokens_out} tokens")
            yield Timed(engine, way, DECODE, 1, number, write(1, load.tokens_out))
    for place, batch in enumerate(load.batches):
        for number in range(1, load.batch_rounds + 1):
            for (engine, way), write in those.items():
                told(0.5 + place / len(load.batches) / 2, f"{engine} {way}, batch {batch}")
                yield Timed(engine, way, BATCH, batch, number, write(batch, load.batch_tokens))


def rows(taken: Sequence[Timed]) -> list[Row]:
    """One row per contender and batch. `speedup_vs_plain`: the median over rounds of plain seconds over these, at the same batch."""
    counted = [one for one in taken if one.round]
    keys = dict.fromkeys((one.part, one.batch, one.engine, one.way) for one in counted)
    return [_row([one for one in counted if (one.part, one.batch, one.engine, one.way) == key], counted) for key in keys]


def notes(found: Sequence[Row]) -> list[str]:
    """Where MTP stops paying, and where so few drafts stand that shorter ones are advised."""
    told = [
        f"{row['what']}: {row['acceptance']:.0%} of the drafted tokens stand in free text, below {ALARM:.0%}: draft fewer per step"
        for row in _low(found)
    ]
    for what in dict.fromkeys(row["what"] for row in found if row["part"] == BATCH and row["way"] != PLAIN_WAY):
        mine = sorted((row["batch"], row["speedup_vs_plain"]) for row in found if row["part"] == BATCH and row["what"] == what)
        if any(speedup is None for _, speedup in mine):
            continue
        stops = next((batch for batch, speedup in mine if speedup < PAYS), None)
        told.append(f"{what}: pays at every batch up to {mine[-1][0]}" if stops is None else f"{what}: does not pay from batch {stops} on")
    return told


def _low(found: Sequence[Row]) -> list[Row]:
    return [row for row in found if row["part"] == DECODE and row["acceptance"] is not None and row["acceptance"] < ALARM]


def _row(group: Sequence[Timed], every: Sequence[Timed]) -> Row:
    first = group[0]
    kin = SERVED_PLAIN if first.engine.startswith("sglang") else first.engine
    plain = {one.round: one for one in every if (one.part, one.batch, one.engine, one.way) == (first.part, first.batch, kin, PLAIN_WAY)}
    both = [(plain[one.round], one) for one in group if one.round in plain]
    tokens = [sum(made.tokens for made in one.written.made) for one in group]
    return {
        "part": first.part,
        "what": f"{first.engine} {first.way}",
        "engine": first.engine,
        "way": first.way,
        "batch": first.batch,
        "tokens": median(tokens) / first.batch,
        "median_ms": round(1000 * median(one.seconds for one in group), 1),
        "tokens_per_s": round(median(count / one.seconds for count, one in zip(tokens, group, strict=True)), 1),
        "speedup_vs_plain": round(median(before.seconds / one.seconds for before, one in both), 2) if both else None,
        "acceptance": acceptance([made for one in group for made in one.written.made]),
        "compared": len(both),
        "identical": sum(before.written.ids == one.written.ids for before, one in both),
    }


def _embedded(engine: Engine, prompt: Prompt, policy: Policy, batch: int, tokens: int) -> Written:
    return endless(engine, [prompt] * batch, tokens, policy)


def _served(one: ServedGenerator, prompt: str, case: Case, batch: int, tokens: int) -> Written:
    """As many requests at the same time as the batch is large. Raises ServiceUnavailable or ModelMissing."""
    question = replace(one.model.question(prompt, case.features, "", tokens), endless=True)
    info = one.info()
    began = time.perf_counter()
    with ThreadPoolExecutor(batch) as pool:
        answers = list(pool.map(lambda _: one.server.ask(question, info), range(batch)))
    seconds = time.perf_counter() - began
    return Written(tuple(answer.ids for answer in answers), tuple(generation_of(answer, info) for answer in answers), seconds)
