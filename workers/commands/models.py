"""Commands about models and phantoms: phantom, generate, train. They need no stack."""

from __future__ import annotations

import enum
import time
from collections import defaultdict
from pathlib import Path
from typing import Annotated

import typer

from pipeline.settings import settings
from workers import wiring
from workers.commands.answer import Data, Json, answer

app = typer.Typer()
K = Annotated[int | None, typer.Option("--k", min=0, max=16, help="tokens drafted per step by the MTP layer; default: as many as pay, with lookup")]


@app.command()
def phantom(
    folder: Annotated[Path, typer.Argument(help="one sub-folder per study is written here")],
    seed: int = 1,
    count: Annotated[int, typer.Option(min=1)] = 1,
    data: Data = None,
    json_to: Json = None,
) -> None:
    """Write synthetic chest CT studies as DICOM, with truth.json beside each, and note them in the phantom ledger."""
    folders = write_phantoms(folder, seed, count)
    answer({"studies": [str(f) for f in folders]}, json_to, "\n".join(str(f) for f in folders))


def write_phantoms(folder: Path, seed: int, count: int) -> list[Path]:
    """Studies of the seeds `seed … seed + count − 1`, one folder each, known to this site's phantom ledger."""
    from pipeline.dicom.phantom_ledger import FilePhantomLedger
    from pipeline.training.phantom_dicom import write_study

    ledger = FilePhantomLedger(settings().phantom_ledger)
    folders = []
    for number in range(seed, seed + count):
        target = folder / f"phantom-{number}"
        ledger.append(write_study(target, number))
        folders.append(target)
    return folders


@app.command()
def generate(
    study: Annotated[Path | None, typer.Option(help="folder of one CT series", exists=True)] = None,
    features: Annotated[Path | None, typer.Option(help="features file as the encode step writes it", exists=True)] = None,
    k: K = None,
    plain: Annotated[bool, typer.Option("--plain", help="neither drafts nor jumps: one token per pass")] = False,
    beams: Annotated[int | None, typer.Option("--beams", min=1, max=16, help="search with so many branches for the likeliest report")] = None,
    indication: str = "",
    data: Data = None,
    json_to: Json = None,
) -> None:
    """Generate one report with the embedded engine, under its watermark. The text is the same for every k; --beams may find a likelier one."""
    from pipeline.dicom.phantom_ledger import FilePhantomLedger
    from pipeline.drafting.embedded import EmbeddedDrafter
    from pipeline.engine.checkpoint import PACKAGED
    from pipeline.flow.draft import watermark_for

    if (study is None) == (features is None):
        raise typer.BadParameter("give either --study FOLDER or --features FILE")
    if plain and k is not None:
        raise typer.BadParameter("give either --k N or --plain")
    room = settings().draft
    encoder = wiring.lazy_encoder()
    files, sop_uids = _largest_series(study) if study else ([], [])
    seen = encoder.load_features(features) if features else encoder.encode(files)
    drafter = EmbeddedDrafter(room.weights or PACKAGED, room.k if k is None else k, room.max_tokens, plain=plain)
    is_phantom = FilePhantomLedger(settings().phantom_ledger).holds_all(sop_uids)
    watermark = watermark_for(seen.phantom_only or drafter.phantom_only, is_phantom, settings().mode)
    drafted, score = drafter.search(seen, indication, room.department, beams) if beams else (drafter.draft(seen, indication, room.department), None)
    made = drafted.generation
    value = {
        "watermark": watermark,
        "text": drafted.text,
        "tokens": made.tokens,
        "verify_count": made.verify_count,
        "accepted_histogram": list(made.accepted_histogram),
        "seconds": made.seconds,
        "forced": made.forced,
        "acceptance": made.acceptance,
        "sources": {name: {"drafted": drafted, "accepted": accepted} for name, (drafted, accepted) in made.sources.items()},
        **({} if score is None else {"beams": beams, "score": score}),
    }
    answer(
        value, json_to, f"{watermark}\n{drafted.text}\n{watermark}\n{made.tokens} tokens, {made.verify_count} forward passes, {made.seconds:.2f} s"
    )


def _largest_series(folder: Path) -> tuple[list[Path], list[str]]:
    """Files and SOP UIDs of the series with the most files: localizers and dose pages are small."""
    from pydicom import dcmread

    series: dict[str, list[tuple[Path, str]]] = defaultdict(list)
    for path in sorted(folder.rglob("*.dcm")):
        ds = dcmread(path, specific_tags=["SeriesInstanceUID", "SOPInstanceUID"], stop_before_pixels=True)
        series[str(ds.get("SeriesInstanceUID", ""))].append((path, str(ds.get("SOPInstanceUID", ""))))
    largest = max(series.values(), key=len, default=[])
    return [path for path, _ in largest], [uid for _, uid in largest]


class Part(enum.StrEnum):
    """What is trained."""

    MODELS = "models"
    DENOISER = "denoiser"
    LATERALITY = "laterality"


MINUTES = {Part.MODELS: 75.0, Part.DENOISER: 12.0, Part.LATERALITY: 12.0}


@app.command()
def train(
    work: Annotated[Path, typer.Option(help="folder of phantoms, checkpoints and logs; a second run resumes there")] = Path(".ctreport/train"),
    seed: int = 1,
    budget_minutes: Annotated[
        float | None,
        typer.Option(min=0.05, help="minutes of processor time in all, of each of two; default: 75, for denoiser and laterality 12 of one"),
    ] = None,
    leg_minutes: Annotated[
        float, typer.Option(min=0.01, help="of encoder and language model: stop after so many of them; the next run goes on")
    ] = 29.0,
    part: Annotated[Part, typer.Option(help="encoder and language model; the two denoisers; or the classifier that checks sides")] = Part.MODELS,
    engine_out: Annotated[Path | None, typer.Option(help="where the language model goes; default: the package")] = None,
    encoder_out: Annotated[Path | None, typer.Option(help="where the encoder goes; default: the package")] = None,
    imaging_out: Annotated[Path | None, typer.Option(help="where denoisers and side check go; default: the package")] = None,
) -> None:
    """Train encoder and language model, or another part, on phantoms; resumes where an earlier run stopped."""
    from pipeline.encoder.compact import WEIGHTS as ENCODER_WEIGHTS
    from pipeline.engine.checkpoint import PACKAGED
    from pipeline.training.run import train as run

    began = time.monotonic()
    minutes = MINUTES[part] if budget_minutes is None else budget_minutes
    if part is Part.MODELS:
        done = run(work, engine_out or PACKAGED, encoder_out or ENCODER_WEIGHTS, seed=seed, budget_minutes=minutes, leg_minutes=leg_minutes)
        if not done:
            typer.echo(f"this leg has ended; run the same command again to go on from '{work}'")
            return
    else:
        _train_small(part, work, imaging_out, seed, minutes)
    typer.echo(f"trained in {(time.monotonic() - began) / 60:.1f} min")


def _train_small(part: Part, work: Path, out: Path | None, seed: int, minutes: float) -> None:
    from pipeline.imaging.packaged import PACKAGED
    from pipeline.training.denoise import train_denoiser
    from pipeline.training.laterality import train_laterality

    leg = train_denoiser if part is Part.DENOISER else train_laterality
    leg(work, out or PACKAGED, seed=seed, budget_minutes=minutes)
