"""Dose out of one archived file: a structured dose report gives its irradiation events, every other file the reason why it gives none.

Whatever the bytes, the only errors are Unsupported (understood, but no dose is read from it) and UnreadableDicom; ServiceUnavailable for a disk that
gives none.
"""

from __future__ import annotations

import warnings
import zlib
from io import BytesIO
from pathlib import Path

from pydicom.dataset import Dataset
from pydicom.filereader import read_dataset
from pydicom.uid import (
    UID,
    DeflatedExplicitVRLittleEndian,
    EnhancedXRayRadiationDoseSRStorage,
    ExplicitVRBigEndian,
    ImplicitVRLittleEndian,
    PatientRadiationDoseSRStorage,
    XRayRadiationDoseSRStorage,
)
from pynetdicom.dsutils import split_dataset

from pipeline.dicom import dose_codes as codes
from pipeline.dicom.content import DOSE_SCREEN, STRUCTURED_REPORTS
from pipeline.dicom.dose_report import dose_study, events_of
from pipeline.dicom.dose_tree import first_code
from pipeline.dicom.elements import FAULTS
from pipeline.dicom.headers import read_header
from pipeline.dicom.told import tag_of, text
from pipeline.dicom.walk import HEADER_BYTES
from pipeline.errors import BadInput, ServiceUnavailable, UnreadableDicom, Unsupported
from pipeline.irradiation import DoseReading, DoseSource
from pipeline.model import Header
from pipeline.ports import Arrival

MOST_BYTES = 4 << 20  # a report of a hundred events takes some hundred KiB; reading this much takes seconds
MOST_ITEM_TAGS = 40_000  # sequence items of any kind; one content item has two to five
ITEM_TAG, ITEM_TAG_BIG = b"\xfe\xff\x00\xe0", b"\xff\xfe\xe0\x00"  # (FFFE,E000), PS3.5 7.5
SCREEN = "a picture of dose figures: kept unread, for its figures are pixels; let the scanner send its dose report (RDSR) as well"
OTHER_REPORT = "a structured report titled {title}, not a CT dose report (113701, DCM): it holds no dose"
OTHER_TEMPLATE = "an object of class {name}: its template (TID 10040, TID 10030) is not read; let the scanner send an X-Ray Radiation Dose SR"
NO_REPORT = "an object of class {name}: neither a dose report nor a picture of dose figures"
NO_FILE = "no DICOM file that could have come by C-STORE ({kind}): look whether it is whole"
NO_BYTES = "the file system does not give the file's bytes ({kind}): look at the archive's disk"
LONG = f"a dose report of more than {MOST_BYTES >> 20} MiB or {MOST_ITEM_TAGS} items: none is that long; look at its sender"
DAMAGED = "the dose report cannot be read ({kind}): look whether the file is whole, and send it again"
NOT_READ_YET = frozenset({EnhancedXRayRadiationDoseSRStorage, PatientRadiationDoseSRStorage})
YEARS = {"Y": 1.0, "M": 1 / 12, "W": 7 / 365.25, "D": 1 / 365.25}


def read_dose(path: Path) -> DoseReading:
    """The irradiation events of one dose report. Raises Unsupported with the reason for any other file, UnreadableDicom for damage."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what pydicom finds odd is judged here
            return _read(path)
    except (Unsupported, UnreadableDicom):
        raise
    except BadInput as error:
        raise UnreadableDicom(str(error)) from None
    except OSError as error:
        raise ServiceUnavailable(NO_BYTES.format(kind=type(error).__name__)) from None
    except FAULTS as error:
        raise UnreadableDicom(DAMAGED.format(kind=type(error).__name__)) from None


def header_of(path: Path) -> Header:
    """What the receive step reads of an archived file. Raises UnreadableDicom."""
    try:
        meta, start = split_dataset(path)
        classed = str(meta.MediaStorageSOPClassUID), str(meta.MediaStorageSOPInstanceUID), str(meta.TransferSyntaxUID)
        with path.open("rb") as file:
            file.seek(start)
            head = file.read(HEADER_BYTES)
    except OSError as error:
        raise ServiceUnavailable(NO_BYTES.format(kind=type(error).__name__)) from None
    except FAULTS as error:
        raise UnreadableDicom(NO_FILE.format(kind=type(error).__name__)) from None
    return read_header(Arrival(*classed, head, path.stat().st_size - start, None))


def age_of(ds: Dataset) -> float | None:
    """PatientAge in years; None where it is absent or odd."""
    written = text(ds, "PatientAge") or ""
    number, unit = written[:-1], written[-1:].upper()
    return float(number) * YEARS[unit] if number.isdigit() and unit in YEARS else None


def _read(path: Path) -> DoseReading:
    header = header_of(path)
    if header.instance.content == DOSE_SCREEN:
        raise Unsupported(SCREEN)
    _class_allows(header.instance.sop_class)
    ds = _data_set(path)
    _is_dose_report(ds)
    source = DoseSource.RDSR if header.instance.sop_class == XRayRadiationDoseSRStorage else DoseSource.ENHANCED_SR
    charset, own = _charset(ds), header.instance.study_uid
    study_uid = dose_study(ds, charset) or own
    events, total, notes = events_of(ds, charset, source, study_uid)
    return DoseReading(source, study_uid, header.patient, header.study_date, events, age_of(ds), total, notes)


def _data_set(path: Path) -> Dataset:
    """The whole report, inflated and parsed within bounds: making objects of a file full of items takes minutes. Raises UnreadableDicom."""
    meta, start = split_dataset(path)
    if path.stat().st_size - start > MOST_BYTES:
        raise UnreadableDicom(LONG)
    syntax, data = str(meta.TransferSyntaxUID), path.read_bytes()[start:]
    if syntax == DeflatedExplicitVRLittleEndian:
        inflater = zlib.decompressobj(-zlib.MAX_WBITS)
        data = inflater.decompress(data, MOST_BYTES)
        if inflater.unconsumed_tail:
            raise UnreadableDicom(LONG)
    little_endian = syntax != ExplicitVRBigEndian
    if data.count(ITEM_TAG if little_endian else ITEM_TAG_BIG) > MOST_ITEM_TAGS:
        raise UnreadableDicom(LONG)
    return read_dataset(BytesIO(data), syntax == ImplicitVRLittleEndian, little_endian)


def _class_allows(sop_class: str) -> None:
    """Raises Unsupported for what is no structured report, or one of another template."""
    name = UID(sop_class).name
    if sop_class in NOT_READ_YET:
        raise Unsupported(OTHER_TEMPLATE.format(name=name))
    if not (sop_class.startswith(STRUCTURED_REPORTS) or sop_class == XRayRadiationDoseSRStorage):
        raise Unsupported(NO_REPORT.format(name=name))


def _is_dose_report(ds: Dataset) -> None:
    title, scheme = first_code(ds, "ConceptNameCodeSequence")
    if (title, scheme) != (codes.DOSE_TITLE, codes.DCM):
        raise Unsupported(OTHER_REPORT.format(title=f"({title[:16]}, {scheme[:16]})" if title else "nothing"))


def _charset(ds: Dataset) -> str:
    """SpecificCharacterSet with all its values, as `identity.repair` takes it."""
    tag = tag_of("SpecificCharacterSet")
    value = ds[tag].value if tag in ds else ""
    return value if isinstance(value, str) else "\\".join(map(str, value or ()))
