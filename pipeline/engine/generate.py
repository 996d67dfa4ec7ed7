"""Greedy decoding with Multi-Token Prediction: draft, verify in one pass, accept the longest matching prefix.

The text is the same at every draft length. Blocks of different sizes differ by about 1e-6 in their logits, so a step whose two best
tokens are closer than `NEAR_TIE` is decided again by one pass over the whole text, which does not depend on how the text was cut
into blocks.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from pipeline.engine.checkpoint import Card, load
from pipeline.engine.config import ModelConfig
from pipeline.engine.grammar import Grammar
from pipeline.engine.model import Model
from pipeline.engine.tokenizer import TextTokenizer
from pipeline.errors import BadInput
from pipeline.model import Generation

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NEAR_TIE = 1e-4
MAX_DRAFT = 16
Stop = Literal["end", "length"]


@dataclass(frozen=True)
class Decoded:
    """One generated text: its ids without the end token, how it was made, and whether it ended or was cut."""

    text: str
    ids: tuple[int, ...]
    generation: Generation
    stop: Stop


class Engine:
    """The embedded model of one checkpoint; one text at a time."""

    def __init__(self, model: Model, tokenizer: TextTokenizer, card: Card, digest: str) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.config: ModelConfig = model.config
        self.card = card
        self.digest = digest

    @classmethod
    def load(cls, folder: Path, *, threads: int | None = 1) -> Engine:
        """Load a checkpoint folder (ModelMissing when it does not fit). `threads` sets torch's process-wide count; None leaves it."""
        if threads is not None:
            torch.set_num_threads(threads)
        found = load(folder)
        return cls(found.model, found.tokenizer, found.card, found.digest)

    def generate(
        self, prompt: str, features: NDArray[np.float32] | None, *, schema: str | None, k: int, max_tokens: int = 600
    ) -> Decoded:
        """Continue `prompt`, whose placeholders take the rows of `features` (N, D); k = 0 is plain decoding.

        BadInput when features and placeholders do not match, values are not finite, or the text does not fit the model.
        """
        started = time.perf_counter()
        ids = self.tokenizer.encode(prompt)
        rows = self._features(ids, features)
        self._check(ids, k, max_tokens)
        grammar = Grammar(self.tokenizer, schema) if schema is not None else None
        with torch.inference_mode():
            text = _Text(self.model, self.tokenizer.eos_id, ids, rows, grammar, k, max_tokens)
            text.run()
        histogram = tuple(text.histogram)
        generation = Generation(len(text.out), sum(histogram), histogram, time.perf_counter() - started)
        return Decoded(self.tokenizer.decode(text.out), tuple(text.out), generation, "end" if text.ended else "length")

    def _features(self, ids: Sequence[int], features: NDArray[np.float32] | None) -> Tensor | None:
        """Features as (1, N, D), after they were compared with the prompt."""
        places = ids.count(self.config.ct_placeholder_id)
        count = 0 if features is None else len(features)
        if places != count:
            raise BadInput(f"the prompt has {places} feature places and {count} feature rows came; render the prompt for the features")
        if features is None or not count:
            return None
        if features.ndim != 2 or features.shape[1] != self.config.ct_feature_dim:
            raise BadInput(
                f"features have shape {features.shape}, the model takes (N, {self.config.ct_feature_dim}); "
                "encoder and language model belong to different generations: encode the study again"
            )
        rows = torch.from_numpy(features.astype("float32")).unsqueeze(0)  # (1, N, D)
        if not bool(torch.isfinite(rows).all()):
            raise BadInput("features hold NaN or infinite values; encode the study again")
        return rows

    def _check(self, ids: Sequence[int], k: int, max_tokens: int) -> None:
        room = self.config.max_position_embeddings - MAX_DRAFT - 1
        if not 0 <= k <= MAX_DRAFT:
            raise BadInput(f"draft length {k} is outside 0 … {MAX_DRAFT}; choose one inside")
        if not ids or max_tokens < 1 or len(ids) + max_tokens > room:
            raise BadInput(f"a prompt of {len(ids)} tokens and {max_tokens} new ones must fit into {room}; shorten the prompt or max_tokens")


@dataclass
class _Text:
    """The state of one text while it is written."""

    model: Model
    eos: int
    prompt: list[int]
    features: Tensor | None  # (1, N, D)
    grammar: Grammar | None
    k: int
    max_tokens: int
    out: list[int] = field(default_factory=list)
    histogram: list[int] = field(default_factory=list)
    ended: bool = False

    def run(self) -> None:
        """Write until the text ends or is long enough."""
        self.histogram = [0] * (self.k + 1)
        capacity = len(self.prompt) + self.max_tokens + self.k + 1
        self.cache = self.model.new_cache(capacity)
        self.mtp_cache = self.model.new_mtp_cache(capacity)
        hidden = self.model.forward(self._tensor(self.prompt), self.features, self.cache)  # (1, P, hidden)
        self._take(self.model.logits(hidden[0, -1]), self._mask())
        pending = self.prompt[1:]
        while not self._done():
            block, masks = self._draft(pending + self.out[-1:], hidden)
            hidden, pending = self._verify(block, masks)

    def _draft(self, tokens: list[int], hidden: Tensor) -> tuple[list[int], list[Tensor | None]]:
        """Block `[last token, drafts…]` and the mask behind each of its tokens.

        `tokens` follow the positions of `hidden` (1, R, hidden), which the MTP layer has not seen yet.
        """
        drafts: list[int] = []
        masks = [self._mask()]
        depth = min(self.k, self.max_tokens - len(self.out) - 1)  # a draft past the end is of no use
        if depth > 0:
            state = self.model.draft(self._tensor(tokens), hidden, self.mtp_cache)[:, -1:]  # (1, 1, hidden)
            known = self.mtp_cache.length
            while len(drafts) < depth:
                logits = self.model.logits(state[0, 0])
                drafts.append(int((logits if masks[-1] is None else logits + masks[-1]).argmax()))
                if drafts[-1] == self.eos or not self._follow(drafts[-1]):
                    break  # nothing can be drafted behind the end
                masks.append(self._mask())
                if len(drafts) < depth:
                    state = self.model.draft(self._tensor(drafts[-1:]), state, self.mtp_cache)
            self.mtp_cache.rollback(known)  # guesses leave; the next call brings the verified states
            self._unfollow(len(drafts))
        return [self.out[-1], *drafts], masks

    def _verify(self, block: list[int], masks: list[Tensor | None]) -> tuple[Tensor, list[int]]:
        """One forward pass over the block; returns hidden states (1, A, hidden) of its accepted part, and the tokens that follow all but the last."""
        base = self.cache.length
        hidden = self.model.forward(self._tensor(block), None, self.cache)  # (1, R, hidden)
        logits = self.model.logits(hidden[0])  # (R, vocab)
        accepted = 0
        for row in range(len(block)):
            token = self._take(logits[row], masks[row])
            if row + 1 == len(block) or token != block[row + 1]:
                break
            accepted += 1
            if self._done():
                break
        self.histogram[accepted] += 1
        self.cache.rollback(base + accepted + 1)
        return hidden[:, : accepted + 1], block[1 : accepted + 1]

    def _take(self, logits: Tensor, mask: Tensor | None) -> int:
        """Choose the next token from logits (vocab,), append it and advance the grammar."""
        token = self._choose(logits, mask)
        if token == self.eos:
            self.ended = True
            return token
        self.out.append(token)
        if self.grammar:
            self.grammar.consume(token)
            self.ended = self.grammar.finished
        return token

    def _choose(self, logits: Tensor, mask: Tensor | None) -> int:
        allowed = logits if mask is None else logits + mask
        best = allowed.topk(2)
        if float(best.values[0] - best.values[1]) >= NEAR_TIE:
            return int(best.indices[0])
        return self._decide_tie(mask)

    def _decide_tie(self, mask: Tensor | None) -> int:
        """The next token by one pass over the whole text, whatever blocks it was written in."""
        hidden = self.model.forward(self._tensor(self.prompt + self.out), self.features)  # (1, T, hidden)
        logits = self.model.logits(hidden[0, -1])
        return int((logits if mask is None else logits + mask).argmax())

    def _done(self) -> bool:
        return self.ended or len(self.out) >= self.max_tokens

    def _mask(self) -> Tensor | None:
        return self.grammar.mask() if self.grammar and not self.grammar.finished else None

    def _follow(self, token: int) -> bool:
        """Advance the grammar by a draft; False when it is finished behind it."""
        if self.grammar:
            self.grammar.consume(token)
            self._followed += 1
            return not self.grammar.finished
        return True

    def _unfollow(self, count: int) -> None:
        if self.grammar:
            self.grammar.rollback(self._followed)
        self._followed = 0

    _followed: int = 0

    def _tensor(self, ids: Sequence[int]) -> Tensor:
        return torch.tensor([list(ids)])  # (1, R)
