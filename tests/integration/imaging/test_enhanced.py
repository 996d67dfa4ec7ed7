"""Enhanced CT (PS3.3 A.38): where what is said of a frame stands, and what becomes of frames that do not fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from openjpeg.utils import encode_array
from pydicom import Dataset, FileDataset
from pydicom.encaps import encapsulate, encapsulate_extended
from pydicom.sequence import Sequence as Items
from pydicom.uid import EnhancedCTImageStorage, JPEG2000Lossless, generate_uid

from pipeline.errors import Unsupported
from pipeline.imaging.survey import survey
from pipeline.imaging.volume import Volume, read_volume
from tests.builders import AXIAL, write
from tests.integration.imaging.stacks import (
    BETWEEN_COLUMNS_MM,
    BETWEEN_ROWS_MM,
    NEAR_MM,
    ORIGIN_MM,
    STEP_MM,
    Words,
    hounsfield,
    refused,
    stack,
    stored_values,
)

FRAMES, EDGE = 12, 40
ORDER = [int(index) for index in np.random.default_rng(8).permutation(FRAMES)]  # frame k of the object lies at place ORDER[k]


def pixels(seed: int = 1) -> Words:
    return np.random.default_rng(seed).integers(0, 4096, (FRAMES, EDGE, EDGE), dtype=np.uint16)


def group(**keywords: Any) -> Items:
    item = Dataset()
    for keyword, value in keywords.items():
        setattr(item, keyword, value)
    return Items([item])


def enhanced(
    words: Words, *, places: Sequence[int] = tuple(ORDER), per_frame: Callable[[int, Dataset], None] | None = None, **shared: Items
) -> FileDataset:
    """One object: geometry of the frames per frame, all else shared. A keyword replaces a shared group; `per_frame` adds to a frame's own."""
    (ds,) = stack(words[:1])
    for keyword in (
        "ImagePositionPatient",
        "ImageOrientationPatient",
        "PixelSpacing",
        "SliceThickness",
        "RescaleSlope",
        "RescaleIntercept",
        "RescaleType",
    ):
        delattr(ds, keyword)
    ds.SOPClassUID = ds.file_meta.MediaStorageSOPClassUID = EnhancedCTImageStorage
    ds.SOPInstanceUID = ds.file_meta.MediaStorageSOPInstanceUID = generate_uid()
    ds.NumberOfFrames, ds.PixelData = len(words), words.astype("<u2").tobytes()
    common = Dataset()
    common.PixelMeasuresSequence = group(PixelSpacing=[BETWEEN_ROWS_MM, BETWEEN_COLUMNS_MM], SliceThickness=STEP_MM)
    common.PlaneOrientationSequence = group(ImageOrientationPatient=list(AXIAL))
    common.PixelValueTransformationSequence = group(RescaleSlope=1.0, RescaleIntercept=-1024.0, RescaleType="HU")
    common.CTImageFrameTypeSequence = group(FrameType=["ORIGINAL", "PRIMARY", "VOLUME", "NONE"])
    for keyword, value in shared.items():
        setattr(common, keyword, value)
    ds.SharedFunctionalGroupsSequence = Items([common])
    own = []
    for number in range(len(words)):
        item = Dataset()
        item.PlanePositionSequence = group(ImagePositionPatient=[ORIGIN_MM[0], ORIGIN_MM[1], ORIGIN_MM[2] + places[number] * STEP_MM])
        item.FrameContentSequence = group(StackID="1", InStackPositionNumber=number + 1, TemporalPositionIndex=1)
        if per_frame is not None:
            per_frame(number, item)
        own.append(item)
    ds.PerFrameFunctionalGroupsSequence = Items(own)
    return ds


def read(folder: Path, *objects: FileDataset) -> Volume:
    return read_volume(write(folder, objects))


def assert_read(
    volume: Volume, words: Words, slope: Callable[[int], float] = lambda _: 1.0, intercept: Callable[[int], float] = lambda _: -1024.0
) -> None:
    """Frame by frame: in the order of their places, each with its own numbers."""
    assert volume.frames == tuple(number + 1 for number in np.argsort(ORDER))
    assert len(set(volume.sop_uids)) == 1
    np.testing.assert_allclose(volume.along_mm, np.arange(FRAMES) * STEP_MM, atol=NEAR_MM)
    np.testing.assert_allclose(volume.to_patient(np.array([3.0, 5.0, 7.0])), np.add(ORIGIN_MM, [7 * 1.3, 5 * 0.7, 3 * STEP_MM]), atol=NEAR_MM)
    for z, number in enumerate(np.argsort(ORDER)):
        expected = hounsfield(stored_values(words[number], 16, False), slope(number), intercept(number))
        np.testing.assert_array_equal(volume.hu[z], expected.astype(np.float32))


def test_frames_are_put_in_the_order_of_their_places(tmp_path: Path) -> None:
    words = pixels()
    assert_read(read(tmp_path, enhanced(words)), words)


def test_rescale_may_stand_with_each_frame(tmp_path: Path) -> None:
    words = pixels()

    def own(number: int, item: Dataset) -> None:
        item.PixelValueTransformationSequence = group(RescaleSlope=1.0 + number % 2, RescaleIntercept=-1000.0 - number, RescaleType="HU")

    ds = enhanced(words, per_frame=own)
    del ds.SharedFunctionalGroupsSequence[0].PixelValueTransformationSequence
    assert_read(read(tmp_path, ds), words, lambda number: 1.0 + number % 2, lambda number: -1000.0 - number)


def test_what_a_frame_says_goes_before_what_is_shared(tmp_path: Path) -> None:
    words = pixels()

    def own(number: int, item: Dataset) -> None:
        if number == 4:
            item.PixelValueTransformationSequence = group(RescaleSlope=2.0, RescaleIntercept=-500.0, RescaleType="HU")

    volume = read(tmp_path, enhanced(words, per_frame=own))
    assert_read(volume, words, lambda number: 2.0 if number == 4 else 1.0, lambda number: -500.0 if number == 4 else -1024.0)


def test_orientation_and_spacing_may_stand_with_each_frame(tmp_path: Path) -> None:
    words = pixels()

    def own(number: int, item: Dataset) -> None:
        item.PlaneOrientationSequence = group(ImageOrientationPatient=list(AXIAL))
        item.PixelMeasuresSequence = group(PixelSpacing=[BETWEEN_ROWS_MM, BETWEEN_COLUMNS_MM], SliceThickness=STEP_MM)

    ds = enhanced(words, per_frame=own)
    del ds.SharedFunctionalGroupsSequence[0].PlaneOrientationSequence, ds.SharedFunctionalGroupsSequence[0].PixelMeasuresSequence
    assert_read(read(tmp_path, ds), words)


@pytest.mark.parametrize(("extended", "fragments"), [(False, 1), (False, 3), (True, 1)])
def test_compressed_frames_are_found(tmp_path: Path, extended: bool, fragments: int) -> None:
    """A basic offset table, or extended offset tables (PS3.5 A.4; they go with one fragment a frame)."""
    words = pixels()
    ds = enhanced(words)
    frames = [bytes(encode_array(frame, bits_stored=16)) for frame in words]
    ds.file_meta.TransferSyntaxUID = JPEG2000Lossless
    if extended:
        ds.PixelData, ds.ExtendedOffsetTable, ds.ExtendedOffsetTableLengths = encapsulate_extended(frames)
    else:
        ds.PixelData = encapsulate(frames, fragments_per_frame=fragments)
    ds["PixelData"].VR, ds["PixelData"].is_undefined_length = "OB", True
    assert_read(read(tmp_path, ds), words)


def test_a_volume_may_lie_in_two_objects(tmp_path: Path) -> None:
    """Vendors split large ones; frames of both make one stack."""
    words = pixels()
    halves = [enhanced(words[:6], places=ORDER[:6]), enhanced(words[6:], places=ORDER[6:])]
    volume = read(tmp_path, *halves)
    assert set(volume.sop_uids) == {str(ds.SOPInstanceUID) for ds in halves}
    for z, number in enumerate(np.argsort(ORDER)):
        assert volume.frames[z] == number % 6 + 1
        np.testing.assert_array_equal(volume.hu[z], hounsfield(stored_values(words[number], 16, False)))


def test_a_frame_in_another_unit_is_refused(tmp_path: Path) -> None:
    def own(number: int, item: Dataset) -> None:
        if number == 7:
            item.PixelValueTransformationSequence = group(RescaleSlope=1.0, RescaleIntercept=0.0, RescaleType="MGML")

    assert "MGML" in refused(tmp_path, [enhanced(pixels(), per_frame=own)], "HU", kind=Unsupported)


@pytest.mark.parametrize("kind", ["LOCALIZER", "PERFUSION"])
def test_frames_of_a_kind_that_is_no_volume_are_refused(tmp_path: Path, kind: str) -> None:
    ds = enhanced(pixels(), CTImageFrameTypeSequence=group(FrameType=["DERIVED", "PRIMARY", kind, "NONE"]))
    ds.ImageType = ["DERIVED", "PRIMARY", kind, "NONE"]
    refused(tmp_path, [ds], "定位", "灌注", "HU", kind=Unsupported)


def test_a_frame_without_a_place_is_refused_by_what_it_lacks(tmp_path: Path) -> None:
    def own(number: int, item: Dataset) -> None:
        if number == 7:
            del item.PlanePositionSequence

    refused(tmp_path, [enhanced(pixels(), per_frame=own)], "ImagePositionPatient")


@pytest.mark.parametrize("groups", [0, FRAMES - 1, FRAMES + 1])
def test_groups_and_frames_must_be_as_many(tmp_path: Path, groups: int) -> None:
    ds = enhanced(pixels())
    own = list(ds.PerFrameFunctionalGroupsSequence)
    ds.PerFrameFunctionalGroupsSequence = Items((own + own)[:groups])
    refused(tmp_path, [ds], str(FRAMES), "Position", "PerFrame")


def test_two_phases_in_one_object_are_not_mixed(tmp_path: Path) -> None:
    words = np.concatenate([pixels(1), pixels(2)])

    def own(number: int, item: Dataset) -> None:
        item.FrameContentSequence[0].TemporalPositionIndex = 1 + number // FRAMES

    paths = write(tmp_path, [enhanced(words, places=ORDER * 2, per_frame=own)])
    assert [row.shape[0] for row in survey(paths)] == [FRAMES, FRAMES]
    volume = read_volume(paths)
    assert any("期" in flag for flag in volume.flags), volume.flags
    assert {number <= FRAMES for number in volume.frames} in ({True}, {False})


def test_two_phases_that_nothing_tells_apart_are_refused(tmp_path: Path) -> None:
    words = np.concatenate([pixels(1), pixels(2)])
    refused(tmp_path, [enhanced(words, places=ORDER * 2)], "同一位置", kind=Unsupported)
