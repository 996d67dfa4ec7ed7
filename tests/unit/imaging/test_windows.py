from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydicom import Dataset, Sequence
from pydicom.pixels.processing import apply_voi, apply_windowing

from pipeline.errors import BadInput
from pipeline.imaging.windows import BONE, LIVER, LUNG, MEDIASTINUM, FileLut, FileWindow, VoiFunction, Window, file_windows, to_gray

VALUES = st.floats(-3000, 4000, width=32)
CENTERS = st.floats(-1000, 1000)


def linear(x: float, center: float, width: float) -> float:
    """PS3.3 C.11.2.1.2.1, letter by letter, for an output of 0…1."""
    if x <= center - 0.5 - (width - 1) / 2:
        return 0.0
    if x > center - 0.5 + (width - 1) / 2:
        return 1.0
    return (x - (center - 0.5)) / (width - 1) + 0.5


def linear_exact(x: float, center: float, width: float) -> float:
    """PS3.3 C.11.2.1.3.2."""
    if x <= center - width / 2:
        return 0.0
    if x > center + width / 2:
        return 1.0
    return (x - center) / width + 0.5


def sigmoid(x: float, center: float, width: float) -> float:
    """PS3.3 C.11.2.1.3.1."""
    exponent = -4 * (x - center) / width
    return 0.0 if exponent > 700 else 1 / (1 + math.exp(exponent))


BY_THE_STANDARD = {VoiFunction.LINEAR: linear, VoiFunction.LINEAR_EXACT: linear_exact, VoiFunction.SIGMOID: sigmoid}


@given(VALUES, CENTERS, st.floats(2, 4000))
def test_a_window_follows_the_standard(x: float, center: float, width: float) -> None:
    found = Window("any", center, width).apply(np.array([x], dtype=np.float32))[0]
    assert found == pytest.approx(linear(x, center, width), abs=2e-3)


@given(VALUES, CENTERS, st.floats(2, 4000), st.sampled_from(VoiFunction))
def test_a_file_window_follows_the_standard_in_each_function(x: float, center: float, width: float, function: VoiFunction) -> None:
    found = FileWindow("", center, width, function).apply(np.array([x], dtype=np.float32))[0]
    assert found == pytest.approx(BY_THE_STANDARD[function](x, center, width), abs=2e-3)


@given(st.integers(-1024, 3071), st.integers(-1000, 1000), st.integers(1, 4000), st.sampled_from(VoiFunction))
def test_whole_values_give_the_shade_that_pydicom_gives(x: int, center: int, width: int, function: VoiFunction) -> None:
    ds = with_window(center, width, VOILUTFunction=function.value)
    ds.BitsStored, ds.PixelRepresentation, ds.PhotometricInterpretation = 16, 1, "MONOCHROME2"
    ds.RescaleSlope, ds.RescaleIntercept = 1, 0
    with np.errstate(over="ignore"):  # theirs overflows far from the centre of a narrow sigmoid, to the right answer
        theirs = (float(apply_windowing(np.array([x], dtype=np.float64), ds)[0]) + 32768) / 65535
    [window] = file_windows(ds)
    assert window.apply(np.array([x], dtype=np.int16))[0] == pytest.approx(theirs, abs=1e-4)


def with_window(center: object, width: object, **more: object) -> Dataset:
    ds = Dataset()
    ds.WindowCenter, ds.WindowWidth = center, width
    for keyword, value in more.items():
        setattr(ds, keyword, value)
    return ds


def test_named_windows_have_their_usual_values() -> None:
    assert [(w.width_hu, w.center_hu) for w in (LUNG, MEDIASTINUM, BONE, LIVER)] == [(1500, -600), (350, 40), (1500, 450), (150, 60)]


def test_gray_runs_from_0_to_255_and_is_the_same_for_whole_and_broken_numbers() -> None:
    hu = np.arange(-1400, 3071, dtype=np.int16)
    shades = to_gray(hu, LUNG)
    assert shades.dtype == np.uint8
    assert (int(shades[0]), int(shades[-1])) == (0, 255)
    assert (np.diff(shades.astype(int)) >= 0).all()
    np.testing.assert_array_equal(shades, to_gray(hu.astype(np.float32), LUNG))


@given(st.integers(-1024, 3071))
def test_gray_is_the_nearest_shade_of_the_formula(x: int) -> None:
    assert int(to_gray(np.array([x], dtype=np.int16), MEDIASTINUM)[0]) == pytest.approx(linear(x, 40, 350) * 255, abs=0.51)


def test_a_width_of_one_is_a_threshold() -> None:
    assert Window("any", 40, 1).apply(np.array([39, 40], dtype=np.int16)).tolist() == [0.0, 1.0]


@pytest.mark.parametrize("width", [0, 0.5, -100, float("nan"), float("inf")])
def test_a_width_that_makes_no_sense_cannot_be_built(width: float) -> None:
    with pytest.raises(ValueError, match="width"):
        Window("any", 40, width)


def test_exact_and_sigmoid_widths_may_lie_below_one() -> None:
    assert FileWindow("", 0.0, 0.5, VoiFunction.LINEAR_EXACT).width == 0.5
    with pytest.raises(ValueError, match="above 0"):
        FileWindow("", 0.0, 0.0, VoiFunction.SIGMOID)


def test_a_file_may_have_several_windows_with_explanations() -> None:
    windows = file_windows(with_window([-600, 40], [1500, 350], WindowCenterWidthExplanation=["LUNG", "MEDIASTINUM"]))
    assert windows == (FileWindow("LUNG", -600, 1500, VoiFunction.LINEAR), FileWindow("MEDIASTINUM", 40, 350, VoiFunction.LINEAR))


def test_a_file_without_a_window_has_none() -> None:
    assert file_windows(Dataset()) == ()


@pytest.mark.parametrize("ds", [with_window(40, 0), with_window([40, 50], 350), with_window(40, 350, VOILUTFunction="CUBIC")], ids="wcf")
def test_a_file_window_that_makes_no_sense_is_refused_with_the_next_step(ds: Dataset) -> None:
    with pytest.raises(BadInput, match="named window"):
        file_windows(ds)


def with_lut(count: int, first: int, bits: int, data: object) -> Dataset:
    item = Dataset()
    item.add_new("LUTDescriptor", "SS", [count, first, bits])
    item.LUTExplanation = "own curve"
    item.add_new("LUTData", "OW" if isinstance(data, bytes) else "US", data)
    ds = Dataset()
    ds.VOILUTSequence = Sequence([item])
    return ds


def test_a_look_up_table_maps_by_its_first_value_and_ends_at_its_borders() -> None:
    [lut] = file_windows(with_lut(4, -100, 8, [0, 51, 102, 255]))
    assert isinstance(lut, FileLut)
    found = lut.apply(np.array([-1000, -100, -99, -98, -97, 500], dtype=np.int16))
    assert found.tolist() == pytest.approx([0, 0, 0.2, 0.4, 1, 1])


@given(st.integers(10, 16), st.integers(2, 300), st.integers(-500, 500), st.integers(0, 2**32 - 1))
def test_a_look_up_table_of_more_than_8_bits_gives_what_pydicom_gives(bits: int, count: int, first: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    data = rng.integers(0, 2**bits, count).tolist()
    x = rng.integers(-1024, 3071, 50).astype(np.int16)
    ds = with_lut(count, first, bits, data)
    theirs = apply_voi(x, ds).astype(float) / (2**bits - 1)
    np.testing.assert_allclose(file_windows(ds)[0].apply(x), theirs, atol=1e-6)


@pytest.mark.parametrize(("bits", "data"), [(8, bytes([0, 51, 102, 255])), (12, np.array([0, 819, 1638, 4095], "<u2").tobytes())])
def test_a_look_up_table_may_come_as_bytes(bits: int, data: bytes) -> None:
    [lut] = file_windows(with_lut(4, 0, bits, data))
    assert isinstance(lut, FileLut)
    assert lut.entries.tolist() == pytest.approx([0, 0.2, 0.4, 1], abs=1e-3)


@pytest.mark.parametrize("ds", [with_lut(5, 0, 8, [1, 2, 3]), with_lut(3, 0, 40, [1, 2, 3])], ids=["count", "bits"])
def test_a_look_up_table_that_contradicts_itself_is_refused(ds: Dataset) -> None:
    with pytest.raises(BadInput, match="VOI LUT 1"):
        file_windows(ds)


def test_each_frame_of_an_enhanced_image_may_have_its_own_window() -> None:
    ds, shared, own = Dataset(), Dataset(), Dataset()
    shared.FrameVOILUTSequence = Sequence([with_window(40, 350)])
    own.FrameVOILUTSequence = Sequence([with_window(-600, 1500)])
    ds.SharedFunctionalGroupsSequence = Sequence([shared])
    ds.PerFrameFunctionalGroupsSequence = Sequence([Dataset(), own])
    assert [[w.center for w in file_windows(ds, frame) if isinstance(w, FileWindow)] for frame in (1, 2)] == [[40], [-600]]
