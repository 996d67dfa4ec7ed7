"""`ctreport bench denoise` and `bench sides`: what the small packaged nets do on phantoms that they were not trained on."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from workers.commands.answer import Json, answer
from workers.commands.bench_place import commit, machine

FULL, SHORT = 60, 12
Short = Annotated[bool, typer.Option("--short", help=f"{SHORT} phantoms instead of {FULL}: wide intervals")]
Seed = Annotated[int, typer.Option(min=0, help="other phantoms")]
Told = Callable[[float, str], None]


def denoise(short: Short = False, seed: Seed = 0, json_to: Json = None) -> None:
    """Nodule Dice and noise read as interstitial thickening, at low and full dose: without denoising, with the article's autoencoder, with ours."""
    from pipeline.evaluation.denoise import evaluate_denoise
    from pipeline.evaluation.learned_table import denoise_markdown

    result = _measured("bench denoise", lambda told: evaluate_denoise(SHORT if short else FULL, seed, told))
    answer(result, json_to, denoise_markdown(result))


def sides(short: Short = False, seed: Seed = 0, json_to: Json = None) -> None:
    """The side check on phantoms as they are and with mirrored pixels: per slice and per volume."""
    from pipeline.evaluation.laterality import evaluate_laterality
    from pipeline.evaluation.learned_table import sides_markdown

    result = _measured("bench sides", lambda told: evaluate_laterality(SHORT if short else FULL, seed, told))
    answer(result, json_to, sides_markdown(result))


def _measured(title: str, measure: Callable[[Told], dict[str, Any]]) -> dict[str, Any]:
    from pipeline.training.progress import Bar

    place = {"machine": machine(Path.cwd()), "date": datetime.now(UTC).isoformat(timespec="seconds"), "commit": commit()}
    with Bar(title) as bar:
        return place | measure(bar.update)
