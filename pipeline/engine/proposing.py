"""What is proposed to follow each text: by the MTP layers, by the lookup, or by the lookup behind the MTP's first guesses.

After each guess the lookup is asked what follows; it goes on from there as soon as both together promise to be faster than the MTP alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count

import torch
from torch import Tensor

from pipeline.engine.cache import Memory
from pipeline.engine.controller import Controller
from pipeline.engine.costs import Costs, Expectation, expectations
from pipeline.engine.lookup import better
from pipeline.engine.network import Network
from pipeline.engine.places import Span
from pipeline.engine.policy import MAX_DRAFT, Policy
from pipeline.engine.text import Draft, Text

MAX_TAIL = 8  # behind a longer run of jumped tokens a guess is too far from the last verified state to be worth it


@dataclass
class Chain:
    """The MTP recursion of one text, planned as the step `own`: known tokens are fed first, then guesses, while `left` more are wanted."""

    text: Text
    own: Expectation
    rates: Sequence[float] = ()  # chance of the first, second, … guess
    left: int = 0
    known: list[int] = field(default_factory=list)  # tokens that stand, or that the grammar forced, and were not fed yet
    ended: bool = False  # the text ends with the last guess

    @property
    def runs(self) -> bool:
        """True while another pass is of use."""
        return self.left > 0 and (bool(self.known) or self.text.roomy)

    @property
    def asks(self) -> bool:
        """True when the next token must be guessed."""
        return self.runs and not self.known

    @property
    def chances(self) -> list[float]:
        """Of each drafted token, that it stands if those before it do."""
        rates = iter(self.rates)
        return [next(rates) if free else 1.0 for free in self.text.draft.free]

    def feed(self) -> int:
        """The token for the next pass; any token of a chain that has ended, whose state nobody reads."""
        return self.known.pop(0) if self.known else self.text.ids[-1]

    def take(self, token: int, *, free: bool = True) -> None:
        """Propose a guess; what the grammar forces behind it comes along unasked."""
        before = len(self.text.draft.tokens)
        if not self.text.propose(token, free=free):
            self.left, self.ended = 0, True
            return
        self.left -= 1
        self.text.propose_forced()
        self.known += self.text.draft.tokens[before:]

    def hand_over(self, tokens: Sequence[int]) -> None:
        """Propose what the lookup says instead of guessing on."""
        text = self.text
        text.draft.handed = len(text.draft.tokens)
        self.left, self.known = 0, []
        for token in tokens:
            forced = text.forced()
            if forced is None and not text.allows(token):
                break
            if not text.propose(token if forced is None else forced, free=forced is None) or forced not in (None, token):
                break
        text.propose_forced()


class Proposer:
    """Proposes for all texts of a batch at once."""

    def __init__(self, network: Network, policy: Policy, controller: Controller | None, costs: Costs | None) -> None:
        self._network = network
        self._policy = policy
        self._controller = controller
        self._costs = costs

    def propose(self, texts: Sequence[Text], memory: Memory) -> None:
        """Set the draft of each text, and lead its grammar through it."""
        chains = [self._plan(text) for text in texts]
        if any(chain.left for chain in chains):
            self._recurse(chains, memory)

    def _plan(self, text: Text) -> Chain:
        """The MTP step that the policy asks for, or the lookup's proposal in its place."""
        text.draft, text.proposals = Draft(), []
        room = min(text.room, MAX_DRAFT) if len(text.tail) <= MAX_TAIL else 0
        own = self._own(text.section, max(room, 0))
        chain = Chain(text, own, self._rates(text), own.length)
        self._ask(chain)
        return chain

    def _rates(self, text: Text) -> Sequence[float]:
        return self._controller.rates(text.section) if self._controller and text.lookup else ()

    def _ask(self, chain: Chain) -> None:
        """Let the lookup go on from here if that promises to be faster than guessing on."""
        text = chain.text
        behind = len(text.draft.tokens)
        room = min(text.room, MAX_DRAFT) - behind
        if text.lookup is None or self._costs is None or room <= 0 or chain.ended:
            return
        proposal = text.lookup.propose(text.ids + text.draft.tokens, room)
        taken = better(chain.own, proposal, self._costs, chain.chances, last=not chain.left)
        if taken or not behind:
            text.proposals.append((behind, proposal))
        if taken:
            chain.hand_over(proposal.ids[: taken.length - behind])

    def _own(self, section: str, room: int) -> Expectation:
        """The MTP step that the policy asks for."""
        fixed = self._policy.length(section)
        if fixed is None:
            assert self._controller is not None
            return self._controller.choose(section, room)
        length = min(fixed, room)
        if self._controller is None or self._costs is None:
            return Expectation(length, 1.0 + length, 1.0)
        return expectations(self._controller.rates(section), self._costs, length, drafts=length)[length]

    def _recurse(self, chains: Sequence[Chain], memory: Memory) -> None:
        """Run the MTP layers in step for all texts: one pass per token, each text feeding its own. Verified states come first."""
        texts = [chain.text for chain in chains]
        ids = [token for text in texts for token in text.ids[text.mtp_cached + 1 : text.cached + 1]]
        spans = [Span(text.slot, text.mtp_cached, text.cached - text.mtp_cached) for text in texts]
        hidden = torch.cat([rows for text in texts for rows in text.take_hidden()])  # (N, hidden)
        state = self._network.draft(ids, hidden, spans, memory.mtp, 1)  # (B, hidden)
        self._network.fill(ids, hidden, spans, memory.mtp)
        for chain in chains:
            chain.text.mtp_cached = chain.text.cached
            chain.known = chain.text.ids[chain.text.cached + 1 :] if chain.left else []
        for depth in count(2):
            if any(chain.asks for chain in chains):
                self._guess(chains, state)
            if not any(chain.runs for chain in chains):
                return
            fed = [chain.feed() for chain in chains]
            spans = [Span(text.slot, text.cached + depth - 2, 1) for text in texts]
            state = self._network.draft(fed, state, spans, memory.mtp, depth)

    def _guess(self, chains: Sequence[Chain], state: Tensor) -> None:
        """Let every chain that asks take the likeliest allowed token of its row of `state` (B, hidden)."""
        logits = self._network.logits(state)  # (B, vocab)
        for row, (chain, favourite) in enumerate(zip(chains, logits.argmax(dim=-1).tolist(), strict=True)):
            if chain.asks:
                self._take(chain, favourite, logits[row])
                self._ask(chain)

    def _take(self, chain: Chain, favourite: int, logits: Tensor) -> None:
        """The likeliest allowed token by logits (vocab,), whose highest is `favourite`."""
        forced = chain.text.forced()  # only without jumps: else it came along with the token before
        if forced is not None:
            chain.take(forced, free=False)
        elif chain.text.allows(favourite):
            chain.take(favourite)
        else:
            chain.take(int(chain.text.masked(logits).argmax()))
