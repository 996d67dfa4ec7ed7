"""Branches of one answer: partial texts with their scores, the step from one set to the next, and the tree that is drafted ahead of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from pipeline.engine.grammar import Grammar


@dataclass(frozen=True)
class Branch:
    """A partial text. `total` is its log-probability under the grammar, `steps` the tokens that it counts, an end token with them."""

    tokens: tuple[int, ...] = ()
    total: float = 0.0
    steps: int = 0
    grammar: Grammar | None = None
    ended: bool = False

    @property
    def score(self) -> float:
        """Log-probability per token, so that long texts are not worse for their length; higher is better."""
        return self.total / max(self.steps, 1)

    def mask(self) -> Tensor | None:
        """What is added to logits (vocab,) behind it."""
        return self.grammar.mask() if self.grammar else None

    def grown(self, token: int, total: float, eos: int) -> Branch:
        """The branch one token longer."""
        if token == eos:
            return Branch(self.tokens, total, self.steps + 1, None, ended=True)
        grammar = self.grammar.fork() if self.grammar else None
        if grammar:
            grammar.consume(token)
        return Branch((*self.tokens, token), total, self.steps + 1, grammar, ended=grammar is not None and grammar.finished)


@dataclass(frozen=True)
class Child:
    """A branch and where it comes from: the place of its parent among those before, and the token that it adds."""

    branch: Branch
    parent: int
    token: int


@dataclass(eq=False)
class Node:
    """A place in the drafted tree, behind one token; the roots are the live branches."""

    branch: Branch
    depth: int
    root: int  # place among the live branches
    parent: Node | None = None
    children: dict[int, Node] = field(default_factory=dict)
    mask: Tensor | None = None  # of the token behind it
    path: int = -1  # the verified path that it lies on

    @classmethod
    def at(cls, branch: Branch, root: int) -> Node:
        """A root."""
        return cls(branch, 0, root, mask=branch.mask())

    def add(self, token: int, branch: Branch) -> Node:
        """A child behind `token`."""
        node = Node(branch, self.depth + 1, self.root, self, mask=branch.mask())
        self.children[token] = node
        return node

    def back(self) -> Iterator[Node]:
        """The node and those before it, up to its root."""
        node: Node | None = self
        while node is not None:
            yield node
            node = node.parent


def chances(logits: Tensor, masks: Sequence[Tensor | None]) -> Tensor:
    """Logits (S, vocab) and the masks behind the same branches → log-probabilities (S, vocab) of what is allowed."""
    rows = [row if mask is None else row + mask for row, mask in zip(logits, masks, strict=True)]
    return torch.stack(rows).log_softmax(dim=-1)


def step(branches: Sequence[Branch], logs: Tensor, width: int, eos: int) -> tuple[list[Child], list[Branch]]:
    """One step of beam search: the `width` best continuations that go on, best first, and those among the `width` best that end.

    `logs` are log-probabilities (S, vocab) behind the branches.
    """
    totals = logs + torch.tensor([branch.total for branch in branches]).unsqueeze(1)  # (S, vocab)
    best = totals.flatten().topk(min(2 * width, totals.numel()))
    live: list[Child] = []
    ended: list[Branch] = []
    for rank, (total, place) in enumerate(zip(best.values.tolist(), best.indices.tolist(), strict=True)):
        if total == float("-inf") or len(live) == width:
            break
        parent, token = divmod(place, logs.shape[1])
        branch = branches[parent].grown(token, total, eos)
        if not branch.ended:
            live.append(Child(branch, parent, token))
        elif rank < width:
            ended.append(branch)
    return live, ended


def settled(live: Sequence[Branch], ended: Sequence[Branch], width: int) -> bool:
    """True when the search is over: nothing goes on, enough has ended, or what ended scores at least as well as all that goes on."""
    if not live or len(ended) >= width:
        return True
    return bool(ended) and max(branch.score for branch in ended) >= max(branch.score for branch in live)


def leaves(roots: Sequence[Node], limit: int) -> list[Node]:
    """The ends of the tree's paths, in the order of their roots; the unlikeliest are cut off beyond `limit`, roots never."""
    found = list(_ends(roots))
    while len(found) > limit:
        worst = min((node for node in found if node.parent is not None), key=lambda node: node.branch.total, default=None)
        if worst is None or worst.parent is None:
            break
        parent = worst.parent
        parent.children = {token: node for token, node in parent.children.items() if node is not worst}
        found = list(_ends(roots))
    return found


def _ends(nodes: Sequence[Node]) -> Iterator[Node]:
    for node in nodes:
        if node.children:
            yield from _ends(list(node.children.values()))
        else:
            yield node
