"""The model as decoding runs it: blocks of rows through the folded weights, rows of several texts packed without padding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pipeline.engine.cache import Memory, Slots
from pipeline.engine.folded import FoldedLayer, FoldedMoe, FoldedMtp, Routing, normed
from pipeline.engine.layers import DecoderLayer, MtpLayer
from pipeline.engine.model import Model
from pipeline.engine.places import ManyTexts, OneText, Place, Span, Turns


@dataclass(frozen=True)
class Pins:
    """Experts that were decided before: of rows (n,) of a block, per MoE layer (n, top_k)."""

    rows: Tensor
    experts: tuple[Tensor, ...]


@dataclass(frozen=True)
class Seen:
    """One block behind the main layers: post-norm hidden states (N, hidden) and what each MoE layer's router saw."""

    hidden: Tensor
    routing: tuple[Routing, ...]


class Network:
    """Folded copies of a model's weights; change the model and make a new one."""

    def __init__(self, model: Model) -> None:
        self.config = model.config
        with torch.inference_mode():
            c = self.config
            self._embedding = model.model.embed_tokens.weight.clone()  # (vocab, hidden)
            self._projector = model.ct_projector
            every = list(model.model.layers)
            self._layers = [FoldedLayer.of(layer) for layer in every[: c.num_hidden_layers] if isinstance(layer, DecoderLayer)]
            self._mtp = [FoldedMtp.of(layer, self._embedding, c) for layer in every[c.num_hidden_layers :] if isinstance(layer, MtpLayer)]
            self._norm = model.model.norm.weight.clone()
            self._head = model.lm_head.weight.t().contiguous()  # (hidden, vocab)
            self._turns = Turns((model.cos, model.sin), c.latent_dim)
            self._eps = torch.tensor(c.rms_norm_eps)

    @property
    def mtp_layers(self) -> int:
        """How many MTP depths the checkpoint has."""
        return len(self._mtp)

    def memory(self, slots: int, capacity: int) -> Memory:
        """Empty caches for some texts of at most `capacity` positions."""
        return Memory(self.config, len(self._mtp), slots, capacity)

    def embed(self, ids: Sequence[int], features: Tensor | None = None) -> Tensor:
        """Ids (N) and features (1, F, D) → (N, hidden); the i-th placeholder takes the i-th feature row."""
        rows = torch.tensor(ids)
        embedded = self._embedding.index_select(0, rows)  # (N, hidden)
        if features is None:
            return embedded
        place = (rows == self.config.ct_placeholder_id).unsqueeze(-1)  # (N, 1)
        projected: Tensor = self._projector(features)  # (1, F, hidden)
        return embedded.masked_scatter(place, projected[0, : int(place.sum())])

    def forward(self, x: Tensor, spans: Sequence[Span], slots: Slots, pins: Pins | None = None) -> Seen:
        """Embedded rows (N, hidden) of the spans through the main layers; their latent rows are written into the caches."""
        place = self._place(spans, slots, last=False)
        routing: list[Routing] = []
        for layer, rows in zip(self._layers, slots.rows, strict=True):
            pinned = (pins.rows, pins.experts[len(routing)]) if pins and isinstance(layer.feed, FoldedMoe) else None
            x = self._through(layer, x, place, rows, routing, pinned)
        return Seen(normed(x, self._eps).mul_(self._norm), tuple(routing))

    def draft(self, ids: Sequence[int], hidden: Tensor, spans: Sequence[Span], slots: Slots, depth: int) -> Tensor:
        """One pass of MTP layer `depth` (1-based; the last one serves all behind it).

        Ids (N) follow the positions of the post-norm hidden states (N, hidden). Every row's key/value is written; only the last row of each
        span goes on: post-norm hidden states (B, hidden).
        """
        index = min(depth, len(self._mtp)) - 1
        mtp = self._mtp[index]
        x = torch.addmm(mtp.embedded.index_select(0, torch.tensor(ids)), normed(hidden, self._eps), mtp.hidden)  # (N, hidden)
        x = self._through(mtp.layer, x, self._place(spans, slots, last=True), slots.rows[index], [], None)
        return normed(x, self._eps).mul_(mtp.norm)

    def fill(self, ids: Sequence[int], hidden: Tensor, spans: Sequence[Span], slots: Slots) -> None:
        """Write the key/values of verified rows into the caches of every MTP layer behind the first.

        In training, layer j sees the state of layer j − 1 and the token j places on (arXiv 2412.19437, eq. 21). The row that drafts has both;
        the rows before it are approximated here by the main model's state and the next token. Drafts may be worse for it, the text is not.
        """
        for index, mtp in enumerate(self._mtp[1:], 1):
            x = torch.addmm(mtp.embedded.index_select(0, torch.tensor(ids)), normed(hidden, self._eps), mtp.hidden)
            place = self._place(spans, slots, last=True)
            place.write(slots.rows[index], self._latent(self._down(mtp.layer, x), place))

    def logits(self, hidden: Tensor) -> Tensor:
        """Post-norm hidden states (N, hidden) → (N, vocab)."""
        return torch.mm(hidden, self._head)

    def _place(self, spans: Sequence[Span], slots: Slots, *, last: bool) -> Place:
        if len(spans) == 1:
            return OneText(self._turns, spans[0], last=last)
        return ManyTexts(self._turns, spans, slots, last=last)

    def _through(
        self, layer: FoldedLayer, x: Tensor, place: Place, rows: Tensor, routing: list[Routing], pinned: tuple[Tensor, Tensor] | None
    ) -> Tensor:
        """Rows (N, hidden) through one decoder layer → (A, hidden), A the rows that ask."""
        down = self._down(layer, x)
        place.write(rows, self._latent(down, place))
        if place.asking is not None:
            x, down = x[place.asking], down[place.asking]
        x = x + torch.mm(place.mix(rows, self._query(layer, down, place), self.config.kv_lora_rank), layer.attention.out)
        inner = normed(x, self._eps)
        if isinstance(layer.feed, FoldedMoe):
            fed, seen = layer.feed(inner, pinned)
            routing.append(seen)
            return x.add_(fed)
        return x.add_(layer.feed(inner))

    def _down(self, layer: FoldedLayer, x: Tensor) -> Tensor:
        return torch.mm(normed(x, self._eps), layer.attention.down)  # (N, q_lora + kv + 2 · rope)

    def _latent(self, down: Tensor, place: Place) -> Tensor:
        """The rows to be cached (N, latent): normed key/value and the rotated key."""
        c = self.config
        start, rotary, end = c.q_lora_rank, c.q_lora_rank + c.kv_lora_rank, c.q_lora_rank + c.latent_dim
        value = down[:, start:rotary]  # (N, kv)
        value.copy_(normed(value, self._eps))
        down[:, rotary:end].mul_(place.cos).addcmul_(down[:, end:], place.sin)
        return down[:, start:end]

    def _query(self, layer: FoldedLayer, down: Tensor, place: Place) -> Tensor:
        """Queries (A, H, kv + 2 · rope), of which the first `latent` columns count."""
        c = self.config
        wide = torch.mm(normed(down[:, : c.q_lora_rank], self._eps), layer.attention.query)
        query = wide.view(len(down), c.num_attention_heads, -1)
        cos, sin = (place.cos, place.sin) if place.asking is None else (place.cos[place.asking], place.sin[place.asking])
        query[..., c.kv_lora_rank : c.latent_dim].mul_(cos.unsqueeze(1)).addcmul_(query[..., c.latent_dim :], sin.unsqueeze(1))
        return query
