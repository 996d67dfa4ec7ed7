"""Beam search, plain or assisted by the MTP layer; both go through the same sets of branches.

Assisted: the MTP layer runs the search some steps ahead. All branches that it met are verified in one forward pass, and the sets of the
plain search are followed through the verified tree as long as every one of their branches lies in it. Where they leave it, the next
pass begins. So the result is that of plain search, with fewer passes.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from pipeline.engine.branches import Branch, Child, Node, chances, leaves, settled, step
from pipeline.engine.grammar import Grammar
from pipeline.engine.network import Network
from pipeline.engine.places import Span
from pipeline.errors import BadInput

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pipeline.engine.cache import Slots
    from pipeline.engine.generate import Engine

DEPTH = 6  # steps that the MTP layer runs ahead
PATHS = 3  # verified paths per branch at most
MAX_WIDTH = 16


@dataclass(frozen=True)
class Beamed:
    """The best text found: `score` is its log-probability per token, `forwards` the passes of the main model behind the prompt's."""

    text: str
    ids: tuple[int, ...]
    score: float
    forwards: int
    drafts: int  # passes of the MTP layer
    seconds: float
    stop: Literal["end", "length"]


def beam_search(
    engine: Engine,
    prompt: str,
    features: NDArray[np.float32] | None,
    schema: str | None,
    width: int,
    *,
    assisted: bool = True,
    depth: int = DEPTH,
    max_tokens: int = 600,
) -> Beamed:
    """The continuation of most log-probability per token that `width` branches find under the grammar.

    `depth`: steps that the MTP layer runs ahead when `assisted`. BadInput as `Engine.generate`, and when the width is outside 1 … 16.
    """
    if not 1 <= width <= MAX_WIDTH:
        raise BadInput(f"{width} branches are outside 1 … {MAX_WIDTH}; choose a number inside")
    started = time.perf_counter()
    ids, rows = engine.prepared(prompt, features, max_tokens)
    grammar = Grammar(engine.tokenizer, schema) if schema is not None else None
    with torch.inference_mode():
        search = Search(engine.network, engine.tokenizer.eos_id, ids, width, depth if assisted else 0, max_tokens)
        best = search.run(rows, grammar)
    text = engine.tokenizer.decode(best.tokens)
    seconds = time.perf_counter() - started
    return Beamed(text, best.tokens, best.score, search.forwards, search.drafts, seconds, "end" if best.ended else "length")


class Search:
    """One search. Live branches have written equally many tokens, of which all but the last stand in the caches, branch i in slot i."""

    def __init__(self, network: Network, eos: int, prompt: list[int], width: int, depth: int, max_tokens: int) -> None:
        self._network = network
        self._eos, self._prompt, self._width, self._depth, self._max_tokens = eos, prompt, width, depth, max_tokens
        self._memory = network.memory(PATHS * width, len(prompt) + max_tokens + depth + 2)
        self._cached = len(prompt)
        self._mtp_cached = len(prompt) - 1
        self._ended: list[Branch] = []
        self.forwards = 0
        self.drafts = 0

    def run(self, features: Tensor | None, grammar: Grammar | None) -> Branch:
        """The best branch that ended; the best live one when none did within `max_tokens`."""
        hidden = self._begin(features)
        root = Branch(grammar=grammar)
        live = self._grow([root], chances(self._network.logits(hidden), [root.mask()]))
        unseen = hidden.expand(len(live), -1).unsqueeze(1)  # (S, 1, hidden): what the MTP layer has not met yet, per live branch
        while not self._over([child.branch for child in live]):
            roots = [Node.at(child.branch, place) for place, child in enumerate(live)]
            self._draft(roots, unseen)
            live, unseen = self._verify(roots)
        return max(self._ended or [child.branch for child in live], key=lambda branch: branch.score)

    def _begin(self, features: Tensor | None) -> Tensor:
        """Put the prompt into every slot's caches; the hidden state behind it (1, hidden)."""
        prompt, net = self._prompt, self._network
        seen = net.forward(net.embed(prompt, features), [Span(0, 0, len(prompt))], self._memory.main).hidden  # (P, hidden)
        if self._depth and len(prompt) > 1:
            net.draft(prompt[1:], seen[:-1], [Span(0, 0, len(prompt) - 1)], self._memory.mtp, 1)
        _gather(self._memory.main, [0] * self._width, len(prompt))
        _gather(self._memory.mtp, [0] * self._width, len(prompt))
        return seen[-1:]

    def _grow(self, branches: Sequence[Branch], logs: Tensor) -> list[Child]:
        live, ended = step(branches, logs, self._width, self._eos)
        self._ended += ended
        return live

    def _over(self, live: Sequence[Branch]) -> bool:
        return settled(live, self._ended, self._width) or len(live[0].tokens) >= self._max_tokens

    def _draft(self, roots: list[Node], unseen: Tensor) -> None:
        """Run the search ahead on the MTP layer's word; `unseen` (S, R, hidden) precede the branches' last R tokens."""
        room = min(self._depth, self._max_tokens - len(roots[0].branch.tokens) - 1)
        if room <= 0:
            return
        count = unseen.shape[1]
        tokens = [token for node in roots for token in (*self._prompt, *node.branch.tokens)[-count:]]
        state = self._pass(tokens, unseen.flatten(0, 1), len(roots), count)  # (S, hidden)
        self._mtp_cached += count
        kept = self._memory.mtp.rows[0][: len(roots), : self._mtp_cached].clone()  # guesses go, branches change slots
        nodes = roots
        for ahead in range(room):
            logs = chances(self._network.logits(state), [node.mask for node in nodes])
            live, _ = step([node.branch for node in nodes], logs, self._width, self._eos)
            if not live:
                break
            parents = [child.parent for child in live]
            nodes = [nodes[child.parent].add(child.token, child.branch) for child in live]
            if ahead + 1 < room:
                _gather(self._memory.mtp, parents, self._mtp_cached + ahead)
                state = self._pass([child.token for child in live], state[parents], len(live), 1, ahead)
        self._memory.mtp.rows[0][: len(roots), : self._mtp_cached] = kept

    def _pass(self, tokens: list[int], hidden: Tensor, texts: int, count: int, ahead: int = 0) -> Tensor:
        """One pass of the MTP layer over `count` rows of each text → (S, hidden)."""
        self.drafts += 1
        spans = [Span(slot, self._mtp_cached + ahead, count) for slot in range(texts)]
        return self._network.draft(tokens, hidden, spans, self._memory.mtp, 1)

    def _verify(self, roots: list[Node]) -> tuple[list[Child], Tensor]:
        """One forward pass over the tree, and the search through it; the live branches behind it and their unseen states (S, R, hidden)."""
        ends = leaves(roots, PATHS * self._width)
        paths = [list(end.back())[::-1] for end in ends]
        for place, path in enumerate(paths):
            for node in path:
                node.path = place
        _gather(self._memory.main, [end.root for end in ends], self._cached)
        hidden = self._forward(paths)
        starts = torch.tensor([0, *(len(path) for path in paths)]).cumsum(0).tolist()
        logits = self._network.logits(hidden)
        live, nodes = self._follow(roots, logits, starts)
        count = nodes[0].depth + 1 if nodes else 1
        parents = [nodes[child.parent] for child in live]
        _gather(self._memory.main, [node.path for node in parents], self._cached + count)
        if self._depth:
            _gather(self._memory.mtp, [node.root for node in parents], self._mtp_cached)
        self._cached += count
        unseen = [hidden[starts[node.path] : starts[node.path] + count] for node in parents]
        return live, torch.stack(unseen) if unseen else hidden[:0].unsqueeze(0)

    def _forward(self, paths: Sequence[Sequence[Node]]) -> Tensor:
        """The tree's paths, each in its slot → post-norm hidden states (N, hidden), path after path."""
        self.forwards += 1
        ids = [node.branch.tokens[-1] for path in paths for node in path]
        spans = [Span(slot, self._cached, len(path)) for slot, path in enumerate(paths)]
        return self._network.forward(self._network.embed(ids), spans, self._memory.main).hidden

    def _follow(self, roots: list[Node], logits: Tensor, starts: list[int]) -> tuple[list[Child], list[Node]]:
        """Search on while every branch lies in the tree: the first set that does not, or that the search ends with, and its parents' nodes."""
        branches, nodes = [node.branch for node in roots], roots
        while True:
            rows = logits[[starts[node.path] + node.depth for node in nodes]]  # (S, vocab)
            live = self._grow(branches, chances(rows, [node.mask for node in nodes]))
            branches = [child.branch for child in live]
            if self._over(branches):
                return live, nodes
            found = [nodes[child.parent].children.get(child.token) for child in live]
            known = [node for node in found if node is not None]
            if len(known) < len(live):
                return live, nodes
            nodes = known


def _gather(slots: Slots, sources: Sequence[int], length: int) -> None:
    """Slot i takes the first `length` rows of slot sources[i]."""
    moved = [place for place, source in enumerate(sources) if place != source]
    if moved:
        taken = [sources[place] for place in moved]
        for rows in slots.rows:
            rows[moved, :length] = rows[taken, :length]
