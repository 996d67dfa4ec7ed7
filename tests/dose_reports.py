"""CT dose reports (PS3.16 TID 10011) built by concept: every trait a keyword, valid by default."""

from __future__ import annotations

from collections.abc import Sequence

from pydicom.dataset import Dataset, FileDataset, FileMetaDataset
from pydicom.uid import UID, ExplicitVRLittleEndian, XRayRadiationDoseSRStorage

from tests.builders import PATIENT_NAME, uid_of

CHEST, ABDOMEN, HEAD = ("T-D3000", "SRT"), ("818981001", "SCT"), ("69536005", "SCT")
SPIRAL, LOCALIZER = ("P5-08001", "SRT"), ("113805", "DCM")
BODY, HEAD_PHANTOM = ("113691", "DCM"), ("113690", "DCM")


def code(value: str, scheme: str = "DCM") -> Dataset:
    ds = Dataset()
    ds.CodeValue, ds.CodingSchemeDesignator, ds.CodeMeaning = value, scheme, "meaning"
    return ds


def item(value_type: str, concept: tuple[str, str], children: Sequence[Dataset] = ()) -> Dataset:
    ds = Dataset()
    ds.RelationshipType, ds.ValueType, ds.ConceptNameCodeSequence = "CONTAINS", value_type, [code(*concept)]
    if children:
        ds.ContentSequence = list(children)
    return ds


def number(concept: str, value: str | float, unit: str = "mGy.cm") -> Dataset:
    ds, measured = item("NUM", (concept, "DCM")), Dataset()
    measured.add_new("NumericValue", "LO", str(value))  # LO: a builder of faults must not be checked
    measured["NumericValue"].VR = "LO"
    if unit:
        measured.MeasurementUnitsCodeSequence = [code(unit, "UCUM")]
    ds.MeasuredValueSequence = [measured]
    return ds


def chosen(concept: str, choice: tuple[str, str]) -> Dataset:
    ds = item("CODE", (concept, "DCM"))
    ds.ConceptCodeSequence = [code(*choice)]
    return ds


def uidref(concept: str, uid: str) -> Dataset:
    ds = item("UIDREF", (concept, "DCM"))
    ds.UID = uid
    return ds


def acquisition(
    word: str = "a",
    dlp: str | float | None = 500.0,
    *,
    unit: str = "mGy.cm",
    ctdivol: str | float | None = 10.0,
    length_mm: float | None = 500.0,
    region: tuple[str, str] | None = CHEST,
    kind: tuple[str, str] = SPIRAL,
    phantom: tuple[str, str] | None = BODY,
    has_uid: bool = True,
    protocol: str = "",
) -> Dataset:
    """One CT Acquisition (TID 10013); `word` makes its UID."""
    dose = [number("113830", ctdivol, "mGy")] if ctdivol is not None else []
    dose += [chosen("113835", phantom)] if phantom else []
    dose += [number("113838", dlp, unit)] if dlp is not None else []
    parts = [chosen("113820", kind)]
    parts += [chosen("123014", region)] if region else []
    parts += [uidref("113769", uid_of("event", word))] if has_uid else []
    if protocol:
        parts.append(item("TEXT", ("125203", "DCM")))
        parts[-1].TextValue = protocol
    parameters = [number("113733", 120, "kV")] + ([number("113825", length_mm, "mm")] if length_mm is not None else [])
    parts += [item("CONTAINER", ("113822", "DCM"), parameters), item("CONTAINER", ("113829", "DCM"), dose)]
    return item("CONTAINER", ("113819", "DCM"), parts)


def dose_report(
    *acquisitions: Dataset,
    total: str | float | None = None,
    events: int | None = None,
    study: str = "study",
    word: str = "report",
    title: tuple[str, str] = ("113701", "DCM"),
    sop_class: str = XRayRadiationDoseSRStorage,
    procedure: tuple[str, str] = ("P5-08000", "SRT"),
    **keywords: object,
) -> FileDataset:
    """One report; further keywords are DICOM keywords."""
    sop_uid = uid_of("sr", word)
    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID, meta.TransferSyntaxUID = UID(sop_class), sop_uid, ExplicitVRLittleEndian
    ds = FileDataset("", {}, file_meta=meta, preamble=b"\0" * 128)
    ds.SpecificCharacterSet = "ISO_IR 192"
    ds.SOPClassUID, ds.SOPInstanceUID = sop_class, sop_uid
    ds.StudyInstanceUID = UID(study) if "." in study else uid_of(study)
    ds.SeriesInstanceUID, ds.Modality, ds.InstanceNumber = uid_of(study, "sr", word), "SR", 1
    ds.PatientID, ds.PatientName, ds.PatientBirthDate, ds.PatientSex = "P-1", PATIENT_NAME, "19700101", "M"
    ds.StudyDate, ds.StudyTime, ds.Manufacturer = "20260115", "020000", "ctreport"
    ds.ValueType, ds.ConceptNameCodeSequence, ds.ContinuityOfContent = "CONTAINER", [code(*title)], "SEPARATE"
    sums = [number("113813", total)] if total is not None else []
    sums += [number("113812", events, "{events}")] if events is not None else []
    content = [chosen("121058", procedure)]
    content += [item("CONTAINER", ("113811", "DCM"), sums)] if sums else []
    ds.ContentSequence = [*content, *acquisitions]
    for keyword, value in keywords.items():
        setattr(ds, keyword, value)
    return ds
