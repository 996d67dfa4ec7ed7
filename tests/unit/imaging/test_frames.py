"""Frames of multi-frame CT and what their headers say; how the images were taken."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from pydicom import DataElement, Dataset, FileDataset, config
from pydicom.sequence import Sequence
from pydicom.uid import EnhancedCTImageStorage

from pipeline.errors import PipelineError, Unsupported
from pipeline.imaging.acquisition import acquisition
from pipeline.imaging.frames import frames_of
from pipeline.imaging.survey import survey
from pipeline.imaging.volume import read_volume
from tests.builders import ct_slice, write

AXIAL = [1, 0, 0, 0, 1, 0]


def group(name: str, **values: object) -> Dataset:
    """A functional group with one item."""
    item, holder = Dataset(), Dataset()
    for keyword, value in values.items():
        setattr(item, keyword, value)
    setattr(holder, name, Sequence([item]))
    return holder


def enhanced(count: int = 12, phases: int = 1, kind: str = "AXIAL") -> FileDataset:
    """An Enhanced CT object: `count` places 3 mm apart in falling order, `phases` frames each; slope and intercept per frame."""
    pixels: NDArray[np.int16] = np.arange(count * phases, dtype=np.int16)[:, None, None] * np.ones((1, 16, 16), dtype=np.int16)
    ds = ct_slice(pixels=pixels[0])
    for keyword in ("ImagePositionPatient", "ImageOrientationPatient", "PixelSpacing", "RescaleSlope", "RescaleIntercept", "RescaleType"):
        delattr(ds, keyword)
    ds.SOPClassUID = ds.file_meta.MediaStorageSOPClassUID = EnhancedCTImageStorage
    ds.NumberOfFrames, ds.PixelData = count * phases, pixels.tobytes()
    shared = group("PlaneOrientationSequence", ImageOrientationPatient=AXIAL)
    shared.update(group("PixelMeasuresSequence", PixelSpacing=[0.5, 0.75], SliceThickness=3.0))
    shared.update(group("CTImageFrameTypeSequence", FrameType=["ORIGINAL", "PRIMARY", kind, "NONE"]))
    shared.update(group("CTXRayDetailsSequence", KVP=100.0))
    ds.SharedFunctionalGroupsSequence = Sequence([shared])
    ds.PerFrameFunctionalGroupsSequence = Sequence([_frame(number, count, phases) for number in range(count * phases)])
    return ds


def _frame(number: int, count: int, phases: int) -> Dataset:
    place, phase = divmod(number, phases)
    item = group("PlanePositionSequence", ImagePositionPatient=[1.0, 2.0, 3.0 * (count - place)])
    item.update(group("PixelValueTransformationSequence", RescaleSlope=2, RescaleIntercept=-1000 + number, RescaleType="HU"))
    item.update(group("FrameContentSequence", TemporalPositionIndex=phase + 1, StackID="1", InStackPositionNumber=place + 1))
    return item


def test_frames_of_an_enhanced_object_lie_where_their_groups_say_with_a_rescale_of_their_own(tmp_path: Path) -> None:
    volume = read_volume(write(tmp_path, [enhanced()]))
    assert volume.frames == tuple(range(12, 0, -1))
    assert len(set(volume.sop_uids)) == 1
    assert volume.spacing_mm == (3.0, 0.5, 0.75)
    assert volume.origin_mm == (1.0, 2.0, 3.0)
    assert volume.hu[:, 0, 0].tolist() == [2 * number - 1000 + number for number in range(11, -1, -1)]
    assert (volume.acquisition.kvp, volume.acquisition.thickness_mm) == (100.0, 3.0)


def test_phases_inside_one_enhanced_object_are_stacks_of_their_own(tmp_path: Path) -> None:
    found = survey(write(tmp_path, [enhanced(12, phases=3)]))
    assert [(one.accepted, one.shape) for one in found] == [(True, (12, 16, 16))] * 3
    assert [one.hu_min for one in found] == [-1000 + 0, -1000 + 3, -1000 + 6]  # 3·n − 1000, from n = phase on


def test_the_type_of_its_frames_says_what_an_enhanced_object_is(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="定位像"):
        read_volume(write(tmp_path, [enhanced(kind="LOCALIZER")]))


@pytest.mark.parametrize("damage", ["fewer groups", "no groups", "no position in one"])
def test_groups_that_do_not_fit_are_a_sentence(tmp_path: Path, damage: str) -> None:
    ds = enhanced()
    if damage == "fewer groups":
        ds.PerFrameFunctionalGroupsSequence = Sequence(ds.PerFrameFunctionalGroupsSequence[:5])
    elif damage == "no groups":
        del ds.PerFrameFunctionalGroupsSequence
    else:
        del ds.PerFrameFunctionalGroupsSequence[3].PlanePositionSequence
    with pytest.raises(PipelineError, match=r"\S{6,}"):
        read_volume(write(tmp_path, [ds]))


def test_the_number_of_a_frame_is_its_place_in_the_file(tmp_path: Path) -> None:
    (path,) = write(tmp_path, [enhanced()])
    assert [frame.number for frame in frames_of(path)] == list(range(1, 13))


def taken(**values: object) -> Dataset:
    ds = deepcopy(ct_slice())
    for keyword, value in values.items():
        setattr(ds, keyword, value)
    return ds


def test_how_the_images_were_taken_and_of_whom() -> None:
    told = acquisition(taken(Exposure="120", PatientAge="063Y", PatientSex="F", ContrastBolusAgent="Iohexol 350"))
    assert (told.kvp, told.mas, told.kernel, told.thickness_mm) == (120.0, 120.0, "B31f", 5.0)
    assert (told.age_years, told.sex, told.contrast) == (63.0, "F", True)


@pytest.mark.parametrize(
    ("age", "years"), [("063Y", 63.0), ("006M", 0.5), ("002W", 0.04), ("010D", 0.03), ("", None), ("Y", None), ("63", None), ("abcY", None)]
)
def test_ages_are_years(age: str, years: float | None) -> None:
    ds = ct_slice()
    ds.add_new("PatientAge", "LO", age)  # LO: pydicom refuses to write a malformed AS
    assert acquisition(ds).age_years == years


@pytest.mark.parametrize(
    ("values", "contrast"),
    [
        *[({}, None), ({"ContrastBolusAgent": ""}, None)],
        *[({"ContrastBolusAgent": text}, False) for text in ("NONE", "No contrast", "NON-CONTRAST", "w/o", "n/a", "-", "0", "无", "未使用", "平扫")],
        *[({"ContrastBolusAgent": text}, True) for text in ("碘海醇", "Nonionic 350", "Omnipaque", "IV", "Novopaque", "APPLIED")],
    ],
)
def test_contrast_is_unknown_where_the_header_says_nothing(values: dict[str, str], contrast: bool | None) -> None:
    assert acquisition(taken(**values)).contrast is contrast


def test_exposure_falls_back_to_microampere_seconds() -> None:
    assert acquisition(taken(ExposureInuAs="85000")).mas == 85.0
    assert acquisition(taken(ExposureInmAs=90.5)).mas == 90.5


def test_a_frame_before_the_agent_was_given_is_without_contrast(tmp_path: Path) -> None:
    """The object names its agents once; each frame says whether they were in (PS3.3 C.7.6.16.2.12)."""
    ds = enhanced()
    ds.update(group("ContrastBolusAgentSequence", CodeMeaning="Iohexol"))
    ds.SharedFunctionalGroupsSequence[0].update(group("ContrastBolusUsageSequence", ContrastBolusAgentNumber=1, ContrastBolusAgentAdministered="NO"))
    assert read_volume(write(tmp_path, [ds])).acquisition.contrast is False


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "1e400", "-120", ""])
def test_what_no_number_can_be_is_absent(value: str) -> None:
    ds = ct_slice()
    ds.KVP = ds.SliceThickness = None
    for keyword in ("KVP", "SliceThickness"):
        ds[keyword] = DataElement(keyword, "DS", value, validation_mode=config.IGNORE)
    told = acquisition(ds)
    assert (told.kvp, told.thickness_mm) == (None, None)
