"""Report quality on held-out phantoms: as they are, with another phantom's features, and mirrored. Says nothing about patients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pipeline.drafting.prompt import NOT_GIVEN, render
from pipeline.drafting.schema import schema_text
from pipeline.encoder.compact import WEIGHTS as ENCODER_WEIGHTS
from pipeline.encoder.compact import CompactEncoder
from pipeline.encoder.prepare import preparing
from pipeline.encoder.series import SeriesEncoder
from pipeline.engine.checkpoint import PACKAGED
from pipeline.engine.generate import Engine
from pipeline.evaluation.cases import Case, mirrored, phantom_volume
from pipeline.evaluation.figures import figures
from pipeline.evaluation.score import Score, match, parse_report, score
from pipeline.imaging.volume import Volume
from pipeline.model import Features
from pipeline.settings import ImagingSettings
from pipeline.training.phantom import Truth

Encode = Callable[[Volume], Features]
Draft = Callable[[Features], str]
MAX_TOKENS = 600


def evaluate_packaged(n: int, seed: int, k: int) -> dict[str, Any]:
    """Figures of the weights in the package. Raises ModelMissing."""
    return evaluate(n, seed, compact_encoder(ENCODER_WEIGHTS), engine_drafter(PACKAGED, k))


def compact_encoder(folder: Path) -> Encode:
    """Encoding with the compact encoder of a weights folder, prepared as a site without settings does. Raises ModelMissing."""
    return SeriesEncoder(CompactEncoder.load(folder), preparing(ImagingSettings())).encode_volume


def engine_drafter(folder: Path, k: int) -> Draft:
    """Drafting with the embedded engine of a checkpoint folder."""
    loaded = Engine.load(folder)

    def draft(features: Features) -> str:
        prompt = render(NOT_GIVEN, features.array.shape[0])
        return loaded.generate(prompt, features.array, schema=schema_text(), k=k, max_tokens=MAX_TOKENS).text

    return draft


def evaluate(n: int, seed: int, encode: Encode, draft: Draft) -> dict[str, Any]:
    """n phantoms from `seed` on: every figure, `shuffled` lesion F1, and how often mirroring the volume flips the side in the text."""
    plain, flipped = [], []
    for number in range(seed, seed + n):
        volume, truth = phantom_volume(number)
        plain.append(Case(truth, encode(volume)))
        other, other_truth = mirrored(volume, truth)
        flipped.append(Case(other_truth, encode(other)))
    texts = [draft(case.features) for case in plain]
    shuffled = _shuffled(plain, texts)
    return {
        "n": n,
        "seed": seed,
        **figures([score(text, case.features.candidates, case.truth) for text, case in zip(texts, plain, strict=True)]),
        "shuffled": {"lesion_f1": figures(shuffled)["lesion_f1"]},
        "mirrored": _mirrored_sides(plain, texts, flipped, [draft(case.features) for case in flipped]),
    }


def _shuffled(cases: Sequence[Case], texts: Sequence[str]) -> list[Score]:
    """Each truth against the report of the next phantom's features: what is left without looking at the image."""
    moved = [(i + 1) % len(cases) for i in range(len(cases))]
    return [score(texts[j], cases[j].features.candidates, cases[i].truth) for i, j in enumerate(moved)]


def _mirrored_sides(plain: Sequence[Case], texts: Sequence[str], flipped: Sequence[Case], flipped_texts: Sequence[str]) -> dict[str, Any]:
    """Of the lesions found in both volumes, how many change their side in the text."""
    found = both = flips = 0
    for before, text, after, other in zip(plain, texts, flipped, flipped_texts, strict=True):
        here, there = _sides(text, before), _sides(other, after)
        found += len(here)
        both += len(here.keys() & there.keys())
        flips += sum(here[n] != there[n] for n in here.keys() & there.keys())
    return {"found": found, "found_in_both": both, "flipped": flips, "share": round(flips / both, 4) if both else None}


def _sides(text: str, case: Case) -> dict[int, str]:
    """Number of a true lesion → 侧别 as the text says it."""
    report = parse_report(text)
    if report is None:
        return {}
    return {_number(m.lesion, case.truth): str(m.finding["侧别"]) for m in match(report, case.features.candidates, case.truth)}


def _number(lesion: object, truth: Truth) -> int:
    return next(n for n, one in enumerate(truth.lesions) if one is lesion)
