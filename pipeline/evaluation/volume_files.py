"""The series that the volume benchmark reads: 275 slices, 1 mm apart, each with pixels of its own, native or in JPEG 2000 lossless.

Made when the benchmark runs, from real chest slices where the public test data is there, else from a phantom; never stored in the project.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from openjpeg.utils import encode_array
from pydicom import Dataset, dcmread
from pydicom.encaps import encapsulate
from pydicom.uid import UID, ExplicitVRLittleEndian, JPEG2000Lossless, generate_uid

from pipeline.errors import Permanent, StorageFull

SLICES = 275
STEP_MM = 1.0
SLICE_BYTES = 2 * 512 * 512
NATIVE, J2K = "native", "j2k"
SYNTAXES: dict[str, UID] = {NATIVE: ExplicitVRLittleEndian, J2K: JPEG2000Lossless}
SPARE_BYTES = 1 << 29
PROCESSES = 2
PHANTOM_SEED = 1
NAMES_SEED = 275
Told = Callable[[float, str], None]


@dataclass(frozen=True, slots=True)
class Series:
    """A folder with one series and nothing else. `name`: native or j2k."""

    name: str
    folder: Path
    slices: int


def sources(data: Path | None, scratch: Path) -> tuple[list[Path], str]:
    """Slices to make a series from, lowest first, and what they are: those of `data`, else of a phantom that is written below `scratch`."""
    if data is not None:
        return _sorted(data.glob("*.dcm")), data.name
    from pipeline.training.phantom_dicom import write_study

    write_study(scratch, PHANTOM_SEED, localizer=False)
    return _sorted(scratch.rglob("*.dcm")), f"phantom, seed {PHANTOM_SEED}"


def write_series(name: str, folder: Path, source: Sequence[Path], told: Told, slices: int = SLICES) -> Series:
    """Write the series into `folder`, which is made. Raises Permanent without source slices, StorageFull where the disk is too small."""
    if not source:
        raise Permanent("there are no CT slices to make the series from; set CTREPORT_TEST_DATA to the folder of the public test data")
    folder.mkdir(parents=True)
    require_room(folder, slices)
    uids = (generate_uid(), generate_uid(), generate_uid())
    files = [folder / f"{number:04d}.dcm" for number in np.random.default_rng(NAMES_SEED).permutation(slices)]  # names say nothing of the place
    with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as pool:
        for done, _ in enumerate(pool.map(_write, repeat(source), repeat(uids), range(slices), repeat(name), files, chunksize=8), 1):
            told(done / slices, f"{name}: slice {done} of {slices}")
    return Series(name, folder, slices)


def require_room(folder: Path, slices: int) -> None:
    """Raises StorageFull where one series more does not fit."""
    need, free = slices * SLICE_BYTES + SPARE_BYTES, shutil.disk_usage(folder).free
    if free < need:
        raise StorageFull(f"{folder} has {free >> 20} MiB free and the benchmark needs {need >> 20}: make room or choose another folder (--work)")


def slice_of(source: Sequence[Path], uids: Sequence[str], index: int) -> Dataset:
    """Slice `index`, native: the source slice whose turn it is, with UIDs and a place of its own and its pixels rolled in plane.

    Rolled, not interpolated: the noise stays as it was, so that a decoder has as much to do as with the original.
    """
    ds = dcmread(source[index % len(source)])
    stored, turn = ds.pixel_array, index // len(source)
    ds.SOPInstanceUID = ds.file_meta.MediaStorageSOPInstanceUID = generate_uid(entropy_srcs=[uids[1], str(index)])
    ds.StudyInstanceUID, ds.SeriesInstanceUID, ds.FrameOfReferenceUID = uids
    x_mm, y_mm, _ = (float(value) for value in ds.ImagePositionPatient)
    ds.ImagePositionPatient, ds.SliceLocation = [x_mm, y_mm, index * STEP_MM], index * STEP_MM
    ds.InstanceNumber, ds.SliceThickness = index + 1, STEP_MM
    ds.PixelData = np.roll(stored, (3 * turn, 5 * turn), axis=(0, 1)).astype("<i2" if ds.PixelRepresentation else "<u2").tobytes()
    ds["PixelData"].VR = "OW"
    ds.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    return ds


def _write(source: Sequence[Path], uids: Sequence[str], index: int, name: str, path: Path) -> None:
    ds = slice_of(source, uids, index)
    if name == J2K:
        _compress(ds)
    ds.save_as(path, enforce_file_format=True, implicit_vr=False, little_endian=True)


def _compress(ds: Dataset) -> None:
    stream = encode_array(ds.pixel_array, bits_stored=ds.BitsStored)
    ds.PixelData = encapsulate([stream])
    ds["PixelData"].VR, ds["PixelData"].is_undefined_length = "OB", True
    ds.file_meta.TransferSyntaxUID = JPEG2000Lossless


def _sorted(paths: Iterable[Path]) -> list[Path]:
    return sorted(paths, key=lambda path: float(dcmread(path, stop_before_pixels=True).ImagePositionPatient[2]))
