"""The command that draws key images; it needs no stack."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipeline.errors import Permanent, Unsupported
from workers.commands.answer import Json, answer

if TYPE_CHECKING:
    from pipeline.imaging.frames import Frame
    from pipeline.imaging.keyimages import Chest

app = typer.Typer()
REGIONS = 8


@app.command()
def keyimages(
    path: Annotated[Path, typer.Argument(help="folder of one study, or files of it", exists=True)],
    out: Annotated[Path, typer.Option(help="folder that the PNG files are written to")] = Path("keyimages"),
    count: Annotated[int, typer.Option(min=0, help="slices; 0 shows all")] = 12,
    json_to: Json = None,
) -> None:
    """Pictures of the key slices of a chest: one sheet, and one page for each slice; exit 1 when there is no chest to show."""
    from pipeline.imaging.coverage import organs_shown
    from pipeline.imaging.keyimages import contact_sheet, slice_page
    from pipeline.imaging.keyslices import key_slices

    chest = _chest(path)
    slices = key_slices(chest.volume, chest.lungs, chest.regions, count)
    out.mkdir(parents=True, exist_ok=True)
    for earlier in out.glob("slice-[0-9][0-9][0-9][0-9].png"):  # of another study, maybe of another patient
        earlier.unlink()
    contact_sheet(chest, slices).save(out / "sheet.png")
    for z in slices:
        slice_page(chest, z).save(out / _name(chest, z))
    told = _told(chest, slices, organs_shown(chest.volume, chest.lungs))
    answer({"sheet": "sheet.png", **told}, json_to, _text(out, told))


def _chest(path: Path) -> Chest:
    """The largest stack of a study that is a chest. Raises Unsupported with the reasons of the others."""
    from pipeline.imaging.frames import frames_of
    from pipeline.imaging.keyimages import Chest
    from pipeline.imaging.lungs import lungs_of
    from pipeline.imaging.regions import candidate_regions
    from pipeline.imaging.stack import stacks_of
    from pipeline.imaging.survey import files_in
    from pipeline.imaging.upright import upright
    from pipeline.imaging.volume import read_stack
    from pipeline.settings import settings

    room = settings().imaging
    frames: list[Frame] = []
    reasons: list[str] = []
    for file in files_in([path]):
        try:
            frames += frames_of(file)
        except Permanent as error:
            reasons.append(str(error))
    for stack in stacks_of(frames):
        try:
            volume = upright(read_stack(stack, tilt=room.tilt, workers=room.workers or None, max_voxels=room.max_voxels))
        except Permanent as error:
            reasons.append(str(error))
            continue
        if (lungs := lungs_of(volume)) is not None:
            return Chest(volume, lungs, candidate_regions(volume, lungs, REGIONS))
        reasons.append("容积内未找到双肺")
    raise Unsupported(f"没有可显示的胸部容积（{'；'.join(dict.fromkeys(reasons)) or '没有 DICOM 图像'}）；请给出一个胸部 CT 检查的文件夹")


def _name(chest: Chest, z: int) -> str:
    """Counted from the head, as scanners count."""
    return f"slice-{len(chest.volume.hu) - z:04d}.png"


def _told(chest: Chest, slices: Sequence[int], covers: Sequence[str]) -> dict[str, Any]:
    from pipeline.imaging.keyslices import heights_mm

    heights, lungs = heights_mm(chest.volume), chest.lungs
    return {
        "slices": [{"file": _name(chest, z), "number": len(heights) - z, "z_mm": round(float(heights[z]), 2)} for z in sorted(slices, reverse=True)],
        "regions": [
            {"number": n, "kind": r.kind, "side": lungs.side_of(r.center_mm).value, "center_mm": r.center_mm, "size_mm": r.size_mm, "score": r.score}
            for n, r in enumerate(chest.regions, 1)
        ],
        "lungs": {"right_ml": round(lungs.right_ml), "left_ml": round(lungs.left_ml), "midline_mm": round(lungs.midline_mm, 1)},
        "covers": list(covers),
        "flags": [*chest.volume.flags, *lungs.flags],
    }


def _text(out: Path, told: dict[str, Any]) -> str:
    lines = [f"{out / 'sheet.png'}：{len(told['slices'])} 层；右肺 {told['lungs']['right_ml']} ml，左肺 {told['lungs']['left_ml']} ml"]
    lines += [f"  {r['number']}  {r['side']}  {r['kind']}  {max(r['size_mm']):g} mm  z {r['center_mm'][2]:+.1f} mm" for r in told["regions"]]
    return "\n".join([*lines, *(f"  {flag}" for flag in told["flags"])])
