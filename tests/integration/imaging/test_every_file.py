"""All of the public test data: what is read and what is refused, why, where each voxel lies and how many HU it has.

What is expected is worked out here with pydicom alone, slowly, or stands in the data's own description. Formulas: PS3.3 C.7.6.2.1.1, C.11.1.1.2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from pydicom import Dataset, dcmread
from pydicom.uid import CTImageStorage, generate_uid
from scipy import ndimage

from pipeline.errors import Permanent, Unsupported
from pipeline.imaging.survey import survey
from pipeline.imaging.volume import Volume, read_volume
from tests.integration.imaging.stacks import AIR_HU, NEAR_MM, assert_places, place_mm, stored_values

pytestmark = pytest.mark.filterwarnings("ignore")  # pydicom warns of what is odd in these files; the reader's own sentences are what counts
CHEST = "chest_lidc_0314"


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def hounsfield(ds: Dataset) -> NDArray[np.float64]:
    """HU of a native classic image, a formula at a time."""
    words = np.frombuffer(ds.PixelData, dtype="<u2")[: ds.Rows * ds.Columns].reshape(ds.Rows, ds.Columns)
    stored = stored_values(words, ds.BitsStored, ds.PixelRepresentation == 1)
    hu = np.maximum(float(ds.RescaleSlope) * stored + float(ds.RescaleIntercept), AIR_HU)
    if (padding := ds.get("PixelPaddingValue")) is not None:
        hu[stored == padding] = AIR_HU
    return np.asarray(hu)


def along(ds: Dataset) -> float:
    """Place along the normal, mm."""
    cosines = [float(value) for value in ds.ImageOrientationPatient]
    return float(np.cross(cosines[:3], cosines[3:]) @ [float(value) for value in ds.ImagePositionPatient])


def continued(path: Path, folder: Path, count: int = 12, step_mm: float = 5.0) -> list[Path]:
    """The image `count` times, `step_mm` apart along its normal, with UIDs of their own; its pixels as they are, byte for byte."""
    ds = dcmread(path)
    cosines, corner = [float(value) for value in ds.ImageOrientationPatient], np.array([float(value) for value in ds.ImagePositionPatient])
    made = []
    for index in range(count):
        ds.SOPInstanceUID = ds.file_meta.MediaStorageSOPInstanceUID = generate_uid()
        place = corner + index * step_mm * np.cross(cosines[:3], cosines[3:])
        ds.ImagePositionPatient, ds.InstanceNumber = [round(float(value), 6) for value in place], index + 1
        made.append(folder / f"{index:02d}.dcm")
        ds.save_as(made[-1])
    return made


# ---- the chest


def test_the_chest_is_one_volume_with_every_plane_in_its_place(test_data: Path) -> None:
    paths = files(test_data / CHEST)
    planes = sorted((dcmread(path) for path in paths), key=along)
    volume = read_volume(paths)
    assert volume.sop_uids == tuple(str(ds.SOPInstanceUID) for ds in planes)
    assert volume.frames == (1,) * 28
    assert volume.spacing_mm[1:] == pytest.approx((0.78125, 0.78125), abs=NEAR_MM)
    np.testing.assert_allclose(volume.along_mm, [along(ds) - along(planes[0]) for ds in planes], atol=NEAR_MM)
    np.testing.assert_allclose(volume.origin_mm, [-201, -59, -668.800049], atol=NEAR_MM)
    np.testing.assert_allclose(volume.axes, [[0, 0, 1], [0, 1, 0], [1, 0, 0]], atol=1e-6)
    assert_places(volume, planes)
    assert str(volume.hu.dtype) == "int16"
    assert not volume.lossy
    for z, ds in enumerate(planes):
        np.testing.assert_array_equal(volume.hu[z], hounsfield(ds))


def test_the_chest_tells_of_its_wide_steps(test_data: Path) -> None:
    """The set was thinned: steps of 1 to 37 mm, the median one 7 mm (README of the data says 10)."""
    paths = files(test_data / CHEST)
    (told,) = survey(paths)
    places = sorted(along(dcmread(path)) for path in paths)
    steps = np.diff(places)
    wide = {index + 1 for index in range(len(steps)) if steps[index] > 2 * np.median(steps)}
    assert (told.accepted, tuple(told.shape)) == (True, (28, 512, 512))
    assert wide <= {after for after, _ in told.gaps}, told.gaps
    every = [hounsfield(dcmread(path)) for path in paths]
    assert (told.hu_min, told.hu_max) == (min(hu.min() for hu in every), max(hu.max() for hu in every))
    assert set(read_volume(paths).flags) <= set(told.flags)
    assert any("缺" in flag for flag in told.flags)


# ---- transfer syntaxes

LOSSLESS = ("1.2", "1.2.1", "1.2.2", "1.2.1.99", "1.2.4.57", "1.2.4.70", "1.2.4.80", "1.2.4.90", "1.2.5")
LOSSY = {
    "1.2.4.50": 64.5,
    "1.2.4.51": 36.5,
    "1.2.4.81": 1,
    "1.2.4.91": 6,
}  # HU: the data's description (50, 51), pydicom with GDCM
RETIRED = ("1.2.4.53", "1.2.4.55")


def encoded(test_data: Path, syntax: str) -> Path:
    (found,) = (test_data / "transfer_syntaxes").glob(f"*_1.2.840.10008.{syntax}.dcm")
    return found


def test_there_are_16_encodings_of_the_slice(test_data: Path) -> None:
    assert len(LOSSLESS) + len(LOSSY) + len(RETIRED) + 1 == len(files(test_data / "transfer_syntaxes")) == 16


@pytest.mark.parametrize("syntax", LOSSLESS)
def test_lossless_encodings_give_the_pixels_of_the_native_one(test_data: Path, tmp_path: Path, syntax: str) -> None:
    volume = read_volume(continued(encoded(test_data, syntax), tmp_path))
    native = hounsfield(dcmread(test_data / "transfer_syntaxes" / "CTImage.dcm"))
    assert not volume.lossy
    assert volume.spacing_mm == pytest.approx((5.0, 0.675781, 0.675781), abs=NEAR_MM)
    np.testing.assert_allclose(volume.origin_mm, [-161.399994, -148.800003, 4.7], atol=NEAR_MM)
    assert (volume.hu == native).all()


@pytest.mark.parametrize("syntax", LOSSY)
def test_lossy_encodings_are_read_and_flagged(test_data: Path, tmp_path: Path, syntax: str) -> None:
    volume = read_volume(continued(encoded(test_data, syntax), tmp_path))
    native = hounsfield(dcmread(test_data / "transfer_syntaxes" / "CTImage.dcm"))
    seen = native > AIR_HU
    assert volume.lossy
    assert any("有损" in flag for flag in volume.flags), volume.flags
    assert np.abs(volume.hu[0] - native)[seen].max() <= LOSSY[syntax]


@pytest.mark.parametrize("syntax", RETIRED)
def test_encodings_that_nothing_decodes_are_refused_by_name(test_data: Path, tmp_path: Path, syntax: str) -> None:
    path = encoded(test_data, syntax)
    paths = continued(path, tmp_path)
    with pytest.raises(Permanent) as caught:
        read_volume(paths)
    uid = dcmread(path, stop_before_pixels=True).file_meta.TransferSyntaxUID
    assert uid.name in str(caught.value) or str(uid) in str(caught.value), caught.value
    (told,) = survey(paths)
    assert not told.accepted
    assert uid.name in told.reason or str(uid) in told.reason, told.reason


# ---- enhanced


def test_the_legacy_converted_object_is_its_classic_slices(test_data: Path) -> None:
    path = test_data / "enhanced_ct" / "lidc_idri_0314_legacy_converted_enhanced_ct_12f.dcm"
    classic = {round(along(ds), 3): ds for ds in map(dcmread, files(test_data / CHEST))}
    enhanced = dcmread(path, stop_before_pixels=True)
    places = [
        round(float(group.PlanePositionSequence[0].ImagePositionPatient[2]), 3) for group in enhanced.PerFrameFunctionalGroupsSequence
    ]  # axial: the normal is z
    order = sorted(range(12), key=places.__getitem__)
    volume = read_volume([path])
    assert volume.frames == tuple(number + 1 for number in order)
    assert set(volume.sop_uids) == {str(enhanced.SOPInstanceUID)}
    assert volume.spacing_mm[1:] == pytest.approx((0.78125, 0.78125), abs=NEAR_MM)
    np.testing.assert_allclose(volume.along_mm, np.array(places)[order] - min(places), atol=NEAR_MM)
    for z, number in enumerate(order):
        ds = classic[places[number]]
        np.testing.assert_array_equal(volume.hu[z], hounsfield(ds))
        np.testing.assert_allclose(volume.to_patient(np.array([z, 0.0, 0.0])), [float(value) for value in ds.ImagePositionPatient], atol=NEAR_MM)


def test_a_perfusion_map_is_no_volume_of_hu(test_data: Path) -> None:
    refused([test_data / "enhanced_ct" / "eCT_Supplemental.dcm"], "HU", "PERFUSION", "灌注")


# ---- odd geometry


def refused(paths: Sequence[Path], *said: str) -> None:
    """By the reader and in the survey, for the same reason."""
    with pytest.raises(Permanent) as caught:
        read_volume(paths)
    assert any(word in str(caught.value) for word in said), caught.value
    rows = survey(paths)
    assert [row.accepted for row in rows] == [False] * len(rows), rows
    assert all(any(word in row.reason for word in said) for row in rows), rows


def test_images_at_one_place_are_no_volume(test_data: Path) -> None:
    refused(files(test_data / "bad_geometry" / "not_a_volume"), "同一位置", "定点", "追踪")


def test_the_missing_slice_is_told_with_its_place(test_data: Path) -> None:
    (told,) = survey(files(test_data / "bad_geometry" / "gap"))
    assert told.gaps == ((3, 1),)
    assert told.spacing_mm == pytest.approx((5.0, 0.429688, 0.429688), abs=NEAR_MM)


def test_the_missing_slice_is_told_where_the_stack_goes_on(test_data: Path, tmp_path: Path) -> None:
    """The four slices and, below them, copies of the first one: enough for a volume. The place is told as viewers number it."""
    paths = files(test_data / "bad_geometry" / "gap")
    more = continued(paths[0], tmp_path, 12, -5.0)[1:]
    volume = read_volume([*more, *paths])
    assert volume.hu.shape[0] == 15
    assert len(volume.flags) == 1
    assert "图像 9 与 10 之间" in volume.flags[0], volume.flags
    assert "1 层" in volume.flags[0], volume.flags
    np.testing.assert_allclose(np.diff(volume.along_mm), [*[5.0] * 13, 10.0], atol=NEAR_MM)


def tilted(test_data: Path, folder: Path) -> list[Path]:
    """The four slices of the head, three times, the table moving on along z by 5 mm as it does between them."""
    made = []
    for turn in range(3):
        for number, path in enumerate(files(test_data / "bad_geometry" / "tilt")):
            ds = dcmread(path)
            x, y, z = (float(value) for value in ds.ImagePositionPatient)
            ds.ImagePositionPatient = [x, y, round(z + 20.0 * turn, 9)]
            ds.SOPInstanceUID = ds.file_meta.MediaStorageSOPInstanceUID = generate_uid()
            made.append(folder / f"{turn}{number}.dcm")
            ds.save_as(made[-1])
    return made


def test_a_tilt_that_only_the_orientation_shows_is_resampled_in_place(test_data: Path, tmp_path: Path) -> None:
    """These images hold noise alone, which is like nothing but itself: found where the plane says that it lies, and not a pixel above or below."""
    paths = tilted(test_data, tmp_path)
    volume = read_volume(paths)
    assert any("倾斜" in flag and "14" in flag for flag in volume.flags), volume.flags
    np.testing.assert_allclose(volume.axes @ volume.axes.T, np.eye(3), atol=1e-6)
    rows, columns = np.mgrid[60:450:13, 60:450:13]
    for path in paths[3:9]:
        ds = dcmread(path)
        likeness = {move: _likeness(volume, ds, rows, columns, move) for move in (-1.0, 0.0, 1.0)}
        assert likeness[0.0] > 0.8, likeness
        assert max(likeness[-1.0], likeness[1.0]) < 0.5, likeness


def _likeness(volume: Volume, ds: Dataset, rows: NDArray[Any], columns: NDArray[Any], move: float) -> float:
    """Correlation between pixels of a plane and the volume at their places, `move` rows further on."""
    points = np.stack([place_mm(ds, row + move, column) for row, column in zip(rows.ravel(), columns.ravel(), strict=True)])
    index = volume.to_index(points)
    assert np.abs(index[:, 0] - np.rint(index[:, 0])).max() < 0.01, "planes stay planes"
    found = ndimage.map_coordinates(volume.hu.astype(np.float32), index.T, order=1, mode="constant", cval=np.nan)
    inside = np.isfinite(found)
    assert inside.mean() > 0.9
    return float(np.corrcoef(found[inside], hounsfield(ds)[rows, columns].ravel()[inside])[0, 1])


def test_a_tilt_is_refused_with_its_angle_where_the_site_says_so(test_data: Path, tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match=r"倾斜.*14\.0"):
        read_volume(tilted(test_data, tmp_path), tilt="refuse")


# ---- what no radiologist would call a volume

NOT_READ: dict[str, tuple[str, ...]] = {
    "not_for_reading/siemens_topogram_j2k.dcm": ("定位",),
    "not_for_reading/philips_surview.dcm": ("定位",),
    "not_for_reading/philips_exam_summary.dcm": ("二次", "截图", "Secondary", "定位", "摘要"),
    "dose_reports/CT-SC-Philips_Brilliance16P.dcm": ("剂量", "不含图像"),
    "dose_reports/CT-ESR-GE_Optima.dcm": ("剂量", "不含图像", "报告"),
    "dose_reports/CT-RDSR-Siemens-Continued-1.dcm": ("剂量", "不含图像", "报告"),
    "dose_reports/CT-RDSR-Siemens-Continued-2.dcm": ("剂量", "不含图像", "报告"),
    "dose_reports/CT-RDSR-Siemens_Flash-TAP-SS.dcm": ("剂量", "不含图像", "报告"),
    "dose_reports/CT-RDSR-Toshiba_DoseCheck.dcm": ("剂量", "不含图像", "报告"),
    "dose_reports/ESR_non-dose.dcm": ("剂量", "不含图像", "报告"),
    "odd_headers/CT_small.dcm": ("1 层", "仅 1"),
    "odd_headers/explicit_VR-UN.dcm": ("1 层", "仅 1"),
    "odd_headers/bad_sequence.dcm": ("1 层", "仅 1", "像素", "pixel"),
    "odd_headers/mlut_18.dcm": ("OT", "二次", "截图", "Secondary", "CT"),
    "odd_headers/MR_truncated.dcm": ("MR", "CT", "cut short"),
    "odd_headers/badVR.dcm": ("RTDOSE", "CT"),
}


@pytest.mark.parametrize("name", NOT_READ)
def test_single_objects_are_refused_for_what_they_are(test_data: Path, name: str) -> None:
    refused([test_data / name], *NOT_READ[name])


@pytest.mark.parametrize("folder", ["odd_headers", "dose_reports", "not_for_reading", "enhanced_ct", "malformed"])
def test_every_other_file_alone_is_refused_with_a_sentence(test_data: Path, folder: str) -> None:
    read = []
    for path in files(test_data / folder):
        try:
            read.append((path.name, read_volume([path]).hu.shape))
        except Permanent as error:
            assert len(str(error)) >= 4, path.name  # noqa: PT017  # each file of the folder; what is read is asserted below
        for row in survey([path]):
            assert row.accepted or len(row.reason) >= 4, (path.name, row)
    assert [name for name, _ in read] == (["lidc_idri_0314_legacy_converted_enhanced_ct_12f.dcm"] if folder == "enhanced_ct" else [])


def test_everything_at_once_is_sorted_out_by_the_survey(test_data: Path) -> None:
    """All folders but the encodings (one slice under one UID) and the fuzzed files: only the chest, in both forms, is a volume of many slices."""
    folders = ("chest_lidc_0314", "odd_headers", "enhanced_ct", "dose_reports", "bad_geometry", "not_for_reading")
    paths = [path for folder in folders for path in files(test_data / folder)]
    accepted = [row for row in survey(paths) if row.accepted]
    assert {28, 12} <= {row.shape[0] for row in accepted}
    assert all(row.shape[0] >= 4 for row in accepted)


def test_the_modality_lut_of_mlut_18_is_no_scale_of_hu(test_data: Path, tmp_path: Path) -> None:
    """Its pixels in a CT stack: the table says 'US' (unspecified), so the values are told or refused, never taken for HU in silence."""
    paths = _as_ct(test_data / "odd_headers" / "mlut_18.dcm", tmp_path, lambda ds: None)
    try:
        volume = read_volume(paths)
    except Unsupported as error:
        assert "LUT" in str(error)  # noqa: PT017
    else:
        assert any("LUT" in flag for flag in volume.flags)
        _assert_mapped(volume.hu, paths[0])


def test_the_modality_lut_of_mlut_18_maps_its_pixels(test_data: Path, tmp_path: Path) -> None:
    """The same with a table that says HU: 4096 entries from −2048, signed pixels of 12 bits."""

    def in_hu(ds: Dataset) -> None:
        ds.ModalityLUTSequence[0].ModalityLUTType = "HU"

    paths = _as_ct(test_data / "odd_headers" / "mlut_18.dcm", tmp_path, in_hu)
    _assert_mapped(read_volume(paths).hu, paths[0])


def _assert_mapped(hu: NDArray[Any], path: Path) -> None:
    ds = dcmread(path)
    words = np.frombuffer(ds.PixelData, dtype="<u2").reshape(ds.Rows, ds.Columns)
    item = ds.ModalityLUTSequence[0]
    data = item["LUTData"].value
    table = np.frombuffer(data, dtype="<u2") if isinstance(data, bytes) else np.array(data)
    index = np.clip(stored_values(words, ds.BitsStored, True) - int(item.LUTDescriptor[1]), 0, len(table) - 1)
    np.testing.assert_array_equal(hu[0], np.maximum(table[index].astype(np.int64), AIR_HU))


def _as_ct(path: Path, folder: Path, change: Callable[[Dataset], None]) -> list[Path]:
    ds = dcmread(path)
    ds.SOPClassUID = ds.file_meta.MediaStorageSOPClassUID = CTImageStorage
    ds.Modality, ds.ImageType = "CT", ["ORIGINAL", "PRIMARY", "AXIAL"]
    ds.ImagePositionPatient, ds.ImageOrientationPatient, ds.PixelSpacing = [0, 0, 0], [1, 0, 0, 0, 1, 0], [0.7, 0.7]
    change(ds)
    ds.save_as(folder / "source")
    return continued(folder / "source", folder)
