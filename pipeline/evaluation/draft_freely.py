"""Texts that the embedded engine writes for measuring alone: without an end, and drawn by chance. Reports are always greedy and always end."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from pipeline.engine.controller import Controller
from pipeline.engine.counts import Counts
from pipeline.engine.decode import capacity, costs_of, decode
from pipeline.engine.generate import Engine, Request
from pipeline.engine.policy import Policy
from pipeline.engine.sections import SectionWatcher
from pipeline.engine.text import Text
from pipeline.model import Generation

Prompt = tuple[Sequence[int], Tensor | None]  # ids, and features (1, N, D) for its placeholders


@dataclass(frozen=True, slots=True)
class Written:
    """What some texts came to that were written at the same time: their ids, how each was made, and the seconds for all."""

    ids: tuple[tuple[int, ...], ...]
    made: tuple[Generation, ...]
    seconds: float


@dataclass
class EndlessText(Text):
    """A text that never ends before its last token: the end token is forbidden, as `ignore_eos` makes it harmless on a server."""

    def allows(self, token: int) -> bool:
        """All tokens but the end."""
        return token != self.tokenizer.eos_id and super().allows(token)

    def masked(self, logits: Tensor) -> Tensor:
        """Logits (vocab,) without the end token."""
        masked = super().masked(logits).clone()
        masked[self.tokenizer.eos_id] = -torch.inf
        return masked


@dataclass
class SampledText(Text):
    """A text whose tokens are drawn: the highest of logits / temperature plus Gumbel noise is a draw from their softmax, among the likeliest tokens
    that have `top_p` of it together (Maddison 2014, "A* sampling"; Holtzman 2020, nucleus sampling)."""

    temperature: float = 1.0
    top_p: float = 1.0
    rng: torch.Generator | None = None

    def allows(self, token: int) -> bool:
        """Never at once: every token is drawn."""
        return False

    def masked(self, logits: Tensor) -> Tensor:
        """Noisy log-probabilities (vocab,), whose highest is the draw."""
        scores = nucleus((super().masked(logits) / self.temperature).log_softmax(dim=-1), self.top_p)  # (vocab,)
        noise = torch.rand(scores.shape, generator=self.rng).clamp_min(torch.finfo(torch.float32).tiny)
        return scores - (-noise.log()).log()


def nucleus(scores: Tensor, top_p: float) -> Tensor:
    """Log-probabilities (vocab,) with −inf outside the smallest set of likeliest tokens that have `top_p` together."""
    ranked = scores.sort(descending=True, stable=True)
    before = ranked.values.exp().cumsum(dim=-1) - ranked.values.exp()  # (vocab,) probability of all that are likelier
    kept = scores.clone()
    kept[ranked.indices[before >= top_p]] = -torch.inf
    return kept


def endless(engine: Engine, prompts: Sequence[Prompt], tokens: int, policy: Policy) -> Written:
    """Write exactly `tokens` tokens behind each prompt, all prompts at once."""
    texts = [_text(engine, list(ids), rows, tokens, policy) for ids, rows in prompts]
    with torch.inference_mode():
        costs = costs_of(engine.network, engine.digest, len(texts)) if policy.adaptive or policy.lookup else None
        memory = engine.network.memory(len(texts), max(capacity(len(text.prompt), tokens) for text in texts))
        began = time.perf_counter()
        for _ in decode(engine.network, policy, Controller(costs) if costs else None, costs, memory, texts):
            pass
        seconds = time.perf_counter() - began
    return Written(tuple(tuple(text.out) for text in texts), tuple(text.counts.generation(text.written, seconds) for text in texts), seconds)


def sampled(engine: Engine, request: Request, temperature: float, top_p: float, seed: int) -> tuple[str, Generation]:
    """Draw one text under its grammar, one token per step; the same seed draws the same text. Forced tokens are jumped over as in greedy texts."""
    policy = Policy.fixed(0)
    rng = torch.Generator().manual_seed(seed)
    with torch.inference_mode():
        greedy = engine.begin(request, policy)
        shared = {one.name: getattr(greedy, one.name) for one in fields(Text) if one.init and not one.name.startswith("_")}
        text = SampledText(**shared, temperature=temperature, top_p=top_p, rng=rng)
        memory = engine.network.memory(1, capacity(len(text.prompt), text.max_tokens))
        began = time.perf_counter()
        (done,) = decode(engine.network, policy, None, None, memory, [text])
        made = done.counts.generation(done.written, time.perf_counter() - began)
    return engine.tokenizer.decode(done.out), made


def _text(engine: Engine, ids: list[int], rows: Tensor | None, tokens: int, policy: Policy) -> EndlessText:
    return EndlessText(
        tokenizer=engine.tokenizer,
        prompt=ids,
        features=rows,
        grammar=None,
        max_tokens=tokens,
        watcher=SectionWatcher(),
        counts=Counts(policy.longest),
        jump=False,
    )
