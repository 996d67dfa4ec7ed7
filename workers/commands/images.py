"""Commands about images that need no stack: what files hold."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from workers.commands.answer import Json, answer

if TYPE_CHECKING:
    from pipeline.imaging.survey import Surveyed

app = typer.Typer()


@app.command()
def volume(
    paths: Annotated[list[Path], typer.Argument(help="files or folders", exists=True)],
    json_to: Json = None,
) -> None:
    """What files hold: every stack, read in HU or refused, with reason, place and number; exit 1 when nothing is a volume."""
    from pipeline.imaging.survey import files_in, survey
    from pipeline.settings import settings

    room = settings().imaging
    found = survey(list(files_in(paths)), tilt=room.tilt, workers=room.workers or None, max_voxels=room.max_voxels)
    answer({"series": [one.as_json() for one in found]}, json_to, _text(found))
    raise typer.Exit(0 if any(one.accepted for one in found) else 1)


def _text(found: Sequence[Surveyed]) -> str:
    return "\n".join(line for one in found for line in _lines(one)) or "no file here"


def _lines(one: Surveyed) -> list[str]:
    """One stack: a line that says what it is, then its flags."""
    from pipeline.imaging.kinds import NAMES

    number = "-" if one.series_number is None else str(one.series_number)
    head = f"{'✓' if one.accepted else '✗'} 序列 {number}  {NAMES[one.kind]}  {one.images} 幅"
    if not one.accepted:
        return [f"{head}  {one.reason}", *(f"    {flag}" for flag in one.flags)]
    size = "×".join(map(str, one.shape))
    step = "×".join(f"{value:.3g}" for value in one.spacing_mm)
    return [f"{head}  {size}（层×行×列）  {step} mm  HU {one.hu_min:g} … {one.hu_max:g}", *(f"    {flag}" for flag in one.flags)]
