"""Rejection notes (IHE IOCM) for tests: a key object selection with its evidence and its content, and its bytes."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence

from pydicom.dataset import Dataset
from pydicom.filebase import DicomBytesIO
from pydicom.filewriter import write_dataset
from pydicom.sequence import Sequence as Items
from pydicom.uid import CTImageStorage, DeflatedExplicitVRLittleEndian, ExplicitVRBigEndian, ImplicitVRLittleEndian, KeyObjectSelectionDocumentStorage


def note(study_uid: str, sop_uids: Sequence[str], code: str = "113001", *, others: Mapping[str, Sequence[str]] | None = None) -> Dataset:
    """A note of `study_uid` that takes back its images, and those of other studies."""
    ds = Dataset()
    ds.SOPClassUID, ds.SOPInstanceUID = KeyObjectSelectionDocumentStorage, f"{study_uid[:50]}.8.{code}"
    ds.StudyInstanceUID, ds.SeriesInstanceUID = study_uid, f"{study_uid[:50]}.8"
    ds.PatientID, ds.PatientName, ds.Modality, ds.InstanceNumber = "P-1", "Test", "KO", 1
    named = {study_uid: sop_uids, **(others or {})}
    ds.ConceptNameCodeSequence = Items([_code(code, "DCM", "Rejected")])
    ds.CurrentRequestedProcedureEvidenceSequence = Items([_evidence(study, uids) for study, uids in named.items()])
    ds.ContentSequence = Items([_image(uid) for uids in named.values() for uid in uids])
    return ds


def encoded(ds: Dataset, transfer_syntax: str = ImplicitVRLittleEndian) -> bytes:
    """The data set as a peer sends it."""
    file = DicomBytesIO()
    file.is_implicit_VR = transfer_syntax == ImplicitVRLittleEndian
    file.is_little_endian = transfer_syntax != ExplicitVRBigEndian
    write_dataset(file, ds)
    if transfer_syntax != DeflatedExplicitVRLittleEndian:
        return file.getvalue()
    deflate = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return deflate.compress(file.getvalue()) + deflate.flush()


def _code(value: str, scheme: str, meaning: str) -> Dataset:
    item = Dataset()
    item.CodeValue, item.CodingSchemeDesignator, item.CodeMeaning = value, scheme, meaning
    return item


def _evidence(study_uid: str, sop_uids: Sequence[str]) -> Dataset:
    series = Dataset()
    series.SeriesInstanceUID, series.ReferencedSOPSequence = f"{study_uid[:50]}.5", Items([_reference(uid) for uid in sop_uids])
    study = Dataset()
    study.StudyInstanceUID, study.ReferencedSeriesSequence = study_uid, Items([series])
    return study


def _image(sop_uid: str) -> Dataset:
    item = Dataset()
    item.RelationshipType, item.ValueType, item.ReferencedSOPSequence = "CONTAINS", "IMAGE", Items([_reference(sop_uid)])
    return item


def _reference(sop_uid: str) -> Dataset:
    item = Dataset()
    item.ReferencedSOPClassUID, item.ReferencedSOPInstanceUID = CTImageStorage, sop_uid
    return item
