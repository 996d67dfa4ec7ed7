from pathlib import Path

import pytest
from pydicom import dcmread
from pydicom.uid import CTImageStorage, MultiFrameGrayscaleWordSecondaryCaptureImageStorage

from pipeline.evaluation import receive_files
from pipeline.evaluation.receive_files import Pool, image, warm


def test_images_are_shared_evenly_and_each_association_has_a_study_of_its_own(tmp_path: Path) -> None:
    shares = Pool(tmp_path).shares("small", 3, 8)
    assert [len(share) for share in shares] == [3, 3, 2]
    headers = [[dcmread(path, stop_before_pixels=True) for path in share] for share in shares]
    assert [len({ds.StudyInstanceUID for ds in share}) for share in headers] == [1, 1, 1]
    assert len({share[0].StudyInstanceUID for share in headers}) == 3
    assert len({ds.SOPInstanceUID for share in headers for ds in share}) == 8


def test_a_small_object_is_a_ct_slice_of_half_a_megabyte(tmp_path: Path) -> None:
    ((path,),) = Pool(tmp_path).shares("small", 1, 1)
    ds = dcmread(path)
    assert ds.SOPClassUID == CTImageStorage
    assert ds.pixel_array.shape == (512, 512)
    assert 524_288 < path.stat().st_size < 530_000
    assert warm([[path]]) == path.stat().st_size


def test_files_are_made_once_and_are_new_in_each_run(tmp_path: Path) -> None:
    pool = Pool(tmp_path / "one")
    first = dcmread(pool.files("small", 0, 1)[0]).SOPInstanceUID
    assert dcmread(pool.files("small", 0, 2)[0]).SOPInstanceUID == first
    assert dcmread(Pool(tmp_path / "two").files("small", 0, 1)[0]).SOPInstanceUID != first


def test_a_large_object_has_many_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receive_files, "FRAMES", {"large": 2})
    ds = image("large", 0, "1.2", "1.2.3")
    assert ds.SOPClassUID == MultiFrameGrayscaleWordSecondaryCaptureImageStorage
    assert ds.NumberOfFrames == 2
    assert len(ds.PixelData) == 2 * 512 * 512 * 2
