"""What the choice takes out of a series that is no volume as a whole can be read as one, from files to HU."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from pydicom.dataset import Dataset

from pipeline.imaging.kinds import NO_VOLUME, WORDS
from pipeline.imaging.survey import survey
from pipeline.imaging.volume import Volume, read_volume
from tests.builders import ct_slice, uid_of, write
from tests.integration.flow.test_choosing_real import chosen, filed

PIXELS = np.full((16, 16), 1024, np.int16)


def steps(count: int, start_mm: float = 0.0, step_mm: float = 5.0) -> list[float]:
    return [start_mm + step_mm * n for n in range(count)]


def slices(alongs: Sequence[float], first: int = 1, hu: int = 0, **keywords: object) -> list[Dataset]:
    """Axial slices of one value at these places."""
    pixels = (PIXELS + hu).astype(np.int16)  # (rows, columns)
    return [ct_slice(z_mm=z, number=first + n, pixels=pixels, **keywords) for n, z in enumerate(alongs)]  # type: ignore[arg-type]  # DICOM keywords


def read(folder: Path, datasets: Sequence[Dataset]) -> Volume:
    """The volume of what is chosen among these images."""
    by_uid = {str(ds.SOPInstanceUID): path for ds, path in zip(datasets, write(folder, datasets), strict=True)}
    (series,) = chosen(*filed(folder)).chosen
    return read_volume([by_uid[image.sop_uid] for image in series.instances])


def test_one_of_two_passes_over_the_same_body(tmp_path: Path) -> None:
    both = slices(steps(12), AcquisitionNumber=1) + slices(steps(12), 13, 100, AcquisitionNumber=2)
    volume = read(tmp_path, both)
    assert (volume.hu.shape[0], np.unique(volume.hu).tolist()) == (12, [0])


def test_one_phase_of_a_4d_series(tmp_path: Path) -> None:
    phases = [one for phase in (1, 2, 3) for one in slices(steps(10), 10 * phase, 100 * phase, TemporalPositionIdentifier=phase)]
    volume = read(tmp_path, phases)
    assert (volume.hu.shape[0], np.unique(volume.hu).tolist()) == (10, [100])


def test_two_breath_holds_are_one_volume_with_each_place_once(tmp_path: Path) -> None:
    volume = read(tmp_path, slices(steps(10), AcquisitionNumber=1) + slices(steps(10, 45.0), 11, 100, AcquisitionNumber=2))
    assert np.diff(volume.along_mm).tolist() == pytest.approx([5.0] * 18)


def test_the_scan_beside_its_localizer_and_the_images_that_follow_the_bolus(tmp_path: Path) -> None:
    kind = ("ORIGINAL", "PRIMARY", "AXIAL", "CT_SOM5 MON")
    bolus = [one for n in range(9) for one in slices([30.0], n + 1, 300, AcquisitionNumber=1, image_type=kind)]
    localizer = slices([0.0], 40, image_type=("ORIGINAL", "PRIMARY", "LOCALIZER"))
    volume = read(tmp_path, [*bolus, *localizer, *slices(steps(12), 10, AcquisitionNumber=2)])
    assert (volume.hu.shape[0], np.unique(volume.hu).tolist()) == (12, [0])


def test_the_chest_beside_coronal_images_of_the_same_series(tmp_path: Path) -> None:
    coronal = slices(steps(9), 40, 500, orientation=(1.0, 0.0, 0.0, 0.0, 0.0, -1.0))
    for n, ds in enumerate(coronal):
        ds.ImagePositionPatient = [0.0, 5.0 * n, 0.0]
    volume = read(tmp_path, [*coronal, *slices(steps(12))])
    assert (volume.hu.shape[0], np.unique(volume.hu).tolist()) == (12, [0])


TWO_PHASES = {
    "both count their slices from 1": [(z, phase, z + 1) for z in range(12) for phase in (0, 1)],
    "none has a number": [(z, phase, None) for z in range(12) for phase in (0, 1)],
    "one after the other at each place, and one lacks a slice": [(z, p, 2 * z + p + 1) for z in range(12) for p in (0, 1) if (z, p) != (4, 0)],
    "the second begins where the first has none": [*((z, 0, z) for z in range(3, 14)), *((z, 1, 100 + z) for z in range(14))],
    "the second comes back from farther up": [*((z, 0, z) for z in range(10)), *((z, 1, 100 - z) for z in range(13, -1, -1))],
}


@pytest.mark.parametrize("places", TWO_PHASES.values(), ids=TWO_PHASES)
def test_two_phases_at_the_same_places_are_never_one_volume(tmp_path: Path, places: list[tuple[int, int, int | None]]) -> None:
    """One acquisition number, one kind of image: only the kernel tells them apart, which the choice does not see of each image."""
    images = []
    for z, phase, number in places:
        (ds,) = slices([5.0 * z], number or 0, 100 * phase, ConvolutionKernel=("B30f", "B70f")[phase])
        ds.SOPInstanceUID = ds.file_meta.MediaStorageSOPInstanceUID = uid_of("two phases", z, phase)
        ds.InstanceNumber = number
        images.append(ds)
    assert len(np.unique(read(tmp_path, images).hu)) == 1


REFUSED = [word for kind, words in WORDS if kind in NO_VOLUME for word in sorted(words)]


@pytest.mark.parametrize("word", [*REFUSED, "CT_SOM5 MIP", "CSA MINIP"])
def test_what_the_reader_refuses_by_its_type_is_not_chosen_beside_a_series_that_it_reads(tmp_path: Path, word: str) -> None:
    """The refused one is thinner and larger; the study would end unread."""
    worse = slices(steps(24, step_mm=1.0), 100, 500, image_type=("ORIGINAL", "PRIMARY", "AXIAL", word), series="worse", SliceThickness=1.0)
    assert survey(write(tmp_path / "worse", worse))[0].accepted is False
    volume = read(tmp_path / "both", [*worse, *slices(steps(12))])
    assert (volume.hu.shape[0], np.unique(volume.hu).tolist()) == (12, [0])


def test_a_series_torn_apart_is_not_chosen_beside_a_whole_one(tmp_path: Path) -> None:
    """The softer kernel has more points, and a hole that nothing may be interpolated across."""
    torn = slices([z for z in steps(30, step_mm=10.0) if not 120 < z < 170], ConvolutionKernel="B30f", SliceThickness=10.0, series="torn")
    whole = slices(steps(30, step_mm=10.0), 1, 100, ConvolutionKernel="B70f", SliceThickness=10.0, series="whole")
    assert "缺层过多" in survey(write(tmp_path / "torn", torn))[0].reason
    volume = read(tmp_path / "both", [*torn, *whole])
    assert (volume.hu.shape[0], np.unique(volume.hu).tolist()) == (30, [100])
