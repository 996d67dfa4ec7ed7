"""Where planes may stand, by PS3.3 and in real archives, in small: what is read in its place, what is told, what is refused."""

from __future__ import annotations

import itertools
import re
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydicom import FileDataset
from pydicom.uid import UID, MRImageStorage, PositronEmissionTomographyImageStorage, generate_uid

from pipeline.errors import Permanent, Unsupported
from pipeline.imaging.survey import survey
from pipeline.imaging.volume import read_volume
from tests.integration.imaging.stacks import (
    BETWEEN_COLUMNS_MM,
    BETWEEN_ROWS_MM,
    COLUMNS,
    COUNT,
    NEAR_MM,
    ORIGIN_MM,
    ROWS,
    STEP_MM,
    assert_hu,
    assert_places,
    hounsfield,
    place_mm,
    read,
    refused,
    shuffled,
    stack,
    stored_values,
    words,
)

# ---- places


AXES = [tuple(sign * value for value in unit) for unit in ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)) for sign in (1, -1)]
ORIENTATIONS = [(*row, *column) for row, column in itertools.permutations(AXES, 2) if not np.dot(row, column)]


def test_there_are_24_ways_along_the_axes() -> None:
    assert len(set(ORIENTATIONS)) == 24


@pytest.mark.parametrize("cosines", ORIENTATIONS)
def test_each_way_along_the_axes_is_read_in_place_with_pixels_that_are_not_square(tmp_path: Path, cosines: tuple[float, ...]) -> None:
    pixels = words(high=4096)
    planes = stack(pixels, cosines=cosines)
    volume = read(tmp_path, planes)
    expected = hounsfield(stored_values(pixels, 16, False))
    assert volume.spacing_mm == pytest.approx((STEP_MM, BETWEEN_ROWS_MM, BETWEEN_COLUMNS_MM), abs=NEAR_MM)
    assert volume.flags == ()
    assert_places(volume, planes)
    assert_hu(volume, planes, lambda number: expected[number])


@pytest.mark.parametrize("factor", [0.9995, 1.0004])
def test_cosines_slightly_off_unit_length_move_nothing_by_a_hundredth_of_a_millimetre(tmp_path: Path, factor: float) -> None:
    exact = (0.8660254, 0.5, 0.0, -0.5, 0.8660254, 0.0)
    planes = stack(cosines=exact)
    for ds in planes:
        ds.ImageOrientationPatient = [round(value * factor, 6) for value in exact]
    volume = read(tmp_path, planes)
    assert volume.spacing_mm == pytest.approx((STEP_MM, BETWEEN_ROWS_MM, BETWEEN_COLUMNS_MM), abs=1e-3)
    np.testing.assert_allclose(np.linalg.norm(volume.axes, axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(volume.along_mm, np.arange(COUNT) * STEP_MM, atol=NEAR_MM)
    for ds in planes:
        ds.ImageOrientationPatient = list(exact)
    assert_places(volume, planes)


@pytest.mark.parametrize("cosines", [(1, 0, 0, 1, 0, 0), (0, 0, 0, 0, 0, 0), (2, 0, 0, 0, 2, 0), (1, 0, 0, 0.5, 0.5, 0)])
def test_directions_that_span_no_plane_are_refused(tmp_path: Path, cosines: tuple[float, ...]) -> None:
    planes = stack()
    for ds in planes:
        ds.ImageOrientationPatient = list(cosines)
    refused(tmp_path, planes, "ImageOrientationPatient", "方向")


def test_an_oblique_stack_is_read_in_place(tmp_path: Path) -> None:
    planes = stack(cosines=(0.8, 0.6, 0.0, 0.0, 0.0, -1.0))
    assert_places(read(tmp_path, planes), planes)


def test_jitter_of_five_micrometres_is_no_gap(tmp_path: Path) -> None:
    jitter = np.random.default_rng(4).uniform(-0.005, 0.005, COUNT)
    planes = stack(places_mm=[index * STEP_MM + jitter[index] for index in range(COUNT)])
    volume = read(tmp_path, planes)
    assert volume.flags == ()
    assert volume.spacing_mm[0] == pytest.approx(STEP_MM, abs=NEAR_MM)
    assert_places(volume, planes)


def test_jitter_in_plane_of_five_micrometres_is_no_tilt(tmp_path: Path) -> None:
    planes = stack()
    for index, ds in enumerate(planes):
        x, y, z = ds.ImagePositionPatient
        ds.ImagePositionPatient = [float(x) + 0.005 * (-1) ** index, float(y), float(z)]
    volume = read(tmp_path, planes)
    assert volume.flags == ()
    assert_places(volume, planes)


@pytest.mark.parametrize("numbers", ["against", "missing", "same"])
def test_positions_count_and_instance_numbers_and_slice_locations_do_not(tmp_path: Path, numbers: str) -> None:
    planes = stack(
        InstanceNumber=lambda index: {"against": COUNT - index, "missing": None, "same": 1}[numbers],
        SliceLocation=lambda index: -100.0 * index + (index % 3) * 500,
        FrameOfReferenceUID=lambda index: generate_uid(),
    )
    volume = read(tmp_path, planes)
    assert volume.sop_uids == tuple(str(ds.SOPInstanceUID) for ds in planes)
    assert volume.flags == ()
    assert_places(volume, planes)


def test_a_stack_against_its_normal_is_read_along_it(tmp_path: Path) -> None:
    planes = stack(places_mm=[-index * STEP_MM for index in range(COUNT)])
    volume = read(tmp_path, planes)
    assert volume.sop_uids == tuple(str(ds.SOPInstanceUID) for ds in reversed(planes))
    assert_places(volume, planes)


# ---- what is missing, doubled or does not belong


@pytest.mark.parametrize("left_out", [(5,), (5, 6), (3, 8), (1,), (COUNT - 2,)])
def test_missing_slices_are_told_with_place_and_number(tmp_path: Path, left_out: tuple[int, ...]) -> None:
    planes = [ds for index, ds in enumerate(stack()) if index not in left_out]
    expected = _holes(left_out)
    (told,) = survey(shuffled(tmp_path / "a", planes))
    assert list(told.gaps) == expected
    assert any(_has_numbers(flag, sum(missing for _, missing in expected)) for flag in told.flags), told.flags
    volume = read(tmp_path / "b", planes)
    assert_places(volume, planes)
    numbers = [int(ds.InstanceNumber) for ds in planes]
    for after, missing in expected:
        assert any(_has_numbers(flag, numbers[after - 1], numbers[after], missing) for flag in volume.flags), volume.flags


def _holes(left_out: Sequence[int]) -> list[tuple[int, int]]:
    """(after, missing) as one counts them: the planes that are there are numbered from 1."""
    holes: list[tuple[int, int]] = []
    seen = 0
    for index in range(COUNT):
        if index not in left_out:
            seen += 1
        elif index - 1 in left_out:
            holes[-1] = (holes[-1][0], holes[-1][1] + 1)
        else:
            holes.append((seen, 1))
    return holes


def _has_numbers(sentence: str, *numbers: int) -> bool:
    return {str(number) for number in numbers} <= set(re.findall(r"\d+", sentence))


def test_slices_that_lack_at_the_ends_leave_no_trace(tmp_path: Path) -> None:
    planes = stack()[1:-1]
    (told,) = survey(shuffled(tmp_path / "a", planes))
    assert (told.accepted, told.gaps) == (True, ())
    assert read(tmp_path / "b", planes).flags == ()


def test_a_slice_that_is_there_twice_counts_once_and_is_told(tmp_path: Path) -> None:
    pixels = words(high=4096)
    planes = stack(pixels)
    again = stack(pixels)[4]
    again.SOPInstanceUID = again.file_meta.MediaStorageSOPInstanceUID = generate_uid()
    volume = read(tmp_path, [*planes, again])
    assert volume.hu.shape[0] == COUNT
    assert any("重复" in flag or "相同" in flag for flag in volume.flags), volume.flags
    expected = hounsfield(stored_values(pixels, 16, False))
    np.testing.assert_array_equal(volume.hu, expected)


def test_the_same_file_twice_is_one_slice(tmp_path: Path) -> None:
    files = shuffled(tmp_path, stack())
    volume = read_volume([*files, files[3]])
    assert volume.hu.shape[0] == COUNT


def test_two_images_at_one_place_with_other_pixels_are_never_mixed(tmp_path: Path) -> None:
    planes = stack()
    other = stack(words(seed=9, high=4096))[4]
    other.SOPInstanceUID = other.file_meta.MediaStorageSOPInstanceUID = generate_uid()
    refused(tmp_path, [*planes, other], "同一位置", "重复", kind=Unsupported)


@pytest.mark.parametrize("phases", [2, 4])
@pytest.mark.parametrize("keyword", ["AcquisitionNumber", "TemporalPositionIdentifier", "AcquisitionTime", "none"])
def test_phases_at_the_same_places_are_recognised_and_not_mixed(tmp_path: Path, phases: int, keyword: str) -> None:
    """One phase whole, with the number of phases in a flag, or a refusal: never slices of two."""
    planes = [ds for phase in range(phases) for ds in _phase(phase, keyword)]
    rows = survey(shuffled(tmp_path / "a", planes))
    if keyword == "none":
        assert not any(row.accepted for row in rows)
        refused(tmp_path / "b", planes, "同一位置", "多期", kind=Unsupported)
        return
    assert [row.shape[0] for row in rows] == [COUNT] * phases
    volume = read(tmp_path / "b", planes)
    assert any("期" in flag and str(phases) in flag for flag in volume.flags), volume.flags
    wholes = [{str(ds.SOPInstanceUID) for ds in planes[phase * COUNT : (phase + 1) * COUNT]} for phase in range(phases)]
    assert set(volume.sop_uids) in wholes


def _phase(phase: int, keyword: str) -> list[FileDataset]:
    values: dict[str, Any] = {"AcquisitionNumber": phase + 1, "TemporalPositionIdentifier": phase + 1, "AcquisitionTime": f"1200{phase:02d}"}
    planes = stack(words(seed=phase, high=4096), **{key: value for key, value in values.items() if key == keyword})
    for ds in planes:
        ds.SOPInstanceUID = ds.file_meta.MediaStorageSOPInstanceUID = generate_uid()
    return planes


def test_two_orientations_in_one_series_are_two_stacks(tmp_path: Path) -> None:
    planes = [*stack(), *stack(cosines=(1, 0, 0, 0, 0, -1))]
    for ds in planes:
        ds.SOPInstanceUID = ds.file_meta.MediaStorageSOPInstanceUID = generate_uid()
    assert sorted(row.shape[0] for row in survey(shuffled(tmp_path / "a", planes))) == [COUNT, COUNT]
    refused(tmp_path / "b", planes, "方向", kind=Unsupported)


def test_planes_that_are_not_parallel_are_no_volume(tmp_path: Path) -> None:
    planes = stack()
    for index, ds in enumerate(planes):
        turn = np.radians(index)
        ds.ImageOrientationPatient = [1, 0, 0, 0, round(float(np.cos(turn)), 8), round(float(np.sin(turn)), 8)]
    refused(tmp_path, planes, "方向", kind=Unsupported)


@pytest.mark.parametrize("keyword", ["PixelSpacing", "Rows"])
def test_one_slice_with_another_pixel_size_or_matrix_does_not_pass_as_if_it_were_like_the_others(tmp_path: Path, keyword: str) -> None:
    planes = stack()
    if keyword == "PixelSpacing":
        planes[5].PixelSpacing = [BETWEEN_ROWS_MM * 1.05, BETWEEN_COLUMNS_MM]
    else:
        planes[5].Rows, planes[5].PixelData = ROWS - 2, planes[5].PixelData[: 2 * (ROWS - 2) * COLUMNS]
    refused(tmp_path, planes, "PixelSpacing", "像素", "矩阵", kind=Unsupported)


@pytest.mark.parametrize("axis", [0, 1])
def test_a_slice_that_is_moved_sideways_is_told_and_put_where_it_lies(tmp_path: Path, axis: int) -> None:
    pixels = np.full((COUNT, ROWS, COLUMNS), 24, dtype=np.uint16)
    pixels[:, 4, 6] = 2024
    planes = stack(pixels)
    place = [float(value) for value in planes[5].ImagePositionPatient]
    place[axis] += 10 * (BETWEEN_COLUMNS_MM, BETWEEN_ROWS_MM)[axis]
    planes[5].ImagePositionPatient = place
    volume = read(tmp_path, planes)
    assert any("偏移" in flag and "6" in flag for flag in volume.flags), volume.flags
    for z, ds in enumerate(planes):
        brightest = np.array([z, *np.unravel_index(int(volume.hu[z].argmax()), volume.hu[z].shape)], dtype=float)
        np.testing.assert_allclose(volume.to_patient(brightest), place_mm(ds, 4, 6), atol=NEAR_MM)


def test_blocks_of_two_steps_are_told_and_keep_their_places(tmp_path: Path) -> None:
    places = [index * 1.0 for index in range(10)] + [9.0 + 5.0 * index for index in range(1, 11)]
    planes = stack(words(20, high=4096), places_mm=places)
    (told,) = survey(shuffled(tmp_path / "a", planes))
    assert told.flags or told.reason
    try:
        volume = read(tmp_path / "b", planes)
    except Unsupported as error:
        assert "间距" in str(error)  # noqa: PT017  # refused with a reason, or read with true places and a flag
    else:
        np.testing.assert_allclose(volume.along_mm, places, atol=NEAR_MM)
        assert any("间距" in flag for flag in volume.flags)
        assert_places(volume, planes)


@pytest.mark.parametrize("lacking", ["ImagePositionPatient", "ImageOrientationPatient", "PixelSpacing", "BitsAllocated"])
@pytest.mark.parametrize("of", ["one", "all"])
def test_what_must_be_there_is_named_when_it_is_not(tmp_path: Path, lacking: str, of: str) -> None:
    planes = stack()
    for ds in planes if of == "all" else planes[4:5]:
        delattr(ds, lacking)
    refused(tmp_path, planes, lacking)


@pytest.mark.parametrize("lacking", ["PixelData", "Rows"])
def test_an_object_without_an_image_among_others_leaves_a_gap_and_is_told(tmp_path: Path, lacking: str) -> None:
    planes = stack()
    delattr(planes[4], lacking)
    rows = survey(shuffled(tmp_path / "a", planes))
    assert [(row.accepted, row.images) for row in rows] == [(True, COUNT - 1), (False, 1)]
    assert rows[0].gaps == ((4, 1),)
    assert any("无图像" in flag for flag in read(tmp_path / "b", planes).flags)
    for ds in planes:
        ds.pop(lacking, None)
    refused(tmp_path / "c", planes, "图像", kind=Unsupported)


@pytest.mark.parametrize("text", [b"nan\\0\\0", b"inf\\0\\0", b"1e300\\0\\0", b"0\\0", b"a\\b\\c", b""])
@pytest.mark.parametrize("of", ["one", "all"])
@pytest.mark.filterwarnings("ignore")  # pydicom warns of such a DS
def test_a_place_that_is_none_is_refused(tmp_path: Path, text: bytes, of: str) -> None:
    _refused_with(tmp_path, 0x00200032, text, of, "ImagePositionPatient|位置|缺层")


@pytest.mark.parametrize("text", [b"0\\0", b"-0.7\\0.7", b"nan\\nan", b"0.7", b"0.7\\0", b"1e9\\1e9", b"x\\y"])
@pytest.mark.parametrize("of", ["one", "all"])
@pytest.mark.filterwarnings("ignore")  # pydicom warns of such a DS
def test_a_pixel_size_that_is_none_is_refused(tmp_path: Path, text: bytes, of: str) -> None:
    _refused_with(tmp_path, 0x00280030, text, of, "PixelSpacing|像素间距")


def _refused_with(folder: Path, tag: int, text: bytes, of: str, said: str) -> None:
    """Bytes that pydicom would not write, in all files or in one."""
    files = shuffled(folder, stack())
    for path in files if of == "all" else files[4:5]:
        whole = path.read_bytes()
        at = whole.index(struct.pack("<HH", tag >> 16, tag & 0xFFFF) + b"DS")
        length = struct.unpack_from("<H", whole, at + 6)[0]
        value = text + b" " * (len(text) % 2)
        path.write_bytes(whole[: at + 6] + struct.pack("<H", len(value)) + value + whole[at + 8 + length :])
    with pytest.raises(Permanent, match=said):
        read_volume(files)


def test_two_scans_with_a_frame_of_reference_each_are_never_one_stack(tmp_path: Path) -> None:
    """Between them the patient got up: places of one mean nothing in the other, even where they would fit between."""
    first = stack(FrameOfReferenceUID="1.2.3")
    second = stack(words(seed=2, high=4096), places_mm=[(index + 0.5) * STEP_MM for index in range(COUNT)], FrameOfReferenceUID="1.2.4")
    rows = survey(shuffled(tmp_path / "a", [*first, *second]))
    assert [row.shape[0] for row in rows] == [COUNT, COUNT]
    wholes = [{str(ds.SOPInstanceUID) for ds in one} for one in (first, second)]
    try:
        volume = read(tmp_path / "b", [*first, *second])
    except Unsupported as error:
        assert len(str(error)) > 8  # noqa: PT017  # one of them with a flag, or a refusal
    else:
        assert set(volume.sop_uids) in wholes
        assert volume.flags


# ---- gantry tilt: planes lean, the table moves along z


def test_a_lean_of_ten_degrees_is_resampled_so_that_a_landmark_keeps_its_place(tmp_path: Path) -> None:
    files, landmark_mm = _leaning(tmp_path, 10.0)
    volume = read_volume(files)
    assert any("倾斜" in flag for flag in volume.flags), volume.flags
    bright = np.argwhere(volume.hu > 600).astype(float)
    found = volume.to_patient(np.average(bright, axis=0, weights=volume.hu[volume.hu > 600].astype(float)))
    np.testing.assert_allclose(found, landmark_mm, atol=0.75)  # half a pixel
    np.testing.assert_allclose(volume.axes @ volume.axes.T, np.eye(3), atol=1e-6)


def test_a_lean_is_refused_with_its_angle_where_the_site_says_so(tmp_path: Path) -> None:
    files, _ = _leaning(tmp_path, 10.0)
    with pytest.raises(Unsupported, match=r"倾斜.*10\.0"):
        read_volume(files, tilt="refuse")


def test_no_lean_is_the_same_in_both_settings(tmp_path: Path) -> None:
    files = shuffled(tmp_path, stack())
    np.testing.assert_array_equal(read_volume(files, tilt="refuse").hu, read_volume(files, tilt="resample").hu)


def _leaning(folder: Path, degrees: float) -> tuple[list[Path], np.ndarray[Any, Any]]:
    """24 planes of 64 × 64 pixels of 1 mm, turned about x, 2 mm of table between them, and a ball of 1000 HU with a radius of 6 mm in soft tissue."""
    turn = np.radians(degrees)
    cosines = (1.0, 0.0, 0.0, 0.0, round(float(np.cos(turn)), 9), round(float(-np.sin(turn)), 9))
    landmark_mm = np.array([30.0, 36.0, 14.0])
    pixels = np.zeros((24, 64, 64), dtype=np.uint16)
    planes = stack(pixels, cosines=cosines)
    rows, columns = np.mgrid[:64, :64].astype(float)
    for index, ds in enumerate(planes):
        ds.ImagePositionPatient, ds.PixelSpacing = [0.0, 0.0, 2.0 * index], [1.0, 1.0]
        y, z = rows * cosines[4], 2.0 * index + rows * cosines[5]
        inside = (columns - landmark_mm[0]) ** 2 + (y - landmark_mm[1]) ** 2 + (z - landmark_mm[2]) ** 2 < 36
        ds.PixelData = np.where(inside, 2024, 1064).astype("<u2").tobytes()
    return shuffled(folder, planes), landmark_mm


# ---- kinds that are not read


@pytest.mark.parametrize(
    ("image_type", "said"),
    [
        (("ORIGINAL", "PRIMARY", "LOCALIZER"), ("定位",)),
        (("DERIVED", "SECONDARY", "LOCALIZER", "CT_SOM5 TOP"), ("定位",)),
        (("DERIVED", "SECONDARY", "DOSE_INFO"), ("剂量",)),
    ],
)
def test_localizers_and_dose_pages_are_named_for_what_they_are(tmp_path: Path, image_type: tuple[str, ...], said: tuple[str, ...]) -> None:
    planes = stack(ImageType=list(image_type))
    rows = survey(shuffled(tmp_path / "a", planes))
    assert [row.accepted for row in rows] == [False] * len(rows)
    assert all(any(word in row.reason for word in said) for row in rows), rows
    refused(tmp_path / "b", planes, *said, kind=Unsupported)


@pytest.mark.parametrize(("image_type", "kind"), [(("DERIVED", "SECONDARY", "MPR"), "reformat"), (("DERIVED", "PRIMARY", "MIP"), "projection")])
def test_reformats_and_projections_are_recognised(tmp_path: Path, image_type: tuple[str, ...], kind: str) -> None:
    (told,) = survey(shuffled(tmp_path, stack(ImageType=list(image_type))))
    assert told.kind == kind
    assert told.accepted == (kind == "reformat")


@pytest.mark.parametrize("count", [0, 1, 2])
def test_too_few_slices_are_no_volume(tmp_path: Path, count: int) -> None:
    refused(tmp_path, stack()[:count], str(count), "没有", kind=Unsupported)


@pytest.mark.parametrize(("modality", "sop_class"), [("MR", MRImageStorage), ("PT", PositronEmissionTomographyImageStorage)])
def test_another_modality_is_not_read_as_ct(tmp_path: Path, modality: str, sop_class: UID) -> None:
    refused(tmp_path, stack(Modality=modality, SOPClassUID=sop_class), modality, "CT", kind=Unsupported)


def test_the_origin_is_the_first_place(tmp_path: Path) -> None:
    assert read(tmp_path, stack()).origin_mm == pytest.approx(ORIGIN_MM, abs=NEAR_MM)
