"""A phantom as DICOM: one axial CT series and one localizer, with `truth.json` beside them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from uuid import UUID, uuid5

import numpy as np
from numpy.typing import NDArray
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian

from pipeline.training.phantom import Phantom, draw
from pipeline.training.render import Grid, grid_of, render
from pipeline.training.scanners import TRAINED, Scan, Scanners

INTERCEPT_HU = -1024
NAMES = UUID("5f9d52e0-6b1c-5d5e-9a77-0c8a3f4f6b10")
PATIENT_NAME = "CESHI^TIMO=测试^体模"
STUDY_DATE = "20260105"
INDICATION = "咳嗽"
AGENT = "碘海醇"
# PatientPosition → along x a row runs, along y a column: the gantry's axes in the patient's (PS3.3 C.7.6.2.1.1)
TURNS = {"HFS": (1, 1), "FFS": (-1, 1), "HFP": (-1, -1), "FFP": (1, -1)}
CORONAL = [1.0, 0.0, 0.0, 0.0, 0.0, -1.0]


@dataclass(frozen=True, slots=True)
class _Place:
    """Where one image belongs: its series, its number there and its plane in LPS."""

    series: str
    number: int
    image_type: tuple[str, ...]
    position_mm: tuple[float, float, float]
    orientation: list[float]
    spacing_mm: tuple[float, float]
    thickness_mm: float


def write_study(folder: Path, seed: int, *, localizer: bool = True, scanners: Scanners = TRAINED, scan: Scan | None = None) -> tuple[str, ...]:
    """Write the phantom of a seed into `folder`; returns every SOP Instance UID written. The same seed gives the same bytes. `scan`: a grid and
    position of the caller's in the place of those that the seed draws."""
    phantom = draw(seed, scanners)
    if scan is not None:
        phantom = replace(phantom, scan=scan)
    grid = grid_of(phantom.scan)
    hu = render(phantom, grid)  # (Z, Y, X)
    folder.mkdir(parents=True, exist_ok=True)
    images = [_slice(phantom, grid, hu, index) for index in range(len(hu))]
    if localizer:
        images.append(_localizer(phantom, grid, hu))
    for ds in images:
        ds.save_as(folder / f"{ds.SeriesNumber}-{ds.InstanceNumber:04d}.dcm", enforce_file_format=True)
    (folder / "truth.json").write_text(phantom.truth.dumps() + "\n", encoding="utf-8")
    return tuple(str(ds.SOPInstanceUID) for ds in images)


def phantom_uid(seed: int, *parts: object) -> str:
    """A UID under 2.25 that the seed and the parts decide (PS3.5 B.2, from a name-based UUID)."""
    return f"2.25.{uuid5(NAMES, '/'.join(str(part) for part in (seed, *parts))).int}"


def _slice(phantom: Phantom, grid: Grid, hu: NDArray[np.float32], index: int) -> Dataset:
    """Axial image `index` counted from the feet, turned as the patient lies; instance numbers run from the head, as scanners count."""
    along_x, along_y = TURNS[phantom.scan.position]
    z_mm, y_mm, x_mm = phantom.scan.spacing_mm
    position = (float(grid.x_mm[::along_x][0]), float(grid.y_mm[::along_y][0]), float(grid.z_mm[index]))
    orientation = [float(along_x), 0.0, 0.0, 0.0, float(along_y), 0.0]
    place = _Place("axial", len(hu) - index, ("ORIGINAL", "PRIMARY", "AXIAL"), position, orientation, (y_mm, x_mm), z_mm)
    return _image(phantom, place, hu[index, ::along_y, ::along_x])


def _localizer(phantom: Phantom, grid: Grid, hu: NDArray[np.float32]) -> Dataset:
    """The view from the front: something that choosing a series has to refuse."""
    position = (float(grid.x_mm[0]), 0.0, float(grid.z_mm[-1]))
    z_mm, _, x_mm = phantom.scan.spacing_mm
    place = _Place("localizer", 1, ("ORIGINAL", "PRIMARY", "LOCALIZER"), position, CORONAL, (z_mm, x_mm), 300.0)
    return _image(phantom, place, hu.mean(axis=1)[::-1])


def _image(phantom: Phantom, place: _Place, hu: NDArray[np.float32]) -> Dataset:
    ds = Dataset()
    seed = phantom.truth.seed
    ds.SpecificCharacterSet = "ISO_IR 192"
    ds.SOPClassUID = CTImageStorage
    ds.SOPInstanceUID = phantom_uid(seed, place.series, place.number)
    _patient_and_study(ds, phantom)
    _acquisition(ds, phantom, place)
    _plane(ds, seed, place)
    _pixels(ds, hu)
    ds.file_meta = FileMetaDataset()
    ds.file_meta.MediaStorageSOPClassUID = CTImageStorage
    ds.file_meta.MediaStorageSOPInstanceUID = ds.SOPInstanceUID
    ds.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    return ds


def _patient_and_study(ds: Dataset, phantom: Phantom) -> None:
    seed = phantom.truth.seed
    ds.PatientName = PATIENT_NAME
    ds.PatientID = f"PHANTOM-{seed}"
    ds.PatientBirthDate = ""
    ds.PatientSex = "O"
    ds.StudyInstanceUID = phantom_uid(seed, "study")
    ds.StudyID = str(seed % 10**16)
    ds.AccessionNumber = f"P{seed % 10**14}"
    ds.StudyDate = ds.SeriesDate = ds.ContentDate = ds.AcquisitionDate = STUDY_DATE
    ds.StudyTime = ds.SeriesTime = ds.ContentTime = ds.AcquisitionTime = "080000"
    ds.ReferringPhysicianName = ""
    ds.StudyDescription = ds.RequestedProcedureDescription = "胸部CT增强" if phantom.truth.contrast else "胸部CT平扫"
    ds.ReasonForTheRequestedProcedure = INDICATION


def _acquisition(ds: Dataset, phantom: Phantom, place: _Place) -> None:
    truth, localizer = phantom.truth, place.series == "localizer"
    ds.Modality = "CT"
    ds.Manufacturer = "ctreport phantom"
    ds.StationName = "PHANTOM"
    ds.BodyPartExamined = "CHEST"
    ds.PatientPosition = phantom.scan.position
    ds.SeriesDescription = "定位像" if localizer else ("胸部增强" if truth.contrast else "胸部平扫") + " 低剂量" * truth.low_dose
    if truth.contrast and not localizer:
        ds.ContrastBolusAgent = AGENT
    ds.SeriesNumber = 1 if localizer else 2
    ds.AcquisitionNumber = ds.SeriesNumber
    ds.ImageType = list(place.image_type)
    ds.KVP = f"{truth.kvp:g}"
    ds.Exposure = str(round(truth.mas))
    ds.ConvolutionKernel = truth.kernel
    ds.SliceThickness = f"{place.thickness_mm:g}"


def _plane(ds: Dataset, seed: int, place: _Place) -> None:
    ds.SeriesInstanceUID = phantom_uid(seed, place.series)
    ds.FrameOfReferenceUID = phantom_uid(seed, "frame")
    ds.PositionReferenceIndicator = ""
    ds.InstanceNumber = place.number
    ds.ImagePositionPatient = [round(value, 3) for value in place.position_mm]
    ds.ImageOrientationPatient = place.orientation
    ds.PixelSpacing = list(place.spacing_mm)


def _pixels(ds: Dataset, hu: NDArray[np.float32]) -> None:
    stored = np.clip(np.rint(hu) - INTERCEPT_HU, 0, 4095).astype("<u2")  # (rows, columns)
    ds.Rows, ds.Columns = stored.shape
    ds.SamplesPerPixel = 1
    ds.PhotometricInterpretation = "MONOCHROME2"
    ds.BitsAllocated, ds.BitsStored, ds.HighBit, ds.PixelRepresentation = 16, 12, 11, 0
    ds.RescaleSlope, ds.RescaleIntercept, ds.RescaleType = "1", str(INTERCEPT_HU), "HU"
    ds.WindowCenter, ds.WindowWidth = "-600", "1500"
    ds.PixelData = stored.tobytes()
