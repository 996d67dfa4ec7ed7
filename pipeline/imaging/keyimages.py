"""Key slices as pictures that a person looks at: two windows, both lungs in outline, candidate regions framed, the patient's right on the left.

Nothing of the patient or of the objects is written into them: places in mm and numbers of slices only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw
from scipy import ndimage

from pipeline.imaging.grid import bounds
from pipeline.imaging.keyslices import heights_mm, in_slice
from pipeline.imaging.lungs import Lungs
from pipeline.imaging.marks import side_mark, write
from pipeline.imaging.regions import CONSOLIDATION, Region
from pipeline.imaging.volume import Volume
from pipeline.imaging.windows import LUNG, MEDIASTINUM, Window, to_gray
from pipeline.model import Side

RIGHT_COLOUR, LEFT_COLOUR, REGION_COLOUR, TEXT_COLOUR, BACK = "#4fc3f7", "#ffb74d", "#ffee58", "#e0e0e0", "#000000"
COLOURS = {Side.RIGHT: RIGHT_COLOUR, Side.LEFT: LEFT_COLOUR}
BODY_MM = 55.0  # around the lungs, in plane
COLUMNS = 6
TILE_PX, SINGLE_PX = 330, 820  # width of one picture
BAR_PX = 26  # line of words
FRAME_MM = 4.0  # between a region and its frame
ENGLISH = {LUNG.name: "LUNG", MEDIASTINUM.name: "MEDIASTINUM"}
KINDS = {"结节": "nodule", "实变": "consolidation", "淋巴结": "node", "囊肿": "cyst", "血管瘤": "haemangioma", "低密度灶": "hypodense"}
WINDOWS = (LUNG, MEDIASTINUM)
NOT_FOR_DIAGNOSIS = ("自动选层，供参考，非诊断图像", "chosen automatically, for orientation, not for diagnosis")

Mask = NDArray[np.bool_]
Places = NDArray[np.float64]


@dataclass(frozen=True)
class Chest:
    """An upright volume and what was seen in it."""

    volume: Volume  # axes superior, posterior, left
    lungs: Lungs
    regions: tuple[Region, ...]

    @property
    def view_mm(self) -> tuple[float, float, float, float]:
        """Low x, low y, high x, high y of what is shown: the chest around the lungs, no more than the slices hold."""
        (x0, y0, _), (x1, y1, _) = self.lungs.box_mm
        (left, top, _), (right, bottom, _) = (tuple(map(float, corner)) for corner in bounds(self.volume))
        return max(left, x0 - BODY_MM), max(top, y0 - BODY_MM), min(right, x1 + BODY_MM), min(bottom, y1 + BODY_MM)


def contact_sheet(chest: Chest, slices: Sequence[int]) -> Image.Image:
    """Every slice as a small picture, head first: a row in the lung window above the same slices in the mediastinal one."""
    order = sorted(slices, reverse=True)
    rows = [order[start : start + COLUMNS] for start in range(0, len(order), COLUMNS)]
    height = _height(chest, TILE_PX)
    sheet = Image.new("RGB", (COLUMNS * TILE_PX if len(rows) > 1 else len(order) * TILE_PX, BAR_PX + len(rows) * 2 * height), BACK)
    _headline(sheet, chest, len(order))
    for number, row in enumerate(rows):
        for half, window in enumerate(WINDOWS):
            for column, z in enumerate(row):
                sheet.paste(picture(chest, z, window, TILE_PX), (column * TILE_PX, BAR_PX + (2 * number + half) * height))
    return sheet


def slice_page(chest: Chest, z: int) -> Image.Image:
    """One slice large, in both windows side by side."""
    page = Image.new("RGB", (SINGLE_PX * len(WINDOWS), _height(chest, SINGLE_PX)), BACK)
    for column, window in enumerate(WINDOWS):
        page.paste(picture(chest, z, window, SINGLE_PX), (column * SINGLE_PX, 0))
    return page


def picture(chest: Chest, z: int, window: Window, width_px: int) -> Image.Image:
    """One slice in one window, with outlines, frames, marks of sides and a line of words below."""
    places = _places(chest, width_px)
    points = in_slice(chest.volume, z, *places)  # (H, W, 3)
    gray = to_gray(_plane(chest.volume, z, points), window)  # (H, W)
    colours = np.repeat(gray[..., None], 3, axis=2)  # (H, W, 3)
    for side, mask in ((Side.RIGHT, chest.lungs.right), (Side.LEFT, chest.lungs.left)):
        colours[_outline(chest.lungs, mask, points)] = _rgb(COLOURS[side])
    drawn = Image.new("RGB", (width_px, _height(chest, width_px)), BACK)
    drawn.paste(Image.fromarray(colours), (0, 0))
    draw = ImageDraw.Draw(drawn)
    _frames(draw, chest, z, width_px)
    _sides(draw, width_px)
    _caption(draw, chest, z, window, width_px)
    return drawn


def _scale(chest: Chest, width_px: int) -> float:
    x0, _, x1, _ = chest.view_mm
    return width_px / (x1 - x0)


def _height(chest: Chest, width_px: int) -> int:
    _, y0, _, y1 = chest.view_mm
    return round((y1 - y0) * _scale(chest, width_px)) + BAR_PX


def _places(chest: Chest, width_px: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Patient y of each row of pixels and x of each column."""
    x0, y0, _, _ = chest.view_mm
    scale = _scale(chest, width_px)
    rows, columns = (np.arange(count, dtype=np.float64) for count in (_height(chest, width_px) - BAR_PX, width_px))
    return np.asarray(y0 + (rows + 0.5) / scale, dtype=np.float64), np.asarray(x0 + (columns + 0.5) / scale, dtype=np.float64)


def _plane(volume: Volume, z: int, points_mm: Places) -> NDArray[np.float32]:
    """The slice at the pixels' places, (H, W): softened first where a pixel holds several voxels, for specks of noise would fold back."""
    plane = volume.hu[z].astype(np.float32)
    wide = (points_mm[1, 0, 1] - points_mm[0, 0, 1]) / volume.spacing_mm[1], (points_mm[0, 1, 0] - points_mm[0, 0, 0]) / volume.spacing_mm[2]
    soft = ndimage.gaussian_filter(plane, [0.4 * max(0.0, w - 1) for w in wide], mode="nearest")
    at = np.moveaxis(volume.to_index(points_mm)[..., 1:], -1, 0)  # (2, H, W)
    return np.asarray(ndimage.map_coordinates(soft, at, order=1, mode="nearest"), dtype=np.float32)


def _outline(lungs: Lungs, mask: Mask, points_mm: Places) -> Mask:
    """The border of a lung in a slice, one pixel thin, (H, W)."""
    at = np.moveaxis(((points_mm - np.array(lungs.low_mm)) / np.array(lungs.step_mm)[::-1])[..., ::-1], -1, 0)  # (3, H, W)
    at[0] = np.rint(at[0])
    low, high = max(0, int(at[0].min())), min(len(mask), int(at[0].max()) + 1)
    if low >= high:
        return np.zeros(points_mm.shape[:2], dtype=bool)
    smooth = ndimage.gaussian_filter(mask[low:high].astype(np.float32), [0, 0.6, 0.6])
    inside = ndimage.map_coordinates(smooth, at - np.array([low, 0, 0])[:, None, None], order=1, mode="constant") > 0.5
    return np.asarray(inside & ~ndimage.binary_erosion(inside))


def _frames(draw: ImageDraw.ImageDraw, chest: Chest, z: int, width_px: int) -> None:
    """A frame with its number around each region that this slice cuts."""
    x0, y0, _, _ = chest.view_mm
    scale = _scale(chest, width_px)
    volume, reach = chest.volume, chest.volume.spacing_mm[0] / 2
    for number, region in enumerate(chest.regions, 1):
        x, y, _ = region.center_mm
        along_mm = float((np.asarray(region.center_mm) - np.asarray(volume.origin_mm)) @ volume.axes[0])
        if abs(along_mm - volume.along_mm[z]) > region.size_mm[2] / 2 + reach:
            continue
        half = [size / 2 + FRAME_MM for size in region.size_mm[:2]]
        box = ((x - half[0] - x0) * scale, (y - half[1] - y0) * scale, (x + half[0] - x0) * scale, (y + half[1] - y0) * scale)
        draw.rectangle(box, outline=REGION_COLOUR, width=2 if region.kind == CONSOLIDATION else 1)
        chinese, plain = labels(number, region) if width_px >= SINGLE_PX else (str(number), str(number))
        write(draw, (box[2] + 3, box[1]), chinese, plain, 13 if width_px < SINGLE_PX else 18, REGION_COLOUR)


def labels(number: int, region: Region) -> tuple[str, str]:
    """Number, kind and size, in Chinese and without."""
    size = f"{max(region.size_mm):.0f} mm"
    return f"{number} {region.kind} {size}", " ".join(filter(None, (str(number), KINDS.get(region.kind, ""), size)))


def _sides(draw: ImageDraw.ImageDraw, width_px: int) -> None:
    """The patient's right on the left of the picture: said on both sides."""
    size = 16 if width_px < SINGLE_PX else 26
    side_mark(draw, (5, 4), Side.RIGHT, size, RIGHT_COLOUR)
    side_mark(draw, (width_px - 5 - 1.8 * size, 4), Side.LEFT, size, LEFT_COLOUR)


def _caption(draw: ImageDraw.ImageDraw, chest: Chest, z: int, window: Window, width_px: int) -> None:
    """Number of the slice from the head, its place and the window, below the picture."""
    total = len(chest.volume.hu)
    place = f"z {heights_mm(chest.volume)[z]:+.1f} mm"
    shown = f"W{window.width_hu:g} L{window.center_hu:g}"
    chinese = f"{total - z}/{total}  {place}  {window.name} {shown}"
    plain = f"{total - z}/{total}  {place}  {ENGLISH[window.name]} {shown}"
    top = _height(chest, width_px) - BAR_PX
    write(draw, (5, top + 5), chinese, plain, 13, TEXT_COLOUR)
    _scale_bar(draw, (width_px - 6, top - 6), 50.0 * _scale(chest, width_px))


def _scale_bar(draw: ImageDraw.ImageDraw, end: tuple[float, float], length_px: float) -> None:
    """5 cm, its right end at a place."""
    x, y = end
    draw.line([(x - length_px, y - 4), (x - length_px, y), (x, y), (x, y - 4)], fill=TEXT_COLOUR, width=1)
    write(draw, (x - length_px / 2, y - 3), "5 cm", "5 cm", 12, TEXT_COLOUR, anchor="mb")


def _headline(sheet: Image.Image, chest: Chest, count: int) -> None:
    total, found = len(chest.volume.hu), len(chest.regions)
    right, left = (f"{ml:.0f} ml" for ml in (chest.lungs.right_ml, chest.lungs.left_ml))
    chinese = f"关键层面 {count}/{total}   右肺 {right}  左肺 {left}   候选区 {found}   {NOT_FOR_DIAGNOSIS[0]}"
    plain = f"key slices {count} of {total}   right lung {right}  left lung {left}   regions {found}   {NOT_FOR_DIAGNOSIS[1]}"
    write(ImageDraw.Draw(sheet), (6, 5), chinese, plain, 14, TEXT_COLOUR)


def _rgb(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)
