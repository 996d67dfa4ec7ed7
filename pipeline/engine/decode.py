"""Continuous batching: a text enters as soon as one ends, and no row is spent on a text that is done."""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterable, Iterator
from functools import partial

import torch

from pipeline.engine.cache import Memory
from pipeline.engine.controller import Controller
from pipeline.engine.costs import ROUNDS, Costs, measure, measured_once
from pipeline.engine.network import Network
from pipeline.engine.places import Span
from pipeline.engine.policy import Policy
from pipeline.engine.proposing import MAX_TAIL, Proposer
from pipeline.engine.step import Stepper
from pipeline.engine.text import MAX_ROWS, Text

RESERVE = 2 * MAX_ROWS + MAX_TAIL  # positions behind a text's end that drafts of its batch may touch
TYPICAL = 160  # cached positions at which costs are measured


def decode(
    network: Network, policy: Policy, controller: Controller | None, costs: Costs | None, memory: Memory, texts: Iterable[Text]
) -> Iterator[Text]:
    """Write texts, as many at a time as the memory has slots, and yield each when it is done."""
    proposer = Proposer(network, policy, controller, costs)
    stepper = Stepper(network, memory, proposer, controller, keep_hidden=policy.mtp)
    waiting, active = iter(texts), list[Text]()
    while True:
        while len(active) < memory.main.slots and (text := next(waiting, None)) is not None:
            text.slot, text.started = len(active), time.perf_counter()
            stepper.start(text)
            if text.done:
                yield text
            else:
                active.append(text)
        if not active:
            return
        stepper.step(active)
        yield from retire(active, memory)


def retire(active: list[Text], memory: Memory) -> Iterator[Text]:
    """Take out the texts that are done; the last one moves into a slot that became free, so that slots 0 … B − 1 stay in use."""
    for index in reversed(range(len(active))):
        text = active[index]
        if not text.done:
            continue
        last = active.pop()
        if last is not text:
            memory.move(last.slot, text.slot, last.cached)
            last.slot, active[index] = text.slot, last
        yield text


def capacity(prompt: int, max_tokens: int) -> int:
    """Positions that a text of `prompt` tokens needs."""
    return prompt + max_tokens + RESERVE


def costs_of(network: Network, key: Hashable, batch: int) -> Costs:
    """What a step costs for `batch` texts at a time, measured once per process and checkpoint (about a third of a second)."""
    return measured_once((key, batch), partial(_measure, network, batch))


def _measure(network: Network, batch: int) -> Costs:
    memory = network.memory(batch, capacity(TYPICAL, 0))
    state = torch.zeros(batch, network.config.hidden_size)

    def verify(rows: int) -> object:
        spans = [Span(slot, TYPICAL, rows) for slot in range(batch)]
        seen = network.forward(network.embed([0] * (rows * batch)), spans, memory.main)
        return network.logits(seen.hidden).topk(2, dim=-1).indices.tolist()

    def draft() -> object:
        spans = [Span(slot, TYPICAL, 1) for slot in range(batch)]
        return network.logits(network.draft([0] * batch, state, spans, memory.mtp, 1)).argmax(dim=-1).tolist()

    return measure(verify, draft, rounds=max(3, ROUNDS // batch))
