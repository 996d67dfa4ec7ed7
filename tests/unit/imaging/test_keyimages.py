from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from PIL import Image, ImageDraw

from pipeline.imaging import marks
from pipeline.imaging.keyimages import BAR_PX, COLOURS, COLUMNS, REGION_COLOUR, TILE_PX, Chest, contact_sheet, labels, picture, slice_page
from pipeline.imaging.lungs import lungs_of
from pipeline.imaging.marks import CHINESE_FONTS, font, side_mark
from pipeline.imaging.regions import Region, candidate_regions
from pipeline.imaging.windows import LUNG, MEDIASTINUM
from pipeline.model import Side
from tests.chests import chest

MIDDLE = 30
WIDTH = 330


@pytest.fixture(scope="module")
def shown() -> Chest:
    volume, _ = chest(900_216)
    lungs = lungs_of(volume)
    assert lungs is not None
    return Chest(volume, lungs, candidate_regions(volume, lungs, 3))


def coloured(image: Image.Image, colour: str) -> np.ndarray:
    """Where a picture has just this colour, rows and columns; without the marks of sides and the words below."""
    values = np.asarray(image.convert("RGB"))
    own = tuple(int(colour[k : k + 2], 16) for k in (1, 3, 5))
    found = (values == np.array(own)).all(axis=-1)
    found[:40] = False
    return np.argwhere(found[:-BAR_PX])


def test_the_patients_right_is_on_the_left_of_the_picture(shown: Chest) -> None:
    drawn = picture(shown, MIDDLE, LUNG, WIDTH)
    right, left = (coloured(drawn, COLOURS[side])[:, 1] for side in (Side.RIGHT, Side.LEFT))
    assert 0 < right.mean() < WIDTH / 2 < left.mean() < WIDTH
    assert right.max() < left.min() + 20


def test_lungs_are_dark_in_the_lung_window_and_black_in_the_mediastinal_one(shown: Chest) -> None:
    x0, y0, x1, y1 = shown.view_mm
    row, column = round((0 - y0) / (y1 - y0) * 270), round((-75 - x0) / (x1 - x0) * WIDTH)
    lung, mediastinum = (
        np.asarray(picture(shown, 33, window, WIDTH))[row - 3 : row + 3, column - 3 : column + 3].mean() for window in (LUNG, MEDIASTINUM)
    )
    assert 20 < lung < 160
    assert mediastinum < lung


LEAN, TURN = np.radians(20.0), np.radians(-15.0)
WAYS = {
    "leaning slices": [[0, -np.sin(LEAN), np.cos(LEAN)], [0, np.cos(LEAN), np.sin(LEAN)], [1, 0, 0]],
    "slices turned in plane": [[0, 0, 1], [-np.sin(TURN), np.cos(TURN), 0], [np.cos(TURN), np.sin(TURN), 0]],
}


@pytest.mark.parametrize("axes", WAYS.values(), ids=WAYS)
def test_outlines_lie_around_the_lungs_however_the_slices_lie(axes: list[list[float]]) -> None:
    volume = replace(chest(900_216)[0], axes=np.array(axes, dtype=np.float64))
    lungs = lungs_of(volume)
    assert lungs is not None
    drawn = Chest(volume, lungs, ())
    values = np.asarray(picture(drawn, 36, LUNG, WIDTH))
    for colour in COLOURS.values():
        places = coloured(picture(drawn, 36, LUNG, WIDTH), colour)  # (N, 2)
        assert len(places) > 100
        (y, x), (rows, columns) = places.mean(axis=0).round().astype(int), np.ptp(places, axis=0) // 4
        assert values[y - rows : y + rows, x - columns : x + columns].mean() < 110  # lung, and nothing else, in the middle of its outline


def test_a_region_is_framed_in_the_slices_that_cut_it_only(shown: Chest) -> None:
    region = shown.regions[0]
    z = int(np.argmin(np.abs(shown.volume.origin_mm[2] + shown.volume.along_mm - region.center_mm[2])))
    assert len(coloured(picture(shown, z, LUNG, WIDTH), REGION_COLOUR)) > 20
    bare = replace(shown, regions=shown.regions[:1])
    assert len(coloured(picture(bare, (z + 25) % 60, LUNG, WIDTH), REGION_COLOUR)) == 0


def test_the_frame_stands_where_the_region_is(shown: Chest) -> None:
    region = shown.regions[0]
    z = int(np.argmin(np.abs(shown.volume.origin_mm[2] + shown.volume.along_mm - region.center_mm[2])))
    x0, y0, x1, _ = shown.view_mm
    scale = WIDTH / (x1 - x0)
    where = coloured(picture(replace(shown, regions=(region,)), z, LUNG, WIDTH), REGION_COLOUR)
    expected = (region.center_mm[1] - y0) * scale, (region.center_mm[0] - x0) * scale
    assert where[:, 0].min() < expected[0] < where[:, 0].max()
    assert where[:, 1].min() < expected[1] < where[:, 1].max()


def test_a_sheet_holds_two_windows_of_each_slice(shown: Chest) -> None:
    sheet = contact_sheet(shown, range(10, 10 + COLUMNS + 2))
    tile = picture(shown, 10, LUNG, TILE_PX)
    assert sheet.size == (COLUMNS * TILE_PX, BAR_PX + 4 * tile.size[1])
    assert np.asarray(sheet).std() > 20


def test_the_first_tile_of_a_sheet_is_nearest_to_the_head(shown: Chest) -> None:
    sheet, tile = contact_sheet(shown, (20, 40, 30)), picture(shown, 40, LUNG, TILE_PX)
    np.testing.assert_array_equal(np.asarray(sheet)[BAR_PX : BAR_PX + tile.size[1], :TILE_PX], np.asarray(tile))


def test_pictures_carry_pixels_and_nothing_else(shown: Chest) -> None:
    assert slice_page(shown, MIDDLE).info == {}
    assert contact_sheet(shown, (20, 30)).info == {}


def test_the_same_chest_gives_the_same_picture(shown: Chest) -> None:
    np.testing.assert_array_equal(np.asarray(slice_page(shown, MIDDLE)), np.asarray(slice_page(shown, MIDDLE)))


def test_marks_of_sides_differ_and_need_no_font_of_the_system() -> None:
    drawn = {}
    for side in Side:
        image = Image.new("L", (60, 30))
        side_mark(ImageDraw.Draw(image), (2, 2), side, 24, "#ffffff")
        drawn[side] = np.asarray(image)[:, 20:]  # right of the letter: the character
        assert drawn[side].mean() > 10
    assert np.abs(drawn[Side.LEFT].astype(int) - drawn[Side.RIGHT]).mean() > 5


def test_words_fall_back_to_latin_where_no_font_has_chinese(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marks, "CHINESE_FONTS", ("no-such-font.ttf",))
    font.cache_clear()
    assert not font(13)[1]
    font.cache_clear()
    assert len(set(CHINESE_FONTS)) == len(CHINESE_FONTS)


@pytest.mark.parametrize(
    ("kind", "chinese", "plain"),
    [
        ("结节", "2 结节 9 mm", "2 nodule 9 mm"),
        ("淋巴结", "2 淋巴结 9 mm", "2 node 9 mm"),
        ("血管瘤", "2 血管瘤 9 mm", "2 haemangioma 9 mm"),
        ("?", "2 ? 9 mm", "2 9 mm"),
    ],
)
def test_a_frame_is_labelled_with_number_kind_and_size(kind: str, chinese: str, plain: str) -> None:
    region = Region((0.0, 0.0, 0.0), (8.0, 9.2, 7.0), 0.5, kind)
    assert labels(2, region) == (chinese, plain)
