"""Lookup drafting: the longest known suffixes of the text say what followed them elsewhere, and how surely.

A proposal can stand by itself or behind tokens that the MTP layer guessed: templates are the lookup's strength, the decisions between them
the model's.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from pipeline.engine.costs import Costs, Expectation, expectations, fastest

ORDERS = (12, 8, 5, 3, 2)  # suffix lengths that are looked up, longest first
SURE = 0.95  # the longest suffix of this confidence has the word; where there is none, the surest one
FLOOR = 0.3  # a proposal ends before the first token of less confidence
MARGIN = 1.2  # how much faster than the MTP's own draft the lookup must promise to be before the draft is at its end
DOUBT = 0.5  # added to a suffix's count: what was seen once is no certainty
MAX_TOKENS = 200_000  # of added texts; later ones are not taken, so that memory stays bounded
EDGES = (0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99)  # between confidence buckets
BUCKET_WEIGHT = 8.0  # observations that a raw confidence counts for against its bucket's record
MEMORY = 0.99

Key = tuple[int, ...]
Followers = tuple[int, int] | dict[int, int]  # the only token that followed and how often; or a count for each


@dataclass(frozen=True)
class Proposal:
    """Tokens that may come next, each with the chance that it is right if those before it are; `raw` is that chance before calibration."""

    ids: tuple[int, ...] = ()
    confidences: tuple[float, ...] = ()
    raw: tuple[float, ...] = ()


@dataclass
class Calibration:
    """How often tokens of each confidence bucket were right, exponentially weighted."""

    seen: list[float] = field(default_factory=lambda: [0.0] * (len(EDGES) + 1))
    right: list[float] = field(default_factory=lambda: [0.0] * (len(EDGES) + 1))

    def of(self, raw: float) -> float:
        """The calibrated chance behind a raw confidence."""
        place = _bucket(raw)
        return (self.right[place] + BUCKET_WEIGHT * raw) / (self.seen[place] + BUCKET_WEIGHT)

    def add(self, raw: float, right: bool) -> None:
        """One token of this confidence was right, or was not."""
        place = _bucket(raw)
        self.seen[place] = self.seen[place] * MEMORY + 1.0
        self.right[place] = self.right[place] * MEMORY + right


class Lookup:
    """Continuation counts of suffixes of 2 … 12 token ids.

    A text has a Lookup of its own over the engine's (`base`): both are asked, nothing is copied, and what one text adds is gone with it.
    Calibration belongs to the base and outlives texts.
    """

    def __init__(self, eos: int, base: Lookup | None = None) -> None:
        self._eos = eos
        self._base = base
        self._after: dict[Key, Followers] = {}
        self._tail: list[int] = []  # the last ids of the text that `write` continues
        self._room = MAX_TOKENS
        self._favourites: dict[Key, tuple[int, float]] = {}  # of suffixes that are known here, as texts asked for them
        self._found: dict[Key, tuple[int, float]] = {}  # what follows a tail, until more is learnt: proposals behind each guess of a draft overlap
        self._base_room = base._room if base else 0  # what the base had learnt when that was found
        self.calibration: Calibration = base.calibration if base else Calibration()

    @classmethod
    def build(cls, eos: int, texts: Iterable[Sequence[int]]) -> Lookup:
        """The base of an engine, from whole texts (ids without the end token), each of which ends."""
        base = cls(eos)
        for ids in texts:
            base.add([*ids, eos])
        return base

    def add(self, ids: Sequence[int], weight: int = 1) -> None:
        """Learn a text that counts `weight` times; `write` continues it. A text beyond MAX_TOKENS in all is not taken."""
        self._tail = []
        for token in ids[: self._room]:
            self.write(token, weight)

    def write(self, token: int, weight: int = 1) -> None:
        """Learn one more token of the text that was added last."""
        if self._room <= 0:
            return
        self._room -= 1
        self._found.clear()
        self._favourites.clear()
        tail = self._tail
        for order in ORDERS:
            if order <= len(tail):
                _count(self._after, tuple(tail[-order:]), token, weight)
        tail.append(token)
        del tail[: -ORDERS[0]]

    def propose(self, context: Sequence[int], limit: int) -> Proposal:
        """Up to `limit` tokens that may follow `context`; it ends before the end token and before confidence falls below the floor."""
        if self._base is not None and self._base._room != self._base_room:
            self._base_room = self._base._room
            self._found.clear()
        tail = list(context[-ORDERS[0] :])
        ids: list[int] = []
        raw: list[float] = []
        while len(ids) < limit:
            token, confidence = self._next(tail)
            if confidence < FLOOR or token == self._eos:
                break
            ids.append(token)
            raw.append(confidence)
            tail.append(token)
            del tail[: -ORDERS[0]]
        return Proposal(tuple(ids), tuple(map(self.calibration.of, raw)), tuple(raw))

    def observe(self, proposal: Proposal, written: Sequence[int]) -> None:
        """Learn from the tokens that were written where the proposal stood, whoever drafted them."""
        pairs = list(zip(proposal.ids, proposal.raw, written, strict=False))
        hits = list(takewhile(lambda pair: pair[0] == pair[2], pairs))
        for _, raw, _ in hits:
            self.calibration.add(raw, True)
        if len(hits) < len(pairs):
            self.calibration.add(pairs[len(hits)][1], False)

    def _next(self, tail: list[int]) -> tuple[int, float]:
        """The likeliest token behind a known suffix and its share of all that followed there; confidence 0 when no suffix is known."""
        key = tuple(tail)
        if key not in self._found:
            self._found[key] = self._behind(tail)
        return self._found[key]

    def _behind(self, tail: list[int]) -> tuple[int, float]:
        best = (self._eos, 0.0)
        for order in ORDERS:
            if order > len(tail):
                continue
            found = self._favourite(tuple(tail[-order:]))
            if found is not None and found[1] > best[1]:
                best = found
            if best[1] >= SURE:
                break
        return best

    def _favourite(self, suffix: Key) -> tuple[int, float] | None:
        """The likeliest token behind one suffix and its share; None where it is not known."""
        own = self._after.get(suffix)
        base = self._base
        known = base._after.get(suffix) if base else None
        if base is None or known is None or own is not None:
            return None if own is None and known is None else _likeliest(own, known)
        if suffix not in base._favourites:
            base._favourites[suffix] = _likeliest(None, known)
        return base._favourites[suffix]


def continued(proposal: Proposal, costs: Costs, guessed: Sequence[float] = ()) -> Expectation:
    """The step of tokens that the MTP layer has guessed (`guessed`: the chance of each) and as much of the proposal behind them as pays."""
    rates = (*guessed, *proposal.confidences)
    return fastest(expectations(rates, costs, len(rates), drafts=len(guessed))[len(guessed) :])


def better(mtp: Expectation, proposal: Proposal, costs: Costs, guessed: Sequence[float] = (), *, last: bool = False) -> Expectation | None:
    """The step that goes on with the lookup instead of the rest of the MTP's draft `mtp`; None when that does not promise to be faster.

    Behind the `last` of the MTP's tokens, and where it drafts none, anything that pays is taken; before that MARGIN times the MTP's speed.
    """
    choice = continued(proposal, costs, guessed)
    if choice.length == len(guessed):
        return None
    return choice if last or not mtp.length or choice.rate >= MARGIN * mtp.rate else None


def _bucket(raw: float) -> int:
    return bisect_right(EDGES, raw)


def _count(after: dict[Key, Followers], key: Key, token: int, weight: int) -> None:
    """Most suffixes have one continuation: a pair takes a third of a dictionary's memory."""
    seen = after.get(key)
    if seen is None:
        after[key] = (token, weight)
    elif isinstance(seen, dict):
        seen[token] = seen.get(token, 0) + weight
    elif seen[0] == token:
        after[key] = (token, seen[1] + weight)
    else:
        after[key] = {seen[0]: seen[1], token: weight}


def _likeliest(own: Followers | None, base: Followers | None) -> tuple[int, float]:
    if own is None or base is None:
        followers = base if own is None else own
        if isinstance(followers, tuple):
            return followers[0], followers[1] / (followers[1] + DOUBT)
    counts = _summed(own, base)
    token = max(counts, key=lambda each: (counts[each], -each))  # of equals the lowest id
    return token, counts[token] / (sum(counts.values()) + DOUBT)


def _summed(own: Followers | None, base: Followers | None) -> dict[int, int]:
    out: dict[int, int] = {}
    for followers in (own, base):
        if followers is not None:
            for token, count in followers.items() if isinstance(followers, dict) else [followers]:
                out[token] = out.get(token, 0) + count
    return out
