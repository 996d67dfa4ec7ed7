"""How well the side check tells right from left: on phantoms that it was not trained on, as they are and with mirrored pixels, and on any volume."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.evaluation.averages import mean, share
from pipeline.evaluation.cases import mirrored, phantom_volume
from pipeline.imaging.laterality import SideAnswer, SideCheck, decided, slices
from pipeline.imaging.lungs import lungs_of
from pipeline.imaging.volume import Volume
from pipeline.training.chest_slices import chest_slice

FIRST_SEED = 60_000_000
PATIENTS_PER_PHANTOM = 10
SURE = 1.0


@dataclass(frozen=True)
class Asked:
    """What the check said of one volume."""

    answer: SideAnswer
    margins: tuple[float, ...]  # per slice: logit that anatomy agrees with geometry


def ask(check: SideCheck, volume: Volume) -> Asked | None:
    """The answer for a volume, and what each slice said; None where no lungs are found."""
    lungs = lungs_of(volume)
    if lungs is None:
        return None
    images, right, left = slices(volume, lungs)
    if len(images) == 0:
        return Asked(check.check(volume, lungs), ())
    margins = check.margins(images, right, left)
    return Asked(decided(margins), tuple(float(margin) for margin in margins))


def evaluate_laterality(n: int, seed: int = 0, told: Callable[[float, str], None] = lambda done, line: None) -> dict[str, Any]:
    """Accuracy per slice and answers per volume over `n` phantoms, as they are and mirrored, each with a 95 % interval."""
    check = SideCheck.load()
    found: dict[str, list[Asked]] = {"as it is": [], "mirrored": []}
    for number in range(n):
        volume, truth = phantom_volume(FIRST_SEED + seed * 100_000 + number)
        for what, one in (("as it is", volume), ("mirrored", mirrored(volume, truth)[0])):
            if (asked := ask(check, one)) is not None:
                found[what].append(asked)
        told((number + 1) / n, f"{number + 1}/{n} phantoms")
    rows = [{"what": f"phantoms, {what}", **_figures(asked, what == "as it is")} for what, asked in found.items()]
    return {"n": n, "rows": [*rows, _patients(check, n * PATIENTS_PER_PHANTOM, seed)]}


def _patients(check: SideCheck, n: int, seed: int) -> dict[str, Any]:
    """Single slices of invented patients that were not trained on: more of what makes the sides differ than a phantom has."""
    made = [chest_slice(np.random.default_rng([FIRST_SEED, seed, number])) for number in range(n)]
    parts = np.array_split(np.arange(n), max(1, n // 50))
    stacks = [[np.stack([getattr(made[i], name) for i in part]) for name in ("hu", "right", "left")] for part in parts]
    margins = np.concatenate([check.margins(*stack) for stack in stacks])
    return {"what": "invented patients, slices", "slices": n, "volumes": 0, **_slices([margins[i : i + 1] for i in range(n)], agrees=True)}


def _figures(asked: Sequence[Asked], agrees: bool) -> dict[str, Any]:
    return {
        "slices": sum(len(one.margins) for one in asked),
        "volumes": len(asked),
        **_slices([np.array(one.margins) for one in asked if one.margins], agrees),
        "right": share([one.answer.agrees is agrees for one in asked]),
        "unsure": share([one.answer.agrees is None for one in asked]),
        "wrong": share([one.answer.agrees is (not agrees) for one in asked]),
    }


def _slices(volumes: Sequence[NDArray[np.float64]], agrees: bool) -> dict[str, Any]:
    """Slices of one volume hang together: their intervals are taken over volumes. `sure`: slices with a logit beyond ±SURE."""
    sign = 1.0 if agrees else -1.0
    sure = [margins[np.abs(margins) > SURE] for margins in volumes]
    return {
        "slice_accuracy": mean([float((sign * margins > 0).mean()) for margins in volumes]),
        "sure": mean([float((np.abs(margins) > SURE).mean()) for margins in volumes]),
        "sure_accuracy": mean([float((sign * margins > 0).mean()) for margins in sure if len(margins)]),
    }
