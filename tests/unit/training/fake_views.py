"""Encoder features made from truths: what a perfect encoder would say of phantoms, as tokens that a small model can learn from at once."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pipeline.model import Candidate, Side
from pipeline.training.phantom import LOBES, Lesion, LiverLesion, Node, Truth
from pipeline.training.shards import Views

PROPOSALS, SIDES_AT, CONDITIONS_AT, TOKENS, DIM = 8, 8, 22, 26, 48
KINDS = ("结节", "实变", "淋巴结", "囊肿", "血管瘤", "低密度灶")
ALL_LOBES, DENSITIES, MARGINS = ("上叶", "中叶", "下叶"), ("实性", "磨玻璃", "部分实性"), ("光滑", "分叶", "毛刺", "模糊")
BOTH = frozenset({Side.LEFT, Side.RIGHT})


def random_truth(seed: int) -> Truth:
    """A truth with any of the findings; places are such that no two are near each other."""
    rng = random.Random(seed)
    lesions = () if rng.random() < 0.2 else tuple(_lesion(rng, place) for place in range(rng.choice([1, 1, 1, 2, 2, 3])))
    nodes = tuple(Node(float(rng.randint(11, 25)), (0.0, 500.0 + 50 * place, 0.0)) for place in range(rng.choice([0, 0, 0, 1, 2])))
    kinds = ("囊肿", "血管瘤", "低密度灶")
    liver = tuple(
        LiverLesion(rng.choice(kinds), float(rng.randint(8, 30)), (0.0, 700.0 + 50 * place, 0.0)) for place in range(rng.choice([0, 0, 0, 1, 2]))
    )
    low_dose = rng.random() < 0.35
    return Truth(
        lesions,
        _sides(rng, 0.25),
        low_dose,
        seed,
        120.0,
        30.0 if low_dose else 200.0,
        rng.choice(["B30f", "B60f"]),
        nodes=nodes,
        liver=liver,
        emphysema=_sides(rng, 0.2),
        fibrosis=_sides(rng, 0.15),
        contrast=rng.random() < 0.3,
    )


def candidates_of(truth: Truth) -> tuple[Candidate, ...]:
    """Perfect proposals: every finding of a place, in a shuffled order that the seed decides."""
    things: list[Lesion | Node | LiverLesion] = [*truth.lesions, *truth.nodes, *truth.liver]
    random.Random(truth.seed).shuffle(things)
    return tuple(_candidate(index, thing) for index, thing in enumerate(things[:PROPOSALS], 1))


def fake_views(count: int, seed: int = 0) -> Views:
    """`count` truths with features (count, 26, 48)."""
    truths = [random_truth(seed * 1_000_000 + number) for number in range(count)]
    seen = [candidates_of(truth) for truth in truths]
    return Views(np.stack([_tokens(truth, found) for truth, found in zip(truths, seen, strict=True)]), tuple(truths), tuple(seen))


def _lesion(rng: random.Random, place: int) -> Lesion:
    side, nodule = rng.choice(list(Side)), rng.random() < 0.85
    size = float(rng.randint(6, 30) if nodule else rng.randint(32, 55))
    density = rng.choice(DENSITIES) if nodule else "实性"
    margin = rng.choice(MARGINS[:3]) if nodule else MARGINS[3]
    center = (60.0 if side is Side.LEFT else -60.0, place * 80.0 - 150, 10.0)
    calcified = nodule and density == "实性" and rng.random() < 0.2
    kind = "结节" if nodule else "实变"
    return Lesion(kind, side, rng.choice(LOBES[side]), density, size, center, margin, calcified, nodule and rng.random() < 0.2)


def _sides(rng: random.Random, share: float) -> frozenset[Side]:
    return rng.choice([frozenset({Side.LEFT}), frozenset({Side.RIGHT}), BOTH]) if rng.random() < share else frozenset()


def _candidate(index: int, thing: Lesion | Node | LiverLesion) -> Candidate:
    score = 1.0 - index / 20
    if isinstance(thing, Lesion):
        return Candidate(index, thing.kind, thing.center_mm, thing.side, thing.lobe, thing.density, thing.size_mm, score)
    kind = thing.kind if isinstance(thing, LiverLesion) else "淋巴结"
    return Candidate(index, kind, thing.center_mm, Side.RIGHT, None, None, thing.size_mm, score)


def _tokens(truth: Truth, found: Sequence[Candidate]) -> NDArray[np.float32]:
    """(26, 48): proposals, two sides, a grid of nothing, conditions."""
    tokens = np.zeros((TOKENS, DIM), np.float32)
    lesions = {lesion.center_mm: lesion for lesion in truth.lesions}
    for row, candidate in enumerate(found):
        tokens[row, :2] = 1.0, candidate.size_mm / 60
        tokens[row, 2 + KINDS.index(candidate.kind)] = 1.0
        tokens[row, 24 + round(candidate.size_mm) % 16] = tokens[row, 40 + round(candidate.size_mm) // 16] = 1.0
        if (lesion := lesions.get(candidate.center_mm)) is not None:
            tokens[row, 8 + list(Side).index(lesion.side)] = tokens[row, 10 + ALL_LOBES.index(lesion.lobe)] = 1.0
            tokens[row, 13 + DENSITIES.index(lesion.density)] = tokens[row, 16 + MARGINS.index(lesion.margin)] = 1.0
            tokens[row, 20], tokens[row, 21] = float(lesion.calcified), float(lesion.retraction)
    for row, side in enumerate(Side):
        spread = [float(side in sides) for sides in (truth.effusion, truth.emphysema, truth.fibrosis)]
        tokens[SIDES_AT + row, [row, 2, 3, 4]] = 1.0, *spread
    tokens[CONDITIONS_AT, :3] = float(truth.low_dose), float(truth.contrast), float(truth.kernel == "B60f")
    tokens[PROPOSALS:, 46], tokens[CONDITIONS_AT:, 47] = 1.0, 1.0
    return tokens
