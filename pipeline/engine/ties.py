"""Near ties, decided alike however a text was cut into blocks.

Float32 products over blocks of different sizes differ by about 1e-6. That matters twice: when the two best tokens are almost equal, and
when a router's last chosen expert and the first one left out are. Both are decided by one pass over the whole text up to the position,
one text alone in the first slot of a cache of its own: it depends on the text only, not on draft length, batch or jumps. Experts that were
decided so are pinned, so that later passes over the text agree. The prompt is read in just such a pass.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from pipeline.engine.cache import Memory
from pipeline.engine.folded import Routing
from pipeline.engine.network import Network, Pins, Seen
from pipeline.engine.places import Span
from pipeline.engine.text import Text

NEAR_TIE = 1e-4  # between the two best logits
ROUTE_TIE = 1e-5  # between the biased scores of the last chosen expert and the first one left out


def unsure(routing: Sequence[Routing], top_k: int, rows: int) -> list[bool]:
    """For each of `rows` rows, whether any layer's router was near a tie."""
    if not routing or routing[0].scores.shape[1] <= top_k:
        return [False] * rows
    scores = torch.stack([seen.scores for seen in routing])  # (layers, N, top_k + 1)
    margins: Tensor = scores[..., top_k - 1] - scores[..., top_k]  # (layers, N)
    out: list[bool] = (margins.amin(dim=0) < ROUTE_TIE).tolist()
    return out


class Referee:
    """Passes over whole texts, in the slot that the memory keeps apart."""

    def __init__(self, network: Network, memory: Memory) -> None:
        self._network = network
        self._memory = memory

    def read(self, text: Text) -> Tensor:
        """Read the prompt into the text's slot; its hidden states (P, hidden)."""
        count = len(text.prompt)
        seen = self._pass(text, count)
        self._copy(text, 0, count)
        for row, near in enumerate(unsure(seen.routing, self._network.config.num_experts_per_tok, count)):
            if near:
                text.pins[row] = self._experts(seen, row)
        return seen.hidden

    def settle(self, text: Text, position: int) -> Tensor:
        """Decide the experts of one position again, and replace what is cached of it; its hidden state (hidden,)."""
        seen = self._pass(text, position + 1)
        self._copy(text, position, position + 1)
        text.pins[position] = self._experts(seen, -1)
        return seen.hidden[-1]

    def choose(self, text: Text) -> int:
        """The next token by one pass over the whole text. The grammar stands behind it."""
        seen = self._pass(text, len(text.ids))
        logits = self._network.logits(seen.hidden[-1:])[0]  # (vocab,)
        return int(text.masked(logits).argmax())

    def _pass(self, text: Text, count: int) -> Seen:
        embedded = self._network.embed(text.ids[:count], text.features)
        return self._network.forward(embedded, [Span(0, 0, count)], self._memory.apart, self._pins(text, count))

    def _pins(self, text: Text, count: int) -> Pins | None:
        rows = [row for row in text.pins if row < count]
        if not rows:
            return None
        experts = torch.stack([text.pins[row] for row in rows], dim=1)  # (layers, n, top_k)
        return Pins(torch.tensor(rows), tuple(experts))

    def _experts(self, seen: Seen, row: int) -> Tensor:
        return torch.stack([layer.experts[row, : self._network.config.num_experts_per_tok] for layer in seen.routing])  # (layers, top_k)

    def _copy(self, text: Text, start: int, end: int) -> None:
        for target, source in zip(self._memory.main.rows, self._memory.apart.rows, strict=True):
            target[text.slot, start:end] = source[0, start:end]
