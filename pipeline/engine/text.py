"""One text while it is written: its ids, its grammar, its place in the caches, and what was proposed to follow."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from pipeline.engine.counts import LOOKUP, MTP, Counts
from pipeline.engine.grammar import Grammar
from pipeline.engine.lookup import Lookup, Proposal
from pipeline.engine.sections import SectionWatcher
from pipeline.engine.tokenizer import TextTokenizer

MAX_ROWS = 24  # tokens proposed in one block, forced ones included


@dataclass
class Draft:
    """Tokens proposed behind a text. `free[i]` is False where the grammar forced token i; from token `handed` on they are the lookup's."""

    handed: int = MAX_ROWS
    tokens: list[int] = field(default_factory=list)
    free: list[bool] = field(default_factory=list)

    def judged(self, judged: int, accepted: int) -> dict[str, tuple[int, int]]:
        """Source → free tokens among the first `judged`, and among the first `accepted`; a source without any is absent."""
        parts = {MTP: slice(0, self.handed), LOOKUP: slice(self.handed, None)}
        counted = {source: (sum(self.free[:judged][part]), sum(self.free[:accepted][part])) for source, part in parts.items()}
        return {source: pair for source, pair in counted.items() if pair[0]}


@dataclass
class Text:
    """A text of `ids` (prompt and answer), the first `cached` of which stand in the main cache; the rest is the tail, at least one token.

    `hidden` are the main model's post-norm hidden states of positions `mtp_cached` … `cached` − 1, which the MTP layer has not seen yet.
    `pins` are experts that near ties of the router were decided for: position → (MoE layers, top_k).
    """

    tokenizer: TextTokenizer
    prompt: list[int]
    features: Tensor | None  # (1, F, D)
    grammar: Grammar | None
    max_tokens: int
    watcher: SectionWatcher
    counts: Counts
    jump: bool
    lookup: Lookup | None = None
    ids: list[int] = field(default_factory=list)
    slot: int = 0
    cached: int = 0
    mtp_cached: int = 0
    hidden: list[Tensor] = field(default_factory=list)  # each (n, hidden)
    pins: dict[int, Tensor] = field(default_factory=dict)
    draft: Draft = field(default_factory=Draft)
    proposals: list[tuple[int, Proposal]] = field(default_factory=list)  # what the lookup said behind so many drafted tokens, whoever drafted
    ended: bool = False
    started: float = 0.0  # seconds of a monotonic clock
    _ahead: int = 0  # drafted tokens that the grammar has been led through

    def __post_init__(self) -> None:
        self.ids = list(self.prompt)

    @property
    def written(self) -> int:
        """Tokens of the answer so far."""
        return len(self.ids) - len(self.prompt)

    @property
    def done(self) -> bool:
        """True when nothing more is to be written."""
        return self.ended or self.written >= self.max_tokens

    @property
    def out(self) -> list[int]:
        """The answer's ids."""
        return self.ids[len(self.prompt) :]

    @property
    def tail(self) -> list[int]:
        """Tokens that are not in the cache yet: the last one, and those jumped over before it."""
        return self.ids[self.cached :]

    @property
    def room(self) -> int:
        """Tokens that can be drafted: one more is written by the verifying pass itself."""
        return self.max_tokens - self.written - 1

    @property
    def section(self) -> str:
        """The section that the next token belongs to."""
        return self.watcher.section

    def write(self, token: int, *, forced: bool = False) -> None:
        """Append a token that was chosen, or end the text with it."""
        if token == self.tokenizer.eos_id:
            self.ended = True
            return
        followed = self._ahead > 0 and self.draft.tokens[-self._ahead] == token
        self.ids.append(token)
        self.counts.wrote(self.section, forced=forced)
        self.watcher.feed(self.tokenizer.piece(token))
        if self.lookup:
            self.lookup.write(token)
        if self.grammar:
            self._lead(token, followed=followed)
            self.ended = self._ahead == 0 and self.grammar.finished

    def forced(self) -> int | None:
        """The only token that may come next (where the drafts have led the grammar), or None."""
        return self.grammar.forced if self.grammar and not self.grammar.finished else None

    def leap(self) -> None:
        """Write what the grammar forces, without a forward pass."""
        while self.jump and not self.done and (token := self.forced()) is not None:
            self.write(token, forced=True)

    @property
    def roomy(self) -> bool:
        """True when one more token can be proposed."""
        return len(self.draft.tokens) < min(self.room, MAX_ROWS)

    def propose(self, token: int, *, free: bool = True) -> bool:
        """Lead the grammar through a proposed token; False, and nothing done, when the text would end with it."""
        if token == self.tokenizer.eos_id:
            return False
        if self.grammar:
            self.grammar.consume(token)
            if self.grammar.finished:
                self.grammar.rollback(1)
                return False
            self._ahead += 1
        self.draft.tokens.append(token)
        self.draft.free.append(free)
        return True

    def propose_forced(self) -> None:
        """Propose what the grammar forces next, as far as there is room."""
        while self.jump and self.roomy and (token := self.forced()) is not None:
            if not self.propose(token, free=False):
                return

    def learn(self, written: list[int]) -> None:
        """Tell the lookup how right it was, where the text stands by the tokens that it spoke behind."""
        for behind, proposal in self.proposals:
            if self.lookup and self.draft.tokens[:behind] == written[:behind]:
                self.lookup.observe(proposal, written[behind:])

    def unfollow(self) -> None:
        """Take the grammar back to the written text."""
        if self.grammar:
            self.grammar.rollback(self._ahead)
        self._ahead = 0

    def allows(self, token: int) -> bool:
        """True when the grammar allows a token where nothing is forced (and the drafts have led the grammar)."""
        return self.grammar is None or self.grammar.allows(token)

    def masked(self, logits: Tensor) -> Tensor:
        """Logits (vocab,) with −inf for what the grammar forbids."""
        return logits if self.grammar is None else logits + self.grammar.mask()

    def take_hidden(self) -> list[Tensor]:
        """The hidden states that the MTP layer has not seen, each (n, hidden); they are its own from now on."""
        rows, self.hidden = self.hidden, []
        return rows

    def _lead(self, token: int, *, followed: bool) -> None:
        """Bring the grammar behind a written token, which it may have been led through as a draft."""
        assert self.grammar is not None
        if followed:
            self._ahead -= 1
            return
        self.unfollow()
        self.grammar.consume(token)
