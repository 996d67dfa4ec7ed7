"""A small dose report (X-Ray Radiation Dose SR, PS3.16 TID 10011) of a phantom's study: one spiral of the chest."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydicom import dcmread
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.uid import ExplicitVRLittleEndian, XRayRadiationDoseSRStorage

from pipeline.training.phantom_dicom import phantom_uid

COPIED = ("SpecificCharacterSet", "PatientName", "PatientID", "PatientBirthDate", "PatientSex", "StudyInstanceUID", "StudyID", "AccessionNumber")
ALSO_COPIED = ("StudyDate", "StudyTime", "ReferringPhysicianName", "Manufacturer", "StationName")
DLP_MGY_CM, CTDIVOL_MGY, LENGTH_MM = 300.0, 10.0, 300.0


def write_dose_report(image: Path, seed: int, to: Path) -> str:
    """Write the report of the study that `image` belongs to; returns its SOP Instance UID."""
    of = dcmread(image, stop_before_pixels=True)
    ds = Dataset()
    for keyword in (*COPIED, *ALSO_COPIED):
        setattr(ds, keyword, of.get(keyword, ""))
    ds.SOPClassUID, ds.SOPInstanceUID = XRayRadiationDoseSRStorage, phantom_uid(seed, "dose", 1)
    ds.SeriesInstanceUID, ds.Modality, ds.SeriesNumber, ds.InstanceNumber = phantom_uid(seed, "dose"), "SR", 900, 1
    ds.ValueType, ds.ContinuityOfContent = "CONTAINER", "SEPARATE"
    ds.ConceptNameCodeSequence = [_code("113701")]
    ds.ContentSequence = [_coded("121058", ("P5-08000", "SRT")), _acquisition(seed)]
    ds.file_meta = FileMetaDataset()
    ds.file_meta.MediaStorageSOPClassUID, ds.file_meta.MediaStorageSOPInstanceUID = ds.SOPClassUID, ds.SOPInstanceUID
    ds.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    ds.save_as(to, enforce_file_format=True)
    return str(ds.SOPInstanceUID)


def _acquisition(seed: int) -> Dataset:
    """TID 10013."""
    event = _item("UIDREF", "113769")
    event.UID = phantom_uid(seed, "event")
    dose = [_number("113830", CTDIVOL_MGY, "mGy"), _coded("113835", ("113691", "DCM")), _number("113838", DLP_MGY_CM, "mGy.cm")]
    parts = [_coded("113820", ("P5-08001", "SRT")), _coded("123014", ("T-D3000", "SRT")), event]
    parts += [_item("CONTAINER", "113822", [_number("113733", 120.0, "kV"), _number("113825", LENGTH_MM, "mm")])]
    return _item("CONTAINER", "113819", [*parts, _item("CONTAINER", "113829", dose)])


def _item(value_type: str, concept: str, children: Sequence[Dataset] = ()) -> Dataset:
    ds = Dataset()
    ds.RelationshipType, ds.ValueType, ds.ConceptNameCodeSequence = "CONTAINS", value_type, [_code(concept)]
    if children:
        ds.ContentSequence = list(children)
    return ds


def _code(value: str, scheme: str = "DCM") -> Dataset:
    ds = Dataset()
    ds.CodeValue, ds.CodingSchemeDesignator, ds.CodeMeaning = value, scheme, "phantom"
    return ds


def _coded(concept: str, choice: tuple[str, str]) -> Dataset:
    ds = _item("CODE", concept)
    ds.ConceptCodeSequence = [_code(*choice)]
    return ds


def _number(concept: str, value: float, unit: str) -> Dataset:
    ds, measured = _item("NUM", concept), Dataset()
    measured.NumericValue, measured.MeasurementUnitsCodeSequence = f"{value:g}", [_code(unit, "UCUM")]
    ds.MeasuredValueSequence = [measured]
    return ds
