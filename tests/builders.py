"""Small builders of DICOM data sets and model values: valid by default, every trait a keyword."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from uuid import UUID, uuid4

import numpy as np
from numpy.typing import NDArray
from pydicom.dataset import Dataset, FileDataset, FileMetaDataset
from pydicom.filewriter import dcmwrite
from pydicom.uid import UID, CTImageStorage, ExplicitVRLittleEndian, generate_uid

from pipeline.model import Candidate, Finding, Instance, Job, JobState, Priority, Report, Series, Side, Step, Study, StudyState

NOW = datetime(2026, 1, 15, 2, 0, tzinfo=UTC)
AXIAL = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0)
AXIAL_TYPE = ("ORIGINAL", "PRIMARY", "AXIAL")
PATIENT_NAME = "张^小东"


def uid_of(*words: object) -> UID:
    """The same UID for the same words."""
    return generate_uid(entropy_srcs=[str(word) for word in words])


def ct_slice(
    study: str = "study",
    series: str = "series",
    z_mm: float = 0.0,
    *,
    number: int = 1,
    pixels: NDArray[np.int16] | None = None,
    spacing_mm: tuple[float, float] = (1.0, 1.0),
    thickness_mm: float = 5.0,
    slope: float = 1.0,
    intercept: float = -1024.0,
    image_type: Sequence[str] = AXIAL_TYPE,
    orientation: Sequence[float] = AXIAL,
    **keywords: object,
) -> FileDataset:
    """One CT image `(rows, columns)` int16 of stored values; `study` and `series` are words or UIDs; further keywords are DICOM keywords."""
    stored = np.zeros((16, 16), dtype=np.int16) if pixels is None else pixels  # (rows, columns)
    ds = _file(uid_of(study, series, z_mm, number))
    ds.StudyInstanceUID, ds.SeriesInstanceUID = _as_uid(study), _as_uid(study, series)
    ds.FrameOfReferenceUID = uid_of(study, "frame")
    ds.SpecificCharacterSet = "ISO_IR 192"
    ds.PatientID, ds.PatientName, ds.PatientBirthDate, ds.PatientSex = "P-1", PATIENT_NAME, "19700101", "M"
    ds.StudyDate, ds.StudyTime, ds.AccessionNumber, ds.StudyID = "20260115", "020000", "A-1", "1"
    ds.StudyDescription, ds.SeriesDescription, ds.SeriesNumber = "Chest", "Thorax 5.0", 2
    ds.Modality, ds.BodyPartExamined, ds.ConvolutionKernel, ds.KVP = "CT", "CHEST", "B31f", 120
    ds.ReferringPhysicianName, ds.Manufacturer = "", "ctreport"
    ds.InstanceNumber, ds.AcquisitionNumber, ds.ImageType = number, 1, list(image_type)
    ds.ImagePositionPatient, ds.ImageOrientationPatient = [0.0, 0.0, z_mm], list(orientation)
    ds.PixelSpacing, ds.SliceThickness = list(spacing_mm), thickness_mm
    ds.RescaleSlope, ds.RescaleIntercept, ds.RescaleType = slope, intercept, "HU"
    _put_pixels(ds, stored)
    for keyword, value in keywords.items():
        setattr(ds, keyword, value)
    return ds


def ct_series(count: int = 12, study: str = "study", series: str = "series", spacing_mm: float = 5.0) -> list[FileDataset]:
    """`count` axial slices, feet first, with equal steps."""
    return [ct_slice(study, series, index * spacing_mm, number=index + 1) for index in range(count)]


def write(folder: Path, datasets: Sequence[Dataset]) -> list[Path]:
    """Save each data set as a DICOM file named after its place in the list."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{index:04d}.dcm" for index in range(len(datasets))]
    for path, ds in zip(paths, datasets, strict=True):
        path.write_bytes(part10(ds))
    return paths


def part10(ds: Dataset) -> bytes:
    """The data set as the bytes of a DICOM file."""
    with BytesIO() as buffer:
        dcmwrite(buffer, ds, enforce_file_format=True)
        return buffer.getvalue()


def _file(sop_uid: UID) -> FileDataset:
    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID = CTImageStorage, sop_uid
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    ds = FileDataset("", {}, file_meta=meta, preamble=b"\0" * 128)
    ds.SOPClassUID, ds.SOPInstanceUID = CTImageStorage, sop_uid
    return ds


def _put_pixels(ds: Dataset, stored: NDArray[np.int16]) -> None:
    ds.Rows, ds.Columns = stored.shape
    ds.SamplesPerPixel, ds.PhotometricInterpretation = 1, "MONOCHROME2"
    ds.BitsAllocated, ds.BitsStored, ds.HighBit, ds.PixelRepresentation = 16, 16, 15, 1
    ds.PixelData = stored.astype("<i2").tobytes()


def _as_uid(*words: str) -> str:
    last = words[-1]
    return last if last.replace(".", "").isdigit() and "." in last else uid_of(*words)


def instance(
    number: int = 1, z_mm: float = 0.0, *, study: str = "study", series: str = "series", image_type: tuple[str, ...] = AXIAL_TYPE
) -> Instance:
    """One axial CT instance."""
    sop_uid = uid_of(study, series, z_mm, number)
    return Instance(
        sop_uid=sop_uid,
        sop_class=str(CTImageStorage),
        transfer_syntax=str(ExplicitVRLittleEndian),
        study_uid=_as_uid(study),
        series_uid=_as_uid(study, series),
        modality="CT",
        sha256=sha256(sop_uid.encode()).hexdigest(),
        size_bytes=1000,
        path=f"{sop_uid}.dcm",
        instance_number=number,
        rows=16,
        columns=16,
        position_mm=(0.0, 0.0, z_mm),
        orientation=AXIAL,
        image_type=image_type,
    )


def series(count: int = 12, *, study: str = "study", name: str = "series", description: str = "Thorax 5.0", body_part: str = "CHEST") -> Series:
    """One axial CT series with 5 mm steps."""
    instances = tuple(instance(index + 1, index * 5.0, study=study, series=name) for index in range(count))
    return Series(_as_uid(study, name), "CT", description, body_part, "B31f", 5.0, instances)


def study(*of: Series, name: str = "study", state: StudyState = StudyState.RECEIVING) -> Study:
    """One study of the given series (one chest series when none is given)."""
    parts = of or (series(study=name),)
    return Study(
        id=uuid4(),
        study_uid=_as_uid(name),
        state=state,
        revision=0,
        first_received=NOW,
        last_received=NOW,
        images=sum(len(part.instances) for part in parts),
        indication="",
        description="Chest",
        series=parts,
    )


def job(*, state: JobState = JobState.ENCODING, is_phantom: bool = True, study_id: UUID | None = None, files: tuple[str, ...] = ()) -> Job:
    """One claimed job of revision 1."""
    return Job(
        id=uuid4(),
        study_id=study_id or uuid4(),
        study_uid=uid_of("study"),
        revision=1,
        state=state,
        priority=Priority.ROUTINE,
        attempts=1,
        series_uids=(uid_of("study", "series"),),
        files=files,
        is_phantom=is_phantom,
        indication="",
    )


def candidate(index: int = 1, *, side: Side = Side.RIGHT, size_mm: float = 8.0) -> Candidate:
    """One solid nodule of the upper lobe."""
    x_mm = 60.0 if side is Side.LEFT else -60.0
    return Candidate(index, "结节", (x_mm, 0.0, 0.0), side, "上叶", "实性", size_mm, 0.9)


def report(*, impression: str = "右肺上叶实性结节。", advice: str = "建议随访。") -> Report:
    """A report with one nodule."""
    finding = Finding(candidate=1, kind="结节", side="右肺", lobe="上叶", density="实性", size_mm=8)
    return Report("右肺上叶见实性结节，大小约8mm。", impression, advice, (finding,))


@dataclass
class Bell:
    """A doorbell that remembers."""

    rung: list[Step] = field(default_factory=list)

    def ring(self, step: Step) -> None:
        self.rung.append(step)
