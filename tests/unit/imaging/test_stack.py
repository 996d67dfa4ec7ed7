"""What belongs together and what does not: phases, doubles, planes, kinds; nothing lost, nothing mixed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from pydicom import FileDataset
from pydicom.encaps import encapsulate
from pydicom.uid import ImplicitVRLittleEndian, JPEG2000Lossless, SecondaryCaptureImageStorage, generate_uid

from pipeline.errors import Permanent, Unsupported
from pipeline.imaging.frames import frames_of
from pipeline.imaging.kinds import Kind
from pipeline.imaging.stack import Stack, stacks_of
from pipeline.imaging.survey import survey
from pipeline.imaging.volume import read_stack, read_volume
from tests.builders import ct_slice, uid_of, write

CORONAL = (1.0, 0.0, 0.0, 0.0, 0.0, -1.0)


def plane(number: int, z_mm: float, value: int = 0, **keywords: Any) -> FileDataset:
    pixels: NDArray[np.int16] = np.full((16, 16), value, dtype=np.int16)
    return ct_slice(z_mm=z_mm, number=number, pixels=pixels, **keywords)


def stacked(folder: Path, planes: list[FileDataset]) -> tuple[Stack, ...]:
    return stacks_of([frame for path in write(folder, planes) for frame in frames_of(path)])


def numbers(stack: Stack) -> list[int | None]:
    return [frame.instance_number for frame in stack.frames]


BY: dict[str, tuple[str, Callable[[int], object]]] = {
    "AcquisitionNumber": ("采集号", lambda phase: phase + 3),
    "TemporalPositionIdentifier": ("时相", lambda phase: phase),
    "TriggerTime": ("心动期相", lambda phase: 10 * phase),
    "ConvolutionKernel": ("卷积核", lambda phase: f"B{phase}0f"),
    "SliceThickness": ("层厚", lambda phase: phase),
    "KVP": ("管电压", lambda phase: 70 + phase),
    "AcquisitionTime": ("采集时间", lambda phase: f"0{phase}0000"),
}


@pytest.mark.parametrize("keyword", BY)
@pytest.mark.parametrize("interleaved", [True, False])
def test_phases_are_told_apart_by_what_the_header_says(tmp_path: Path, keyword: str, interleaved: bool) -> None:
    name, value = BY[keyword]
    planes = [
        plane(3 * z + phase if interleaved else 12 * phase + z, 2.0 * z, phase, **{keyword: value(phase)}) for z in range(12) for phase in (1, 2, 3)
    ]
    found = stacked(tmp_path, planes)
    assert [len(stack.frames) for stack in found] == [12, 12, 12]
    assert all(stack.reason == "" for stack in found)
    assert sorted(n for stack in found for n in numbers(stack) if n) == sorted(int(ds.InstanceNumber) for ds in planes)
    noun = "组" if name in ("卷积核", "层厚", "管电压") else "期"
    assert found[1].flags == (f"同一位置有 3 幅图像，按{name}分为 3 {noun}，此为第 2 {noun}",)
    volume = read_volume(sorted(tmp_path.glob("*.dcm")))
    assert (volume.hu == volume.hu[0, 0, 0]).all()  # one phase, mixed with no other
    assert volume.flags[-1] == "同一序列另有 轴位 12 幅、轴位 12 幅，未读"


def test_phases_that_only_their_numbers_order_are_split_by_rank(tmp_path: Path) -> None:
    found = stacked(tmp_path, [plane(2 * z + phase, 2.0 * z, phase) for z in range(12) for phase in (1, 2)])
    assert [numbers(stack) for stack in found] == [[2 * z + phase for z in range(12)] for phase in (1, 2)]
    assert "按图像序号分为 2 期" in found[0].flags[0]


def test_an_acquisition_per_slice_is_one_scan(tmp_path: Path) -> None:
    """Step and shoot: the table moves between exposures."""
    (stack,) = stacked(tmp_path, [plane(z + 1, 5.0 * z, AcquisitionNumber=z) for z in range(12)])
    assert (len(stack.frames), stack.reason) == (12, "")


def test_images_at_two_places_again_and_again_are_bolus_tracking(tmp_path: Path) -> None:
    (stack,) = stacked(tmp_path, [plane(n, 0.0, AcquisitionNumber=n) for n in range(1, 21)])
    assert (stack.kind, stack.reason) == (Kind.BOLUS, "20 层位于同一位置（定点追踪），不构成容积")


def test_a_double_with_the_same_pixels_counts_once_and_one_with_others_not_at_all(tmp_path: Path) -> None:
    planes = [plane(z + 1, 5.0 * z, z) for z in range(12)]
    (stack,) = stacked(tmp_path / "same", [*planes, plane(99, 25.0, 5)])
    assert (numbers(stack), stack.flags) == (list(range(1, 13)), ("第 6 层有 2 幅相同的图像，取其一",))
    (stack,) = stacked(tmp_path / "other", [*planes, plane(99, 25.0, 6)])
    assert stack.reason == "2 层位于同一位置（第 6 层；重复、多期或定点追踪），不构成单一容积"


def test_the_same_file_twice_is_one_image(tmp_path: Path) -> None:
    planes = [plane(z + 1, 5.0 * z, z) for z in range(12)]
    (stack,) = stacked(tmp_path, [*planes, planes[3]])
    assert (len(stack.frames), stack.flags) == (12, ())


def test_two_frames_of_reference_are_two_stacks_unless_every_slice_has_its_own(tmp_path: Path) -> None:
    frames = [generate_uid(), generate_uid()]
    found = stacked(tmp_path / "two", [plane(z + 1, 5.0 * z, FrameOfReferenceUID=frames[z % 2]) for z in range(24)])
    assert [len(stack.frames) for stack in found] == [12, 12]
    (stack,) = stacked(tmp_path / "each", [plane(z + 1, 5.0 * z, FrameOfReferenceUID=generate_uid()) for z in range(12)])
    assert len(stack.frames) == 12


def test_mixed_matrix_and_mixed_pixel_size_are_told_with_number_and_place(tmp_path: Path) -> None:
    planes = [plane(z + 1, 5.0 * z) for z in range(12)]
    planes[3].Rows, planes[3].PixelData = 8, planes[3].PixelData[: 8 * 16 * 2]
    (stack,) = stacked(tmp_path / "matrix", planes)
    assert stack.reason == "序列内矩阵大小不一致：16×16 11 层，8×16 1 层（第 4 层）"
    (stack,) = stacked(tmp_path / "spacing", [plane(z + 1, 5.0 * z, PixelSpacing=[0.8, 0.8] if z < 9 else [0.9, 0.9]) for z in range(12)])
    assert stack.reason == "序列内像素间距不一致：0.8×0.8 mm 9 层，0.9×0.9 mm 3 层（第 10、11、12 层）"


def test_two_steps_in_one_series_are_told_with_their_places_and_a_hole_beside_them(tmp_path: Path) -> None:
    places = [*(2.0 * z for z in range(11) if z != 5), *(20.0 + 5.0 * z for z in range(1, 11))]
    (stack,) = stacked(tmp_path, [plane(n + 1, z) for n, z in enumerate(places)])
    assert stack.flags == ("层间距不一致：第 1–5 层 2.0 mm，第 6–10 层 2.0 mm，第 10–20 层 5.0 mm", "图像 5 与 6 之间间距 4.0 mm，疑缺 1 层")
    assert (stack.reason, [(hole.after, hole.missing) for hole in stack.holes]) == ("", [(5, 1)])


def test_what_lacks_its_place_is_refused_by_the_name_of_what_lacks(tmp_path: Path) -> None:
    planes = [plane(z + 1, 5.0 * z) for z in range(12)]
    del planes[4].ImagePositionPatient
    (stack,) = stacked(tmp_path, planes)
    assert "ImagePositionPatient" in stack.reason


@pytest.mark.parametrize(
    ("keywords", "kind"),
    [
        ({"image_type": ["ORIGINAL", "PRIMARY", "LOCALIZER", "CT_SOM5 TOP"]}, Kind.LOCALIZER),
        ({"image_type": ["DERIVED", "SECONDARY", "DOSE_INFO"]}, Kind.DOSE),
        ({"image_type": ["DERIVED", "SECONDARY", "MIP"]}, Kind.PROJECTION),
        ({"image_type": ["DERIVED", "SECONDARY", "AXIAL", "CT_SOM5 MIP"]}, Kind.PROJECTION),
        ({"image_type": ["DERIVED", "SECONDARY", "REFORMATTED", "AVERAGE"]}, Kind.REFORMAT),
        ({"image_type": ["DERIVED", "PRIMARY", "PERFUSION", "RCBF"]}, Kind.MAP),
        ({"SOPClassUID": SecondaryCaptureImageStorage, "SeriesDescription": "Dose Report"}, Kind.DOSE),
        ({"SOPClassUID": SecondaryCaptureImageStorage}, Kind.SECONDARY),
        ({"SOPClassUID": "1.2.840.10008.5.1.4.1.1.4"}, Kind.NOT_CT),
        ({"orientation": CORONAL}, Kind.CORONAL),
        ({"orientation": (0.0, 1.0, 0.0, 0.0, 0.0, -1.0)}, Kind.SAGITTAL),
        ({"orientation": (0.7071, 0.7071, 0.0, 0.0, 0.0, -1.0)}, Kind.OBLIQUE),
    ],
    ids=str,
)
def test_kinds(tmp_path: Path, keywords: dict[str, Any], kind: Kind) -> None:
    (stack,) = stacked(tmp_path, [plane(1, 0.0, **keywords)])
    assert stack.kind is kind
    assert stack.reason


def test_a_localizer_beside_the_axial_slices_is_left_out_and_told(tmp_path: Path) -> None:
    scout = plane(1, 300.0, image_type=["ORIGINAL", "PRIMARY", "LOCALIZER"], orientation=CORONAL)
    paths = write(tmp_path, [scout, *(plane(z + 2, 5.0 * z) for z in range(12))])
    volume = read_volume(paths)
    assert len(volume.hu) == 12
    assert volume.flags == ("同一序列另有 定位像 1 幅，未读",)
    assert [(one.kind, one.accepted, one.images) for one in survey(paths)] == [(Kind.AXIAL, True, 12), (Kind.LOCALIZER, False, 1)]


def test_files_of_two_series_are_no_one_volume(tmp_path: Path) -> None:
    planes = [plane(z + 1, 5.0 * z, series=series) for z in range(12) for series in ("a", "b")]
    with pytest.raises(Unsupported, match="2 个序列"):
        read_volume(write(tmp_path, planes))
    assert [one.accepted for one in survey(sorted(tmp_path.glob("*.dcm")))] == [True, True]


def test_no_file_is_no_volume() -> None:
    with pytest.raises(Unsupported, match="没有图像"):
        read_volume([])


@pytest.mark.parametrize("keyword", [*BY, "NominalPercentageOfCardiacPhase"])
def test_phases_are_told_apart_in_implicit_vr_just_as_in_explicit(tmp_path: Path, keyword: str) -> None:
    """There no element says its VR; 1.25 and 1.5 mm, or 1200 and 1250 ms, begin with the same two bytes."""
    values: dict[str, tuple[object, object]] = {
        "AcquisitionTime": ("020000", "020030"),
        "ConvolutionKernel": ("B30f", "B70f"),
        "KVP": (100, 140),
        "SliceThickness": (1.25, 1.5),
        "NominalPercentageOfCardiacPhase": (40.0, 75.0),
    }
    first, second = values.get(keyword, (1200, 1250))
    planes = [plane(z, 2.0 * z, phase, **{keyword: (first, second)[phase]}) for z in range(12) for phase in (0, 1)]
    for number, ds in enumerate(planes):
        ds.SOPInstanceUID = ds.file_meta.MediaStorageSOPInstanceUID = uid_of(keyword, number)
        ds.file_meta.TransferSyntaxUID = ImplicitVRLittleEndian
    found = stacked(tmp_path, planes)
    assert [(stack.reason, {int(read_stack(stack).hu[z, 0, 0]) for z in range(12)}) for stack in found] == [("", {-1024}), ("", {-1023})]


def test_doubles_that_cannot_be_decoded_spoil_their_own_series_and_no_other(tmp_path: Path) -> None:
    bad = [plane(z + 1, 5.0 * z, series="bad") for z in range(12)] + [plane(99, 25.0, series="bad")]
    for ds in bad:
        ds.file_meta.TransferSyntaxUID = JPEG2000Lossless
        ds.PixelData = encapsulate([b"\0" * 100])
        ds["PixelData"].is_undefined_length = True
    good = [plane(z + 1, 5.0 * z, series="good") for z in range(12)]
    found = survey(write(tmp_path, [*bad, *good]))
    assert [(one.accepted, one.images, "JPEG 2000" in one.reason) for one in found] == [(True, 12, False), (False, 13, True)]
    with pytest.raises(Permanent, match="JPEG 2000") as refused:
        read_volume(write(tmp_path / "bad", bad))
    assert not isinstance(refused.value, Unsupported)  # failed, for a person to look at: it may be a chest


@pytest.mark.parametrize(
    ("step_mm", "count", "pixel_mm", "said"), [(5.0, 8, 80.0, "像素间距"), (5.0, 8, 9.9, "视野 1267 mm"), (39.0, 80, 1.0, "范围 3081 mm")]
)
def test_a_volume_larger_than_any_patient_is_refused_before_anyone_resamples_it(
    tmp_path: Path, step_mm: float, count: int, pixel_mm: float, said: str
) -> None:
    """A few kilobytes of even pixels with such spacing would take tens of gigabytes on a grid of 5 mm."""
    pixels = np.zeros((16, 128), dtype=np.int16)
    planes = [ct_slice(z_mm=step_mm * z, number=z, pixels=pixels, spacing_mm=(1.0, pixel_mm)) for z in range(count)]
    (stack,) = stacked(tmp_path, planes)
    assert said in stack.reason
