"""The start-up self-check: whether a server may draft, as sentences for one screen. The first failed one is the refusal.

Requests of words, with features and for a text: valid JSON under the schema, an acceptance histogram, the configured weights, and the tokens of a
server without MTP or of the reference beside the checkpoint. In float32 any difference refuses. In other formats a difference refuses where the
two likeliest tokens were further apart than `max_gap`; others are counted and shown.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from pipeline.drafting.reference import Probe, Reference, probes
from pipeline.drafting.served import ServedGenerator, generation_of, refuse_other_weights
from pipeline.drafting.server import Answer, ServerInfo
from pipeline.drafting.validate import faults
from pipeline.errors import ModelMissing, PipelineError

FLOAT32 = ("float32", "float", "fp32")
NO_PEER = "there is nothing to compare its tokens with; write reference.json with `ctreport model reference FOLDER`, or set CTREPORT_SGLANG_PLAIN_URL"
Peer = tuple[str, Reference]  # whose tokens, and the tokens


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that was looked at. `ok` is None for what a person should know and nothing hangs on."""

    ok: bool | None
    text: str


@dataclass
class Checkup:
    """What was found, in order. `differences`: other tokens than the peer's that were near ties."""

    lines: list[Line] = field(default_factory=list)
    info: ServerInfo | None = None
    answers: list[Answer] = field(default_factory=list)
    differences: int = 0

    @property
    def refusal(self) -> str | None:
        """The sentence that says why this server may not draft; None when it may."""
        return next((line.text for line in self.lines if line.ok is False), None)

    def say(self, ok: bool | None, text: str) -> None:
        """Note one line."""
        self.lines.append(Line(ok, text))


def look_over(served: ServedGenerator, peer: Callable[[], Peer | None], max_gap: float, *, alone: bool = False) -> Checkup:
    """Ask a server everything. `alone`: it may draft although there is nothing to compare it with. Raises ServiceUnavailable when it does not
    answer; all else is a line."""
    found = Checkup()
    served.forget()
    found.info = info = served.info()
    found.say(True, f"{served.server.rung} at {served.server.name}: {info.server}, {info.dtype}, {info.speculation or 'without speculation'}")
    for note in info.notes:
        found.say(None, note)
    for fault in info.faults:
        found.say(False, f"draft server {served.server.name}: {fault}")
    _tell(found, lambda: refuse_other_weights(info.digest, served.model.digest, served.server.name), "its weights are the configured ones")
    if found.refusal is None:
        _ask_all(found, served, info)
    if found.refusal is None:
        _compare(found, info, peer, max_gap, alone=alone)
    return found


def refuse(found: Checkup) -> None:
    """Raises ModelMissing with the refusal."""
    if found.refusal is not None:
        raise ModelMissing(found.refusal)


def tokens_of(served: ServedGenerator) -> Reference:
    """What a server writes for the probes, with gaps: the reference that its like are compared with."""
    info = served.info()
    answers = [_answer(served, info, one, ranked=True) for one in probes(served.model.feature_dim)]
    return Reference(served.model.digest, tuple(one.ids for one in answers), tuple(one.gaps for one in answers))


def _tell(found: Checkup, attempt: Callable[[], None], well: str) -> None:
    """A line for what raises or does not."""
    try:
        attempt()
    except ModelMissing as error:
        found.say(False, str(error))
    else:
        found.say(True, well)


def _ask_all(found: Checkup, served: ServedGenerator, info: ServerInfo) -> None:
    for probe in probes(served.model.feature_dim):
        answer = _answer(served, info, probe)
        found.answers.append(answer)
        problems = list(_problems(answer, probe, served, info))
        for problem in problems:
            found.say(False, f"draft server {served.server.name}, request with {probe.name}: {problem}")
        if not problems:
            found.say(True, f"request with {probe.name}: {_figures(answer, info)}")
        if not answer.ended and not probe.ends:
            found.say(None, f"its text did not end within {probe.max_tokens} tokens")


def _answer(served: ServedGenerator, info: ServerInfo, probe: Probe, *, ranked: bool = False) -> Answer:
    question = served.model.question(probe.prompt, probe.features, probe.schema, probe.max_tokens, ranked=ranked)
    return served.server.ask(question, info)


def _problems(answer: Answer, probe: Probe, served: ServedGenerator, info: ServerInfo) -> Iterator[str]:
    """What is wrong with one answer, never with a word of it."""
    if (probe.ends or answer.ended) and (fault := unfit(answer.text, probe.schema)) is not None:
        yield f"its answer does not fit the report schema ({fault}); look at its grammar back-end"
    wanted = len(served.model.question(probe.prompt, probe.features, probe.schema, probe.max_tokens).ids)
    if answer.prompt_tokens != wanted:
        yield f"it read {answer.prompt_tokens} prompt tokens where {wanted} were sent; start it with this checkpoint's tokenizer, as deploy/ says"
    if answer.digest != served.model.digest:
        yield "its answer names other weights than it was asked about"
    if info.k != 0 and not answer.histogram:
        yield "its answer has no acceptance histogram; start it as deploy/ says, so that it reports how it drafts"


def unfit(text: str, schema: str) -> str | None:
    """Where a text leaves its schema; None when it fits."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return "it is not whole JSON"
    return next(faults(value, json.loads(schema), "answer"), None)


def _figures(answer: Answer, info: ServerInfo) -> str:
    made = generation_of(answer, info)
    drafted = f", {made.acceptance:.0%} of drafted tokens accepted" if info.k else ""
    return f"{made.tokens} tokens in {made.verify_count} steps{drafted}, first after {answer.first_token_s:.2f} s, all after {answer.seconds:.2f} s"


def _compare(found: Checkup, info: ServerInfo, peer: Callable[[], Peer | None], max_gap: float, *, alone: bool) -> None:
    try:
        wanted = peer()
    except PipelineError as error:
        found.say(False, str(error))
        return
    if wanted is None:
        found.say(None if alone else False, NO_PEER)
        return
    whose, reference = wanted
    exact = info.dtype in FLOAT32
    for answer, ids, gaps in zip(found.answers, reference.ids, reference.gaps, strict=True):
        _judge(found, answer.ids, ids, gaps, whose, exact=exact, max_gap=max_gap)
    if found.refusal is None:
        how = f"{found.differences} near ties fell otherwise" if found.differences else "none differs"
        found.say(True, f"its tokens are those of {whose}: {how}")


def _judge(found: Checkup, ids: Sequence[int], wanted: Sequence[int], gaps: Sequence[float], whose: str, *, exact: bool, max_gap: float) -> None:
    """Compare up to the first difference; behind it two texts have nothing to do with each other."""
    at = first_difference(ids, wanted)
    if at is None:
        return
    gap = gaps[at] if at < len(gaps) else float("inf")
    if exact or gap > max_gap:
        apart = f", where the two likeliest were {gap:.3g} apart" if gap != float("inf") else ""
        found.say(
            False, f"token {at + 1} of {len(wanted)} is another one than {whose} writes{apart}: it does not run this model; compare weights and flags"
        )
    else:
        found.differences += 1


def first_difference(ids: Sequence[int], wanted: Sequence[int]) -> int | None:
    """Index of the first id that differs or is missing; None when both are the same."""
    if tuple(ids) == tuple(wanted):
        return None
    return next((at for at, (one, other) in enumerate(zip(ids, wanted, strict=False)) if one != other), min(len(ids), len(wanted)))
