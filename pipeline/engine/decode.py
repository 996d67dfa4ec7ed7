"""Draft, verify in one pass, accept the longest matching prefix.

The text is the same at every draft length. Blocks of different sizes differ by about 1e-6 in their logits, so a step whose two best
tokens are closer than `NEAR_TIE` is decided again by one pass over the whole text, which does not depend on how the text was cut
into blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from pipeline.engine.grammar import Grammar
from pipeline.engine.model import Model

NEAR_TIE = 1e-4


@dataclass
class Decoding:
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
    followed: int = 0  # drafted tokens that the grammar has been led through

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
            self._unfollow()
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
            self.followed += 1
            return not self.grammar.finished
        return True

    def _unfollow(self) -> None:
        """Take the grammar back to the written text."""
        if self.grammar:
            self.grammar.rollback(self.followed)
        self.followed = 0

    def _tensor(self, ids: Sequence[int]) -> Tensor:
        return torch.tensor([list(ids)])  # (1, R)
