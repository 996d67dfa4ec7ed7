"""New patients out of those at hand: proposals of several phantoms in one list, so that no combination of findings is met twice in training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from pipeline.drafting.schema import MAX_CANDIDATES, MAX_LIVER, MAX_NODES
from pipeline.model import Candidate
from pipeline.training.phantom import Truth
from pipeline.training.scene import Listed, match, there_is
from pipeline.training.shards import Views

LUNG_COUNTS = (0.06, 0.14, 0.2, 0.2, 0.17, 0.13, 0.1)  # shares of patients with so many lung proposals: many of them, as those are hard to tell apart
OTHER_SHARE = 0.3  # of patients: with nodes, and as often with lesions of the liver


@dataclass(frozen=True, slots=True)
class Seen:
    """One patient for the corpus: features (N, D), the proposals in the order of their tokens, what each is (nothing where it is none), the rest."""

    features: NDArray[np.float32]
    candidates: tuple[Candidate, ...]
    found: dict[int, Listed]
    truth: Truth


@dataclass(frozen=True, slots=True)
class _Proposal:
    token: NDArray[np.float32]  # (D,)
    candidate: Candidate
    thing: Listed | None


class Patients:
    """The phantoms of a data set, as they are and mixed."""

    def __init__(self, views: Views) -> None:
        self._views = views
        self._found = [match(candidates, there_is(truth)) for candidates, truth in zip(views.candidates, views.truths, strict=True)]
        told = [one for row in range(len(views)) for one in self._told(row)]
        self._lungs = [one for one in told if one.candidate.lobe is not None]
        self._nodes = [one for one in told if one.candidate.kind == "淋巴结"]
        self._liver = [one for one in told if one.candidate.lobe is None and one.candidate.kind != "淋巴结"]

    def own(self, row: int) -> Seen:
        """One phantom as it is."""
        return Seen(self._views.features[row], self._views.candidates[row], self._found[row], self._views.truths[row])

    def mixed(self, row: int, rng: Generator) -> Seen:
        """The scan and the sides of one phantom with the proposals of others, the largest first as the encoder gives them."""
        drawn = [*_some(self._lungs, int(rng.choice(len(LUNG_COUNTS), p=LUNG_COUNTS)), rng)]
        drawn += _some(self._nodes, int(rng.integers(1, MAX_NODES + 1)) if rng.random() < OTHER_SHARE else 0, rng)
        drawn += _some(self._liver, int(rng.integers(1, MAX_LIVER + 1)) if rng.random() < OTHER_SHARE else 0, rng)
        features = self._views.features[row].copy()  # (N, D)
        room = min(MAX_CANDIDATES, len(features))
        chosen = sorted(drawn[:room], key=lambda one: -one.candidate.size_mm)
        empty = [features[place].copy() for place in range(len(self._views.candidates[row]), room)]
        for place in range(room):
            if place < len(chosen):
                features[place] = chosen[place].token
            elif empty:
                features[place] = empty[place % len(empty)]
        candidates = tuple(replace(one.candidate, index=place) for place, one in enumerate(chosen, 1))
        found = {place: one.thing for place, one in enumerate(chosen, 1) if one.thing is not None}
        return Seen(features, candidates, found, self._views.truths[row])

    def _told(self, row: int) -> list[_Proposal]:
        features, found = self._views.features[row], self._found[row]
        return [_Proposal(features[one.index - 1], one, found.get(one.index)) for one in self._views.candidates[row]]


def _some(pool: Sequence[_Proposal], count: int, rng: Generator) -> list[_Proposal]:
    """So many of a pool, which may be empty."""
    return [pool[int(at)] for at in rng.integers(len(pool), size=count)] if pool else []
