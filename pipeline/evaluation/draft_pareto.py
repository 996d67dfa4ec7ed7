"""Pareto sweep over draft length, temperature and top-p: what a report takes and how good it is. Greedy texts are the same at every length."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from pipeline.drafting.served import ServedGenerator
from pipeline.engine.generate import Engine
from pipeline.engine.policy import Policy
from pipeline.evaluation.decode_texts import MAX_TOKENS, Case, Told
from pipeline.evaluation.draft_freely import sampled
from pipeline.evaluation.draft_ways import EMBEDDED, SERVED_PLAIN
from pipeline.evaluation.figures import figures
from pipeline.evaluation.score import score
from pipeline.evaluation.told import told as told_by
from pipeline.model import Candidate
from pipeline.training.truth import Truth

Row = dict[str, Any]
PARETO = "pareto"
KS: tuple[int | None, ...] = (0, 2, 4, 6, 8, None)  # None: the engine's own policy
HEATS = ((0.3, 0.9), (0.3, 1.0), (0.7, 0.9), (0.7, 1.0), (1.0, 0.9), (1.0, 1.0))  # temperature, top-p
GREEDY = (0.0, 1.0)


@dataclass(frozen=True, eq=False)
class Known:
    """A scan whose findings are known: its prompt and features, what the encoder proposed, and the truth."""

    case: Case
    candidates: tuple[Candidate, ...]
    truth: Truth


@dataclass(frozen=True, slots=True)
class Setting:
    """One point of the sweep. `k` is None where the engine or the server drafts as it pleases."""

    engine: str
    k: int | None
    temperature: float = 0.0
    top_p: float = 1.0


@dataclass(frozen=True, slots=True)
class Wrote:
    """One report at one setting."""

    setting: Setting
    scan: int
    text: str
    seconds: float
    cpu_s: float


Write = Callable[[Known, Setting, int], str]  # a scan, a setting, a seed → the report's JSON text


def settings_of(served: Mapping[str, ServedGenerator], ks: Sequence[int | None] = KS, heats: Sequence[tuple[float, float]] = HEATS) -> list[Setting]:
    """The embedded engine greedy at each length and sampled without drafts; each server greedy and sampled as it was started."""
    own = [Setting(EMBEDDED, k) for k in ks] + [Setting(EMBEDDED, 0, *heat) for heat in heats]
    others = [Setting(name, 0 if name == SERVED_PLAIN else None, *heat) for name in served for heat in (GREEDY, *heats)]
    return own + others


def embedded_writer(engine: Engine) -> Write:
    """Reports in one call by the embedded engine."""

    def write(known: Known, setting: Setting, seed: int) -> str:
        request = known.case.request
        if setting.temperature > 0:
            return sampled(engine, request, setting.temperature, setting.top_p, seed)[0]
        policy = Policy.default() if setting.k is None else Policy.fixed(setting.k)
        return engine.generate(request.prompt, request.features, schema=request.schema, policy=policy, max_tokens=MAX_TOKENS).text

    return write


def served_writer(one: ServedGenerator) -> Write:
    """Reports in one call by a draft server. Raises ServiceUnavailable or ModelMissing."""

    def write(known: Known, setting: Setting, seed: int) -> str:
        question = one.model.question(known.case.prompt, known.case.features, known.case.schema, MAX_TOKENS)
        return one.server.ask(replace(question, temperature=setting.temperature, top_p=setting.top_p), one.info()).text

    return write


def run(writers: Mapping[str, Write], those: Sequence[Setting], scans: Sequence[Known], told: Told) -> Iterator[Wrote]:
    """Each setting in turn within each scan, begun at another one each time. Before that each engine writes one report plain and one at its own
    policy, which are not counted: grammars are compiled and costs measured in them."""
    for name, write in writers.items():
        mine = [one for one in those if one.engine == name]
        for setting in dict.fromkeys((mine[0], *(one for one in mine if one.k is None and not one.temperature))):
            write(scans[0], setting, 0)
    for number, known in enumerate(scans):
        turn = number % len(those)
        for place, setting in enumerate((*those[turn:], *those[:turn])):
            told((number + place / len(those)) / len(scans), f"{setting.engine}, scan {number + 1} of {len(scans)}")
            began, worked = time.perf_counter(), time.thread_time()
            text = writers[setting.engine](known, setting, number)
            yield Wrote(setting, number, text, time.perf_counter() - began, time.thread_time() - worked)


def rows(taken: Sequence[Wrote], scans: Sequence[Known]) -> list[Row]:
    """One row per setting, with whether no other of its engine is better in all of latency, term F1 and hallucination."""
    found = [_row([one for one in taken if one.setting == setting], scans) for setting in dict.fromkeys(one.setting for one in taken)]
    return [row | {"front": not any(better(other, row) for other in found if other["engine"] == row["engine"])} for row in found]


def better(one: Row, other: Row) -> bool:
    """At least as good in everything and better in something; what nobody could measure counts as the worst."""
    pairs = list(zip(_goods(one), _goods(other), strict=True))
    return all(a >= b for a, b in pairs) and any(a > b for a, b in pairs)


def _goods(row: Row) -> tuple[float, float, float]:
    """Higher is better."""
    term_f1, hallucination = row["term_f1"], row["hallucination"]
    return -row["median_ms"], -1.0 if term_f1 is None else term_f1, -2.0 if hallucination is None else -hallucination


def _row(group: Sequence[Wrote], scans: Sequence[Known]) -> Row:
    setting = group[0].setting
    quality = figures([score(told_by(one.text), scans[one.scan].candidates, scans[one.scan].truth) for one in group])
    return {
        "part": PARETO,
        "what": _name(setting),
        "engine": setting.engine,
        "k": setting.k,
        "temperature": setting.temperature,
        "top_p": setting.top_p,
        "texts": len(group),
        "median_ms": round(1000 * median(one.seconds for one in group), 1),
        "cpu_median_ms": round(1000 * median(one.cpu_s for one in group), 1),
        "term_f1": quality["term_f1"]["value"],
        "hallucination": quality["hallucination"]["value"],
        "term_f1_interval": [quality["term_f1"]["low"], quality["term_f1"]["high"]],
        "hallucination_interval": [quality["hallucination"]["low"], quality["hallucination"]["high"]],
    }


def _name(setting: Setting) -> str:
    k = "own k" if setting.k is None else f"k {setting.k}"
    heat = f", T {setting.temperature:g}, top-p {setting.top_p:g}" if setting.temperature else ""
    return f"{setting.engine} {k}{heat}"
