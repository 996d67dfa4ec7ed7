"""Who decodes in `ctreport bench decode`: our engine under each policy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from pipeline.engine.generate import Engine
from pipeline.engine.policy import Policy
from pipeline.evaluation.decode_texts import MAX_TOKENS, Case
from pipeline.model import Generation

PLAIN, JUMPS = "ctreport plain", "ctreport plain, jumps"
ADAPTIVE, LOOKUP, DEFAULT = "ctreport mtp, adaptive", "ctreport lookup", "ctreport default"
MTP = "ctreport mtp {k}"
KS = (1, 2, 3, 4, 6, 8, 12)


@dataclass(frozen=True, slots=True)
class Written:
    """The ids of a text, without an end token, and how our engine made it; None of a peer."""

    ids: tuple[int, ...]
    generation: Generation | None = None


Write = Callable[[Case, int], Written]  # a case, and the tokens of its plain text: no peer writes more than these and an end


@dataclass(frozen=True, slots=True)
class Contender:
    """Someone who writes reports one at a time; a peer only those of the first `texts` cases."""

    what: str
    write: Write
    texts: int | None = None


def policies(ks: Sequence[int] = KS) -> dict[str, Policy]:
    """Contender → policy. Plain comes first: the others are compared with it."""
    fixed = {MTP.format(k=k): Policy.fixed(k) for k in ks}
    ends = {ADAPTIVE: Policy(), LOOKUP: Policy(mtp=False, k=0, lookup=True), DEFAULT: Policy.default()}
    return {PLAIN: Policy.plain(), JUMPS: Policy.plain(jump=True), **fixed, **ends}


def ours(engine: Engine, ks: Sequence[int] = KS) -> list[Contender]:
    """Our engine under every policy."""
    return [Contender(what, partial(_write, engine, policy)) for what, policy in policies(ks).items()]


def _write(engine: Engine, policy: Policy, case: Case, tokens: int) -> Written:
    made = engine.generate(case.prompt, case.features, schema=case.schema, policy=policy, max_tokens=MAX_TOKENS)
    return Written(made.ids, made.generation)
