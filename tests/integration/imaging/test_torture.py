"""What PS3.3 and PS3.5 allow and real archives hold, in small: each trait alone, with the value that the standard's formula gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydicom import DataElement, Dataset, FileDataset
from pydicom.sequence import Sequence as Items
from pydicom.uid import ExplicitVRBigEndian, ImplicitVRLittleEndian

from pipeline.errors import Permanent, Unsupported
from pipeline.imaging.volume import read_volume
from tests.integration.imaging.stacks import (
    AIR_HU,
    COLUMNS,
    COUNT,
    ROWS,
    assert_hu,
    assert_places,
    hounsfield,
    read,
    refused,
    shuffled,
    stack,
    stored_values,
    words,
)

# ---- stored values


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("bits_stored", [12, 16])
@pytest.mark.parametrize("garbage", [False, True])
def test_bits_outside_the_stored_ones_count_for_nothing(tmp_path: Path, signed: bool, bits_stored: int, garbage: bool) -> None:
    pixels = words()
    if not garbage:
        pixels = (stored_values(pixels, bits_stored, signed) & 0xFFFF).astype(np.uint16)
    planes = stack(pixels, bits_stored=bits_stored, signed=signed, RescaleIntercept=-100.0)
    volume = read(tmp_path, planes)
    expected = hounsfield(stored_values(pixels, bits_stored, signed), intercept=-100.0)
    assert_hu(volume, planes, lambda number: expected[number])
    assert_places(volume, planes)


def test_whole_hu_are_int16_and_what_does_not_fit_is_float32(tmp_path: Path) -> None:
    low = read(tmp_path / "low", stack(words(high=4096)))
    high = read(tmp_path / "high", stack(words(low=60_000), RescaleIntercept=0.0))
    half = read(tmp_path / "half", stack(words(high=4096), RescaleSlope=0.5))
    assert [str(one.hu.dtype) for one in (low, high, half)] == ["int16", "float32", "float32"]


def test_a_slope_of_a_half_keeps_its_halves(tmp_path: Path) -> None:
    pixels = words(high=4096)
    planes = stack(pixels, RescaleSlope=0.5, RescaleIntercept=-1000.25)
    expected = hounsfield(stored_values(pixels, 16, False), 0.5, -1000.25)
    assert_hu(read(tmp_path, planes), planes, lambda number: expected[number])


def test_each_slice_has_its_own_slope_and_intercept(tmp_path: Path) -> None:
    pixels = words(high=2048)
    planes = stack(pixels, RescaleSlope=lambda index: 1 + index % 3, RescaleIntercept=lambda index: -1000 - index)
    stored = stored_values(pixels, 16, False)
    assert_hu(read(tmp_path, planes), planes, lambda number: hounsfield(stored[number], 1 + number % 3, -1000 - number))


def test_one_fractional_intercept_among_whole_ones_is_kept(tmp_path: Path) -> None:
    pixels = words(high=2048)
    planes = stack(pixels, RescaleIntercept=lambda index: -999.5 if index == 7 else -1000)
    stored = stored_values(pixels, 16, False)
    assert_hu(read(tmp_path, planes), planes, lambda number: hounsfield(stored[number], 1, -999.5 if number == 7 else -1000))


def test_without_a_slope_it_is_one(tmp_path: Path) -> None:
    pixels = words(high=2048)
    planes = stack(pixels)
    for ds in planes:
        del ds.RescaleSlope
    expected = hounsfield(stored_values(pixels, 16, False))
    assert_hu(read(tmp_path, planes), planes, lambda number: expected[number])


def test_stored_values_without_any_rescale_do_not_pass_for_hu_in_silence(tmp_path: Path) -> None:
    planes = stack(words(high=2048))
    for ds in planes:
        del ds.RescaleSlope, ds.RescaleIntercept
    try:
        volume = read(tmp_path, planes)
    except Unsupported as error:
        assert "Rescale" in str(error)  # noqa: PT017  # refused with a reason, or flagged
    else:
        assert any("Rescale" in flag for flag in volume.flags)


@pytest.mark.parametrize(("slope", "intercept"), [("0", "-1024"), ("nan", "-1024"), ("inf", "0"), ("1", "nan"), ("abc", "0"), ("1e30", "0")])
@pytest.mark.filterwarnings("ignore")  # pydicom warns of such a DS
def test_a_rescale_that_cannot_be_meant_is_refused(tmp_path: Path, slope: str, intercept: str) -> None:
    files = shuffled(tmp_path, stack(words(high=2048), RescaleSlope="7777.125", RescaleIntercept="5555.125"))
    for path in files:
        whole = path.read_bytes()
        path.write_bytes(whole.replace(b"7777.125", slope.encode().ljust(8)).replace(b"5555.125", intercept.encode().ljust(8)))
    with pytest.raises(Permanent, match=r"[Rr]escale"):
        read_volume(files)


@pytest.mark.parametrize("unit", ["HU", "US", ""])
def test_rescale_types_that_real_ct_series_carry_are_hu(tmp_path: Path, unit: str) -> None:
    pixels = words(high=2048)
    planes = stack(pixels, RescaleType=unit)
    expected = hounsfield(stored_values(pixels, 16, False))
    assert_hu(read(tmp_path, planes), planes, lambda number: expected[number])


@pytest.mark.parametrize("unit", ["MGML", "PCT", "Z_EFF", "ED", "OD", "HU_MOD"])
def test_another_unit_is_refused_by_its_name(tmp_path: Path, unit: str) -> None:
    assert unit in refused(tmp_path, stack(RescaleType=unit), "HU", kind=Unsupported)


@pytest.mark.parametrize("unit", ["MGML", "Z_EFF"])
def test_one_slice_in_another_unit_does_not_slip_through(tmp_path: Path, unit: str) -> None:
    planes = stack(RescaleType=lambda index: unit if index == 5 else "HU")
    assert unit in refused(tmp_path, planes, "HU", kind=Unsupported)


# ---- padding


@pytest.mark.parametrize("vr", ["US", "SS"])
@pytest.mark.parametrize("signed", [False, True])
def test_padding_becomes_air_in_either_vr(tmp_path: Path, vr: str, signed: bool) -> None:
    pixels = words(high=2048)
    pattern = 63_536  # −2000 in two's complement
    pixels[:, 0, :] = pattern
    planes = stack(pixels, signed=signed, RescaleIntercept=0.0)
    for ds in planes:
        ds[0x00280120] = DataElement(0x00280120, vr, pattern if vr == "US" else pattern - 65_536)
    expected = hounsfield(stored_values(pixels, 16, signed), intercept=0.0)
    expected[:, 0, :] = AIR_HU
    assert_hu(read(tmp_path, planes), planes, lambda number: expected[number])


@pytest.mark.parametrize(("value", "limit"), [(3000, 3100), (3100, 3000), (3000, 3000)])
def test_every_value_of_a_padding_range_becomes_air(tmp_path: Path, value: int, limit: int) -> None:
    pixels = words(low=2900, high=3200)
    planes = stack(pixels, PixelPaddingValue=value, PixelPaddingRangeLimit=limit)
    stored = stored_values(pixels, 16, False)
    padding = (stored >= min(value, limit)) & (stored <= max(value, limit))
    assert padding.any()
    expected = np.where(padding, AIR_HU, hounsfield(stored))
    assert_hu(read(tmp_path, planes), planes, lambda number: expected[number])


def test_a_padding_value_of_one_slice_is_no_padding_in_the_others(tmp_path: Path) -> None:
    pixels = words(low=2990, high=3010)
    planes = stack(pixels)
    planes[4].PixelPaddingValue = 3000
    expected = hounsfield(stored_values(pixels, 16, False))
    expected[4][stored_values(pixels, 16, False)[4] == 3000] = AIR_HU
    assert_hu(read(tmp_path, planes), planes, lambda number: expected[number])


@pytest.mark.parametrize("mark", [-2000, -3024])
def test_the_marks_of_the_outside_of_the_field_of_view_become_air(tmp_path: Path, mark: int) -> None:
    pixels = words(high=2048)
    pixels[:, :2, :2] = (mark + 1024) & 0xFFFF
    planes = stack(pixels, signed=True)
    expected = hounsfield(stored_values(pixels, 16, True))
    assert (expected[:, :2, :2] == AIR_HU).all()
    assert_hu(read(tmp_path, planes), planes, lambda number: expected[number])


def test_air_in_the_field_of_view_is_no_padding(tmp_path: Path) -> None:
    pixels = np.full((COUNT, ROWS, COLUMNS), 24, dtype=np.uint16)
    planes = stack(pixels, PixelPaddingValue=0)
    assert (read(tmp_path, planes).hu == -1000).all()


# ---- Modality LUT (PS3.3 C.11.1)


@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize(("first", "signed"), [(0, False), (100, False), (-50, True)])
def test_a_modality_lut_maps_from_its_first_value_and_repeats_its_ends(tmp_path: Path, bits: int, first: int, signed: bool) -> None:
    pixels = (np.random.default_rng(5).integers(first - 30, first + 230, (COUNT, ROWS, COLUMNS)) & 0xFFFF).astype(np.uint16)
    table = np.random.default_rng(6).integers(0, 200 if bits == 8 else 3000, 200)
    planes = stack(pixels, signed=signed)
    for ds in planes:
        _put_lut(ds, first, signed, bits, table)
    stored = stored_values(pixels, 16, signed)
    if not signed:
        stored = pixels.astype(np.int64)
    expected = table[np.clip(stored - first, 0, len(table) - 1)]
    assert_hu(read(tmp_path, planes), planes, lambda number: expected[number])


def test_a_modality_lut_of_65536_entries_says_so_with_0(tmp_path: Path) -> None:
    pixels = words(high=1 << 16)
    table = np.arange(1 << 16)[::-1] // 20
    planes = stack(pixels)
    for ds in planes:
        _put_lut(ds, 0, False, 16, table)
    assert_hu(read(tmp_path, planes), planes, lambda number: table[pixels[number].astype(np.int64)])


def test_a_modality_lut_in_another_unit_is_refused(tmp_path: Path) -> None:
    planes = stack(words(high=200))
    for ds in planes:
        _put_lut(ds, 0, False, 16, np.arange(200), unit="OD")
    assert "OD" in refused(tmp_path, planes, "HU", kind=Unsupported)


@pytest.mark.parametrize("entries", [0, 199])
def test_a_modality_lut_with_too_few_entries_is_refused(tmp_path: Path, entries: int) -> None:
    planes = stack(words(high=200))
    for ds in planes:
        _put_lut(ds, 0, False, 16, np.arange(200))
        ds.ModalityLUTSequence[0].LUTData = ds.ModalityLUTSequence[0].LUTData[: 2 * entries]
    refused(tmp_path, planes, "LUT")


def _put_lut(ds: FileDataset, first: int, signed: bool, bits: int, table: np.ndarray[Any, Any], unit: str = "HU") -> None:
    item = Dataset()
    item.add(DataElement(0x00283002, "SS" if signed else "US", [len(table) % 65_536, first, bits]))
    item.ModalityLUTType = unit
    item.add(DataElement(0x00283006, "OW", table.astype("<u2").tobytes()))
    ds.ModalityLUTSequence = Items([item])
    del ds.RescaleSlope, ds.RescaleIntercept, ds.RescaleType


# ---- encodings


def test_monochrome1_says_how_to_show_not_what_is_stored(tmp_path: Path) -> None:
    pixels = words(high=4096)
    planes = stack(pixels, PhotometricInterpretation="MONOCHROME1")
    expected = hounsfield(stored_values(pixels, 16, False))
    assert_hu(read(tmp_path, planes), planes, lambda number: expected[number])


@pytest.mark.parametrize("colour", ["RGB", "PALETTE COLOR", "YBR_FULL"])
def test_colours_are_no_hu(tmp_path: Path, colour: str) -> None:
    refused(tmp_path, stack(PhotometricInterpretation=colour), "PhotometricInterpretation", colour)


@pytest.mark.parametrize("syntax", [ExplicitVRBigEndian, ImplicitVRLittleEndian])
@pytest.mark.filterwarnings("ignore")  # pydicom says that big endian is retired
def test_other_native_syntaxes_give_the_same_hu(tmp_path: Path, syntax: Any) -> None:
    pixels = words(high=4096)
    planes = stack(pixels)
    files = [tmp_path / f"{index:02d}.dcm" for index in range(len(planes))]
    for ds, path in zip(planes, files, strict=True):
        ds.file_meta.TransferSyntaxUID = syntax
        big = syntax == ExplicitVRBigEndian
        if big:
            ds.PixelData = pixels[int(path.stem)].astype(">u2").tobytes()
        fresh = Dataset({element.tag: element for element in ds})
        fresh.file_meta = ds.file_meta
        fresh.save_as(path, implicit_vr=syntax == ImplicitVRLittleEndian, little_endian=not big, enforce_file_format=True)
    expected = hounsfield(stored_values(pixels, 16, False))
    assert_hu(read_volume(files[::-1]), planes, lambda number: expected[number])


def test_eight_bits_of_an_odd_number_of_pixels_are_read_without_their_padding_byte(tmp_path: Path) -> None:
    pixels = np.random.default_rng(2).integers(0, 256, (COUNT, 5, 7), dtype=np.uint16)
    planes = stack(pixels, bits_stored=8, RescaleSlope=10.0, RescaleIntercept=-1000.0)
    for index, ds in enumerate(planes):
        ds.BitsAllocated = 8
        ds.PixelData = pixels[index].astype(np.uint8).tobytes() + b"\0"
        ds["PixelData"].VR = "OB"
    expected = hounsfield(stored_values(pixels, 8, False), 10.0, -1000.0)
    assert_hu(read(tmp_path, planes), planes, lambda number: expected[number])


@pytest.mark.parametrize("lacking", [2, 4, ROWS * COLUMNS, 2 * ROWS * COLUMNS])
@pytest.mark.filterwarnings("ignore")
def test_too_few_bytes_of_pixels_are_refused_not_filled_up(tmp_path: Path, lacking: int) -> None:
    planes = stack()
    planes[6].PixelData = planes[6].PixelData[:-lacking]
    files = [tmp_path / f"{index}.dcm" for index in range(len(planes))]
    for ds, path in zip(planes, files, strict=True):
        ds.save_as(path, enforce_file_format=True)
    with pytest.raises(Permanent, match=r"\S{6,}"):
        read_volume(files)


def test_bytes_after_the_last_pixel_are_left_alone(tmp_path: Path) -> None:
    pixels = words(high=4096)
    planes = stack(pixels)
    for ds in planes:
        ds.PixelData += b"\x7f\x7f" * 3
    expected = hounsfield(stored_values(pixels, 16, False))
    assert_hu(read(tmp_path, planes), planes, lambda number: expected[number])
