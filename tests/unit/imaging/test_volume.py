from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pydicom import DataElement, Dataset, dcmread

from pipeline.errors import PipelineError, UnreadableDicom, Unsupported
from pipeline.imaging.volume import AIR_HU, Volume, read_volume
from pipeline.training.phantom import draw
from pipeline.training.phantom_dicom import write_study

VR = {
    "InstanceNumber": "IS",
    "SliceLocation": "DS",
    "ImagePositionPatient": "DS",
    "ImageOrientationPatient": "DS",
    "RescaleType": "LO",
    "PixelData": "OW",
    "PixelPaddingValue": "US",
}

SEED = 17  # supine, head first, 5 mm


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Files of a phantom's axial series."""
    folder = tmp_path_factory.mktemp("phantom")
    write_study(folder, SEED, localizer=False)
    return sorted(folder.glob("*.dcm"))


@pytest.fixture(scope="module")
def real(test_data: Path) -> Volume:
    return read_volume(sorted((test_data / "chest_lidc_0314").glob("*.dcm")))


def edited(paths: list[Path], folder: Path, **values: object) -> list[Path]:
    """Copies of the files; each value is a function of the slice's rank in instance order."""
    copies = []
    for rank, path in enumerate(paths):
        ds = dcmread(path)
        for keyword, value in values.items():
            ds[keyword] = DataElement(keyword, VR[keyword], value(rank, ds) if callable(value) else value)
        copies.append(folder / path.name)
        ds.save_as(copies[-1])
    return copies


def test_a_phantom_is_read_with_its_geometry(study: list[Path]) -> None:
    volume = read_volume(study)
    assert volume.hu.shape == draw(SEED).scan.shape
    assert volume.hu.dtype == np.int16
    assert volume.spacing_mm == pytest.approx(draw(SEED).scan.spacing_mm)
    assert volume.acquisition.thickness_mm == 5.0
    assert volume.flags == ()


def test_slices_are_sorted_by_position_however_files_and_instance_numbers_are_ordered(study: list[Path], tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    numbers = rng.permutation(len(study))
    shuffled = edited(study, tmp_path, InstanceNumber=lambda rank, _: int(numbers[rank]), SliceLocation=lambda rank, _: float(-rank))
    straight, mixed = read_volume(study), read_volume([shuffled[i] for i in rng.permutation(len(study))])
    assert mixed.sop_uids == straight.sop_uids
    np.testing.assert_array_equal(mixed.hu, straight.hu)


def test_the_real_chest_is_one_volume_though_every_slice_has_its_own_frame_of_reference(real: Volume) -> None:
    assert real.hu.shape == (28, 512, 512)
    assert real.spacing_mm == pytest.approx((7.0, 0.78125, 0.78125), abs=0.01)
    assert real.along_mm[-1] == pytest.approx(float(np.diff(real.along_mm).sum()))
    assert any(flag.endswith("之间间距 37.0 mm，疑缺 4 层") for flag in real.flags)  # the set was thinned unevenly: said with its place
    assert real.axes[0] == pytest.approx([0, 0, 1])
    assert len(set(real.sop_uids)) == 28
    assert real.hu.min() >= AIR_HU


def test_hu_of_the_real_chest_equal_slope_and_intercept_of_each_slice(real: Volume, test_data: Path) -> None:
    for path in sorted((test_data / "chest_lidc_0314").glob("*.dcm"))[:5]:
        ds = dcmread(path)
        expected = np.maximum(ds.pixel_array.astype(np.float32) * float(ds.RescaleSlope) + float(ds.RescaleIntercept), AIR_HU)
        found = real.hu[real.sop_uids.index(str(ds.SOPInstanceUID))]
        np.testing.assert_array_equal(found, expected)


def test_voxel_and_patient_coordinates_are_inverse(real: Volume) -> None:
    index = np.array([[0.0, 0.0, 0.0], [27.0, 511.0, 511.0], [13.5, 100.25, 300.75]])
    np.testing.assert_allclose(real.to_index(real.to_patient(index)), index, atol=1e-6)


def test_the_first_voxel_lies_at_the_lowest_image_position(real: Volume, test_data: Path) -> None:
    lowest = min(
        (dcmread(p, stop_before_pixels=True) for p in (test_data / "chest_lidc_0314").glob("*.dcm")), key=lambda d: d.ImagePositionPatient[2]
    )
    np.testing.assert_allclose(real.to_patient(np.zeros(3)), [float(v) for v in lowest.ImagePositionPatient], atol=0.01)


def test_padding_and_values_outside_the_field_of_view_become_air(study: list[Path], tmp_path: Path) -> None:
    def with_padding(_: int, ds: Dataset) -> bytes:
        pixels = ds.pixel_array.copy()
        pixels[0, 0] = 3000
        return bytes(pixels.tobytes())

    volume = read_volume(edited(study, tmp_path, PixelData=with_padding, PixelPaddingValue=3000))
    assert (volume.hu[:, 0, 0] == AIR_HU).all()


@pytest.mark.parametrize("folder", ["bad_geometry/tilt", "bad_geometry/not_a_volume", "bad_geometry/gap", "enhanced_ct", "not_for_reading"])
def test_what_is_no_volume_is_refused_with_a_sentence(test_data: Path, folder: str) -> None:
    paths = sorted(p for p in (test_data / folder).rglob("*") if p.is_file() and p.suffix in ("", ".dcm"))
    with pytest.raises(PipelineError, match=r"\S{4,}"):
        read_volume(paths)


def test_several_images_at_one_place_are_refused_with_their_number(study: list[Path], tmp_path: Path) -> None:
    same = edited(study[:10], tmp_path, ImagePositionPatient=[0.0, 0.0, 5.0])
    with pytest.raises(Unsupported, match="10 层位于同一位置"):
        read_volume(same)


def test_a_missing_slice_is_reported_with_its_place(study: list[Path]) -> None:
    kept = study[:20] + study[21:]
    assert read_volume(kept).flags == ("图像 22 与 20 之间间距 10.0 mm，疑缺 1 层",)


def test_a_stack_with_a_wide_hole_is_refused(study: list[Path]) -> None:
    with pytest.raises(Unsupported, match="缺层过多"):
        read_volume(study[:20] + study[35:])


def test_mixed_orientation_is_refused(study: list[Path], tmp_path: Path) -> None:
    mixed = edited(study, tmp_path, ImageOrientationPatient=lambda rank, _: [1, 0, 0, 0, 1, 0] if rank else [0, 1, 0, 0, 0, -1])
    with pytest.raises(Unsupported, match="方向不一致"):
        read_volume(mixed)


def test_a_sheared_stack_is_put_straight_or_refused_as_the_site_says(study: list[Path], tmp_path: Path) -> None:
    tilted = edited(study, tmp_path, ImageOrientationPatient=[1, 0, 0, 0, 0.9703, -0.2419])
    with pytest.raises(Unsupported, match="倾斜 14"):
        read_volume(tilted, tilt="refuse")
    straight, leaning = read_volume(study), read_volume(tilted)
    assert leaning.flags == ("层面相对堆叠方向倾斜 14.0°（机架倾斜），已在层面内移位重采样为直角网格",)
    assert leaning.hu.shape[1] > straight.hu.shape[1]
    np.testing.assert_allclose(leaning.axes @ leaning.axes.T, np.eye(3), atol=1e-9)
    step_mm = draw(SEED).scan.spacing_mm[1]
    for z in (0, 31, 59):  # a pixel of a slice lies where its header puts it
        ds = dcmread(tilted[[str(dcmread(p).SOPInstanceUID) for p in tilted].index(leaning.sop_uids[z])])
        point = np.array([float(v) for v in ds.ImagePositionPatient]) + step_mm * np.array([100.0, 90 * 0.9703, -90 * 0.2419])
        found = leaning.to_index(point)
        assert found[0] == pytest.approx(z, abs=2e-3)
        low = int(found[1])
        between = np.interp(found[1], [low, low + 1], leaning.hu[z, low : low + 2, round(found[2])])
        around = straight.hu[z, 88:93, 100]
        assert around.min() - 1 <= between <= around.max() + 1


def test_values_that_are_not_hu_are_refused(study: list[Path], tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="RescaleType"):
        read_volume(edited(study, tmp_path, RescaleType="MGML"))


def test_fewer_than_eight_slices_are_no_volume(study: list[Path]) -> None:
    with pytest.raises(Unsupported, match="仅 7 层"):
        read_volume(study[:7])


def test_a_file_that_is_no_dicom_is_unreadable(study: list[Path], tmp_path: Path) -> None:
    (tmp_path / "x.dcm").write_bytes(b"no image at all")
    with pytest.raises(UnreadableDicom):
        read_volume([*study, tmp_path / "x.dcm"])


@pytest.mark.parametrize(
    ("keyword", "value"),
    [("PixelSpacing", [1.5]), ("RescaleSlope", [1.0, 2.0]), ("ImagePositionPatient", [0.0, 0.0]), ("ImageOrientationPatient", [1.0, 0.0, 0.0])],
)
def test_malformed_geometry_is_a_sentence_and_never_another_exception(study: list[Path], tmp_path: Path, keyword: str, value: list[float]) -> None:
    for path in study:
        ds = dcmread(path)
        setattr(ds, keyword, value)
        ds.save_as(tmp_path / path.name)
    with pytest.raises(PipelineError):
        read_volume(sorted(tmp_path.glob("*.dcm")))
