"""One step of a batch: propose, verify every text's block in one pass, keep the longest right prefix and one token more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from pipeline.engine import ties
from pipeline.engine.cache import Memory
from pipeline.engine.controller import Controller
from pipeline.engine.counts import MTP
from pipeline.engine.network import Network
from pipeline.engine.places import Span
from pipeline.engine.proposing import Proposer
from pipeline.engine.sections import LOGGED
from pipeline.engine.text import Text
from pipeline.log import get

log = get(__name__)


@dataclass(frozen=True)
class Block:
    """What the pass said about one text's rows: R = tail and drafts; the last A of them choose a token."""

    hidden: Tensor  # (R, hidden)
    logits: Tensor  # (A, vocab)
    best: list[int]  # (A) token of the highest logit, of all tokens
    close: list[bool]  # (A) whether the second one is nearly as high
    unsure: list[bool]  # (R) whether a router was near a tie


class Stepper:
    """Moves texts on that stand in slots 0 … B − 1."""

    def __init__(self, network: Network, memory: Memory, proposer: Proposer, controller: Controller | None, *, keep_hidden: bool) -> None:
        self._network = network
        self._memory = memory
        self._proposer = proposer
        self._controller = controller
        self._keep_hidden = keep_hidden  # for the MTP layers
        self._referee = ties.Referee(network, memory)

    def start(self, text: Text) -> None:
        """Write what the grammar forces at once, read the prompt, and write the first token where there was a choice."""
        text.leap()
        if text.done:
            return
        hidden = self._referee.read(text)  # (P, hidden)
        text.cached = len(text.prompt)
        self._keep(text, hidden)
        if not text.written:  # such a pass needs no referee
            logits = self._network.logits(hidden[-1:])[0]  # (vocab,)
            text.write(int(text.masked(logits).argmax()))
            text.leap()

    def step(self, texts: Sequence[Text]) -> None:
        """Write at least one token of every text (one token's cache, where a router's tie stopped it)."""
        self._proposer.propose(texts, self._memory)
        for text, block in zip(texts, self._verify(texts), strict=True):
            self._accept(text, block)
            text.leap()

    def _verify(self, texts: Sequence[Text]) -> list[Block]:
        """All blocks through the main model at once."""
        tails = [len(text.tail) for text in texts]
        blocks = [text.tail + text.draft.tokens for text in texts]
        spans = [Span(text.slot, text.cached, len(block)) for text, block in zip(texts, blocks, strict=True)]
        embedded = self._network.embed([token for block in blocks for token in block])  # (N, hidden)
        seen = self._network.forward(embedded, spans, self._memory.main)
        unsure = ties.unsure(seen.routing, self._network.config.num_experts_per_tok, len(embedded))
        logits = self._network.logits(seen.hidden)  # (N, vocab)
        values, tokens = logits.topk(2, dim=-1)  # (N, 2)
        close: list[bool] = (values[:, 0] - values[:, 1] < ties.NEAR_TIE).tolist()
        best: list[int] = tokens[:, 0].tolist()
        out, start = [], 0
        for tail, block in zip(tails, blocks, strict=True):
            end, asking = start + len(block), start + tail - 1
            out.append(Block(seen.hidden[start:end], logits[asking:end], best[asking:end], close[asking:end], unsure[start:end]))
            start = end
        return out

    def _accept(self, text: Text, block: Block) -> None:
        """Write what the block says as long as its drafts are right, and commit the rows that stand."""
        section, before, tail = text.section, text.written, len(text.tail)
        accepted, row, right, tied = 0, -1, True, False
        while right and not tied and not text.done and row + 1 < len(block.unsure):
            row += 1
            tied = block.unsure[row]  # rows behind this one were computed with experts that may be the wrong ones
            if tied:
                block.hidden[row] = self._referee.settle(text, text.cached + row)
            if row >= tail - 1:
                right = self._write(text, block, row - tail + 1, tied=tied)
                accepted += right
        text.unfollow()
        text.cached += row + 1
        self._keep(text, block.hidden[: row + 1])
        self._count(text, section, accepted if right else len(text.draft.tokens), accepted)
        text.learn(text.out[before:])

    def _write(self, text: Text, block: Block, place: int, *, tied: bool) -> bool:
        """Choose and write the token at one place of the draft, or behind it; True when it was the draft there."""
        drafted = text.draft.tokens[place] if place < len(text.draft.tokens) else None
        forced = drafted is not None and not text.draft.free[place]
        sure = not tied and not block.close[place]
        token = drafted if forced or (sure and block.best[place] == drafted) else None
        if token is None:
            text.unfollow()
            compelled = text.forced()
            forced = compelled is not None
            token = self._choose(text, block, place, tied=tied) if compelled is None else compelled
        text.write(token, forced=forced and text.jump)
        return token == drafted

    def _choose(self, text: Text, block: Block, place: int, *, tied: bool) -> int:
        """The allowed token of the highest logit where there is a choice; near ties go to the referee."""
        if tied:
            return self._referee.choose(text)
        if not block.close[place] and text.allows(block.best[place]):
            return block.best[place]
        best = text.masked(block.logits[place]).topk(2)
        if float(best.values[0] - best.values[1]) < ties.NEAR_TIE:
            return self._referee.choose(text)
        return int(best.indices[0])

    def _keep(self, text: Text, hidden: Tensor) -> None:
        """Hidden states (n, hidden) of committed rows, for the MTP layers."""
        if self._keep_hidden:
            text.hidden.append(hidden)

    def _count(self, text: Text, section: str, judged: int, accepted: int) -> None:
        """Book the first `judged` tokens of the draft, of which `accepted` stand; drafts behind the text's end were not judged."""
        sources = text.draft.judged(judged, accepted)
        text.counts.verified(section, sources)
        if self._controller and MTP in sources:
            told = self._controller.observe(section, *sources[MTP])
            if told:
                log.warning("drafts_shortened", section=LOGGED[section], reason=told)
