"""The series of the volume benchmark: even steps, pixels of its own in each slice, nothing told by file names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from openjpeg.utils import decode_pixel_data
from pydicom import dcmread
from pydicom.encaps import get_frame
from pydicom.uid import ExplicitVRLittleEndian, JPEG2000Lossless

from pipeline.errors import Permanent
from pipeline.evaluation.volume_files import J2K, NATIVE, slice_of, sources, write_series
from tests.builders import ct_slice, write

COUNT = 11


@pytest.fixture
def source(tmp_path: Path) -> list[Path]:
    """Four slices of noise, unevenly spaced, the file names against their order."""
    pixels = np.random.default_rng(1).integers(0, 4096, (4, 64, 64)).astype(np.int16)
    write(
        tmp_path / "source",
        [ct_slice(z_mm=-7.0 * index**2, number=index, pixels=pixels[index], BitsStored=12, HighBit=11, PixelRepresentation=0) for index in range(4)],
    )
    return sources(tmp_path / "source", tmp_path)[0]


def quiet(done: float, line: str) -> None:
    assert 0 < done <= 1


def test_sources_are_the_lowest_first(source: list[Path]) -> None:
    assert [path.name for path in source] == ["0003.dcm", "0002.dcm", "0001.dcm", "0000.dcm"]


def test_both_series_hold_the_same_slices(source: list[Path], tmp_path: Path) -> None:
    stored: dict[str, dict[float, np.ndarray]] = {}
    for name, syntax in ((NATIVE, ExplicitVRLittleEndian), (J2K, JPEG2000Lossless)):
        series = write_series(name, tmp_path / name, source, quiet, COUNT)
        found = [dcmread(path) for path in sorted(series.folder.iterdir())]
        assert {ds.file_meta.TransferSyntaxUID for ds in found} == {syntax}
        assert len({ds.SOPInstanceUID for ds in found}) == COUNT
        assert len({(ds.SeriesInstanceUID, ds.StudyInstanceUID, ds.FrameOfReferenceUID) for ds in found}) == 1
        places = [float(ds.ImagePositionPatient[2]) for ds in found]
        assert sorted(places) == list(map(float, range(COUNT)))
        assert places != sorted(places), "file names say nothing of the place"
        stored[name] = {place: _pixels(ds) for place, ds in zip(places, found, strict=True)}
    for place in map(float, range(COUNT)):
        np.testing.assert_array_equal(stored[NATIVE][place], stored[J2K][place])
    assert len({pixels.tobytes() for pixels in stored[NATIVE].values()}) == COUNT, "each slice has pixels of its own"


def _pixels(ds: object) -> np.ndarray:
    found = dcmread(ds.filename)  # type: ignore[attr-defined]  # a file's data set
    if found.file_meta.TransferSyntaxUID == ExplicitVRLittleEndian:
        return np.frombuffer(found.PixelData, "<u2").reshape(found.Rows, found.Columns)
    return np.frombuffer(decode_pixel_data(get_frame(found.PixelData, 0, number_of_frames=1), version=2), "<u2").reshape(64, 64)


def test_a_rolled_slice_has_the_noise_of_its_source(source: list[Path]) -> None:
    original = dcmread(source[1]).pixel_array
    rolled = slice_of(source, ("1.2", "1.3", "1.4"), 9).pixel_array
    assert not np.array_equal(original, rolled)
    np.testing.assert_array_equal(np.sort(original, axis=None), np.sort(rolled, axis=None))


def test_without_test_data_the_slices_are_a_phantoms(tmp_path: Path) -> None:
    found, name = sources(None, tmp_path)
    assert len(found) > 12
    assert name.startswith("phantom")


def test_no_source_is_said_with_the_next_step(tmp_path: Path) -> None:
    with pytest.raises(Permanent, match="CTREPORT_TEST_DATA"):
        write_series(NATIVE, tmp_path / "none", [], quiet)
