"""Where the rows of one block stand: which text's cache they extend, at which positions, and what each of them may see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Protocol

import torch
from torch import Tensor

from pipeline.engine.cache import Slots
from pipeline.engine.rope import Angles

LATER = torch.full((64, 64), float("-inf")).triu(1)  # (R, R): what a row of a block may not see of the block


@dataclass(frozen=True)
class Span:
    """The rows of one text in a block: `count` rows behind its first `start` positions, in cache slot `slot`."""

    slot: int
    start: int
    count: int

    @property
    def end(self) -> int:
        """Positions of the text once the rows are written."""
        return self.start + self.count


class Place(Protocol):
    """Rotary angles of a block's rows, and how they meet the caches."""

    cos: Tensor  # (N, rope)
    sin: Tensor  # (N, rope)

    @property
    def asking(self) -> Tensor | slice | None:
        """The rows that go on behind their key/value; None: all."""

    def write(self, rows: Tensor, latent: Tensor) -> None:
        """Put latent rows (N, latent) into a layer's cache (slots, capacity, latent)."""

    def mix(self, rows: Tensor, query: Tensor, kv: int) -> Tensor:
        """Attention of query (A, H, latent + …) over a layer's cache → (A, H · kv)."""


class Turns:
    """Rotary angles of every position, each half twice: [cos, cos] and [sin, sin], both (positions, rope)."""

    def __init__(self, turn: Angles, latent: int) -> None:
        self.cos, self.sin = (half.repeat(1, 2) for half in turn)
        self.latent = latent


class OneText:
    """The rows of a single text: slices instead of indices, and no mask for a single row."""

    def __init__(self, turns: Turns, span: Span, *, last: bool = False) -> None:
        self.cos, self.sin = turns.cos[span.start : span.end], turns.sin[span.start : span.end]
        self.asking = slice(span.count - 1, span.count) if last and span.count > 1 else None
        self._span = span
        self._latent = turns.latent
        self._later = None if last or span.count == 1 else later(span.count)  # (R, 1, R)

    def write(self, rows: Tensor, latent: Tensor) -> None:
        """Put latent rows (N, latent) into a layer's cache."""
        rows[self._span.slot, self._span.start : self._span.end] = latent

    def mix(self, rows: Tensor, query: Tensor, kv: int) -> Tensor:
        """query (A, H, …) → (A, H · kv)."""
        asking, heads, width = query.shape
        keys = rows[self._span.slot, : self._span.end]  # (T, latent)
        scores = torch.mm(query.view(-1, width)[:, : self._latent], keys.t())  # (A · H, T)
        if self._later is not None:
            scores.view(asking, heads, -1)[:, :, self._span.start :].add_(self._later)
        return torch.mm(scores.softmax(dim=-1), keys[:, :kv]).view(asking, heads * kv)


class ManyTexts:
    """Rows of texts in slots 0 … B − 1, each with its own length: products over packed rows, attention over one padded block."""

    def __init__(self, turns: Turns, spans: Sequence[Span], slots: Slots, *, last: bool = False) -> None:
        positions = torch.tensor([position for span in spans for position in range(span.start, span.end)])  # (N,)
        self.cos, self.sin = turns.cos[positions], turns.sin[positions]
        self._latent = turns.latent
        counts = [span.count for span in spans]
        owners = torch.tensor([index for index, count in enumerate(counts) for _ in range(count)])  # (N,)
        self._flat = owners * slots.capacity + positions  # (N,) rows of a cache (slots · capacity, latent)
        ends = list(accumulate(counts))
        self.asking = torch.tensor(ends) - 1 if last and max(counts) > 1 else None  # (B,)
        if last:
            counts, positions = [1] * len(spans), positions[torch.tensor(ends) - 1]
        self._batch, self._high = len(spans), max(counts)
        self._reach = max(span.end for span in spans)
        uneven = min(counts) < self._high
        spread = [index * self._high + row for index, count in enumerate(counts) for row in range(count)]
        self._spread = torch.tensor(spread) if uneven else None  # (A,) of the padded block's B · R rows
        self._bias = self._hiding(positions)

    def write(self, rows: Tensor, latent: Tensor) -> None:
        """Put latent rows (N, latent) into a layer's cache."""
        rows.view(-1, self._latent).index_copy_(0, self._flat, latent)

    def mix(self, rows: Tensor, query: Tensor, kv: int) -> Tensor:
        """query (A, H, …) → (A, H · kv)."""
        _, heads, width = query.shape
        if self._spread is not None:
            padded = query.new_zeros(self._batch * self._high, heads, width)
            query = padded.index_copy_(0, self._spread, query)  # (B · R, H, …)
        keys = rows[: self._batch, : self._reach]  # (B, T, latent)
        block = query.view(self._batch, self._high * heads, width)[..., : self._latent]
        scores = torch.bmm(block, keys.transpose(1, 2))  # (B, R · H, T)
        scores.view(self._batch, self._high, heads, -1).add_(self._bias)
        mixed = torch.bmm(scores.softmax(dim=-1), keys[..., :kv]).view(-1, heads * kv)  # (B · R, H · kv)
        return mixed if self._spread is None else mixed.index_select(0, self._spread)

    def _hiding(self, positions: Tensor) -> Tensor:
        """0 where a row may look, −inf where not (B, R, 1, T); rows of padding look everywhere and are thrown away."""
        if self._spread is not None:
            padded = torch.full((self._batch * self._high,), self._reach)
            positions = padded.index_copy_(0, self._spread, positions)
        hidden = torch.arange(self._reach) > positions.view(self._batch, self._high, 1, 1)  # (B, R, 1, T)
        return torch.zeros(hidden.shape).masked_fill_(hidden, float("-inf"))


def later(count: int) -> Tensor:
    """−inf above the diagonal (R, 1, R)."""
    table = LATER if count <= len(LATER) else torch.full((count, count), float("-inf")).triu(1)
    return table[:count, :count].unsqueeze(1)
