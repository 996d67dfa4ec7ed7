"""Report quality on held-out phantoms: as they are, with another phantom's features, and after single changes. Says nothing about patients."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pipeline.drafting.prompt import NOT_GIVEN, render
from pipeline.drafting.schema import schema_text
from pipeline.encoder.compact import WEIGHTS as ENCODER_WEIGHTS
from pipeline.engine.checkpoint import PACKAGED
from pipeline.evaluation.answering import Load, Models, Ticked, answer_all, code_digest, plan, seconds
from pipeline.evaluation.answers import Answer, Case
from pipeline.evaluation.averages import share
from pipeline.evaluation.counterfactuals import follow, found_lesions, heads_of, told_of
from pipeline.evaluation.encoding import seeing
from pipeline.evaluation.figures import figures
from pipeline.evaluation.quality_targets import verdicts
from pipeline.evaluation.score import score
from pipeline.evaluation.told import Told
from pipeline.model import Features

MAX_TOKENS = 600
SIZE_LIMITS_MM = (8, 12, 20)
WEIGHT_FILES = (".safetensors", ".json", ".txt")


def silent(share: float, line: str) -> None:
    """No progress is shown."""


def evaluate_packaged(n: int, seed: int, k: int | None = None, counterfactuals: int = 0, *, work: Path, workers: int = 1) -> dict[str, Any]:
    """Figures of the weights in the package. Raises ModelMissing."""
    return evaluate(partial(load_models, ENCODER_WEIGHTS, PACKAGED, k), n, seed, counterfactuals, work, workers, silent)


def weights_digest(encoder: Path, engine: Path | None) -> str:
    """Changes with the weights of either folder, not with their cards: answers of others are not read again."""
    files = [path for folder in (encoder, engine) if folder is not None for path in sorted(folder.glob("*")) if path.suffix in WEIGHT_FILES]
    return hashlib.sha256(b"".join(path.name.encode() + path.read_bytes() for path in files if path.name != "card.json")).hexdigest()[:12]


def load_models(encoder: Path, engine: Path | None, k: int | None) -> Models:
    """The models of two weights folders; without an engine the encoder is judged alone. Raises ModelMissing.

    `k` tokens are drafted per step; None leaves it to the engine.
    """
    return Models(seeing(encoder), None if engine is None else engine_drafter(engine, k))


def engine_drafter(folder: Path, k: int | None) -> Callable[[Features], str]:
    """Drafting with the embedded engine of a checkpoint folder."""
    from pipeline.engine.generate import Engine  # the heads alone need none

    loaded = Engine.load(folder)

    def draft(features: Features) -> str:
        prompt = render(NOT_GIVEN, features.array.shape[0])
        return loaded.generate(prompt, features.array, schema=schema_text(), k=k, max_tokens=MAX_TOKENS).text

    return draft


def evaluate(load: Load, n: int, seed: int, counterfactuals: int, work: Path, workers: int, ticked: Ticked) -> dict[str, Any]:
    """n phantoms from `seed` on, `counterfactuals` of them changed, answers kept below `work`.

    Every figure, the same of the encoder's heads alone, `shuffled`, `counterfactuals`, `ood`, `recall_of`, `seconds` and `targets`.
    """
    tasks = plan(n, seed, counterfactuals)
    cases = answer_all(load, tasks, work / code_digest(), workers, ticked)
    return summed([cases[task.seed] for task in tasks], n, seed)


def summed(cases: Sequence[Case], n: int, seed: int) -> dict[str, Any]:
    """The result of cases in the order of their seeds; figures are of the first n."""
    plain = [case.plain for case in cases[:n]]
    result: dict[str, Any] = {
        "n": n,
        "seed": seed,
        **_figures(plain, told_of),
        "heads": _figures(plain, heads_of),
        "shuffled": {"lesion_f1": _shuffled(plain)},
        "counterfactuals": {what: share(answers) | {"n": len(answers)} for what, answers in follow(cases).items()},
        "ood": _distances(plain),
        "recall_of": recall_of(plain),
        "seconds": dict(seconds(cases[:n])),
    }
    return result | {"targets": verdicts(result)}


def _figures(answers: Sequence[Answer], tell: Callable[[Answer], Told]) -> dict[str, Any]:
    return figures([score(tell(one), one.candidates, one.truth) for one in answers])


def _shuffled(answers: Sequence[Answer]) -> dict[str, float | None]:
    """Each truth against the report of the next phantom's features: what is left without looking at the image."""
    moved = [*answers[1:], *answers[:1]]
    return figures([score(told_of(other), other.candidates, one.truth) for one, other in zip(answers, moved, strict=True)])["lesion_f1"]


def recall_of(answers: Sequence[Answer]) -> dict[str, dict[str, int]]:
    """Density (or 实变) and size of the true lung lesions → how many there are and how many were found: where the misses sit."""
    groups: dict[str, dict[str, int]] = {}
    for one in answers:
        found = found_lesions(one)
        for number, lesion in enumerate(one.truth.lesions):
            group = groups.setdefault(f"{'实变' if lesion.kind == '实变' else lesion.density} {_size_group(lesion.size_mm)}", {"of": 0, "found": 0})
            group["of"] += 1
            group["found"] += number in found
    return dict(sorted(groups.items()))


def _size_group(size_mm: float) -> str:
    below = next((limit for limit in SIZE_LIMITS_MM if size_mm < limit), None)
    return f"≥ {SIZE_LIMITS_MM[-1]} mm" if below is None else f"< {below} mm"


def _distances(answers: Sequence[Answer]) -> dict[str, Any]:
    """Share of phantoms that the encoder takes for known, with the middle and the farthest of their distances; None where it measures none."""
    found = sorted(one.ood for one in answers if one.ood is not None)
    passed = share([not one.outlying for one in answers if one.ood is not None])
    return {"passed": passed, "median": found[len(found) // 2] if found else None, "largest": found[-1] if found else None}
