"""The header facts of one arrival. Whatever the bytes, the only error is UnreadableDicom."""

from __future__ import annotations

from pydicom.uid import UID, CTImageStorage

from pipeline.dicom.content import content_of
from pipeline.dicom.elements import Elements, read_elements
from pipeline.dicom.scrub import without_patient
from pipeline.dicom.uids import judged
from pipeline.errors import UnreadableDicom
from pipeline.model import Header, Instance, Patient, Priority
from pipeline.ports import Arrival
from pipeline.urgency import BY_CODE

MONOCHROME = frozenset({"MONOCHROME1", "MONOCHROME2"})
LONG_TEXT = 4096
SHOWN = frozenset({"StudyDescription", "ReasonForTheRequestedProcedure", "RequestedProcedureDescription"})  # free text that people and prompts see
UNNAMED = "对比剂"
UNUSABLE = "cannot serve as a UID (over 64 characters, several values, a placeholder, or characters that no UID has)"
NEXT = "mend the sender and send it again; the bytes are in quarantine"


def read_header(arrival: Arrival) -> Header:
    """Read one data set up to its pixels (`ports.HeaderReader`): path, sha256 and size stay empty. Raises UnreadableDicom.

    `uids` says what is done about UIDs that are missing, malformed or contradict each other.
    """
    elements = read_elements(arrival.head, arrival.transfer_syntax, arrival.size)
    patient = _patient(elements)
    return Header(
        patient=patient,
        accession=elements.text("AccessionNumber", 64),
        study_date=elements.day("StudyDate", "study-date"),
        study_description=elements.text("StudyDescription"),
        indication=without_patient(_indication(elements), patient),
        series_description=elements.text("SeriesDescription"),
        body_part=elements.text("BodyPartExamined", 64),
        kernel="\\".join(elements.strings("ConvolutionKernel"))[:64],
        thickness_mm=elements.number("SliceThickness", "slice-thickness"),
        series_number=elements.whole("SeriesNumber", "series-number"),
        kvp=elements.number("KVP", "kvp"),
        contrast_agent=_contrast_agent(elements),
        protocol=elements.text("ProtocolName", 64),
        station=elements.text("StationName", 64),
        requesting_service=_from_request(elements, ("RequestingService",), 64),
        priority=BY_CODE.get(elements.code("RequestedProcedurePriority").upper(), Priority.ROUTINE),
        text_guess=not elements.guesses.isdisjoint(SHOWN),
        instance=_instance(elements, arrival),  # last: it carries the flags of all that was read before
    )


def _instance(elements: Elements, arrival: Arrival) -> Instance:
    study_uid = _needed(elements, "StudyInstanceUID", "study-uid")
    series_uid = _needed(elements, "SeriesInstanceUID", "series-uid")
    sop_class = elements.uid("SOPClassUID", "sop-class") or _requested(elements, "sop-class", arrival.sop_class)
    sop_uid = _sop_uid(elements, arrival)
    rows, columns = elements.unsigned("Rows"), elements.unsigned("Columns")
    position = elements.numbers("ImagePositionPatient", 3, "position")
    instance_number = elements.whole("InstanceNumber", "instance-number")
    orientation = elements.numbers("ImageOrientationPatient", 6, "orientation")
    elements.flags.update(_pixel_faults(elements, arrival, rows, columns))
    return Instance(
        sop_uid=sop_uid,
        sop_class=sop_class,
        transfer_syntax=arrival.transfer_syntax,
        study_uid=study_uid,
        series_uid=series_uid,
        modality=elements.code("Modality"),
        sha256="",
        size_bytes=0,
        path="",
        instance_number=instance_number,
        rows=rows,
        columns=columns,
        position_mm=(position[0], position[1], position[2]) if position else None,
        orientation=orientation,
        image_type=elements.strings("ImageType"),
        content=content_of(elements, sop_class),
        frames=max(1, elements.whole("NumberOfFrames", "frames") or 1),  # stands before the functional groups, however long those are
        acquisition=elements.whole("AcquisitionNumber", "acquisition"),
        temporal=elements.whole("TemporalPositionIdentifier", "temporal-position"),
        lossy=elements.code("LossyImageCompression") == "01",  # PS3.3 C.7.6.1.1.5
        flags=tuple(sorted(elements.flags)),
    )


def _needed(elements: Elements, keyword: str, flag: str) -> str:
    uid = elements.uid(keyword, flag)
    if uid:
        return uid
    fault = UNUSABLE if f"{flag}-unreadable" in elements.flags else "is missing"
    damage = " (the header is damaged)" if "header-damaged" in elements.flags else ""
    damage = " (in the first 8 MiB)" if "header-long" in elements.flags else damage
    raise UnreadableDicom(f"{keyword} {fault}{damage}: {NEXT}")


def _sop_uid(elements: Elements, arrival: Arrival) -> str:
    requested, verdict = judged(arrival.sop_uid)
    own = elements.uid("SOPInstanceUID", "sop-uid")
    if own and not verdict.usable:
        elements.flags.add(f"request-sop-uid-{verdict.value}")
    elif own and own != requested:
        elements.flags.add("sop-uid-differs")
    if not own and not requested:
        raise UnreadableDicom(f"neither the data set nor the request has a SOPInstanceUID that can serve as one: {NEXT}")
    return own or _requested(elements, "sop-uid", requested)


def _requested(elements: Elements, flag: str, requested: str) -> str:
    if f"{flag}-unreadable" not in elements.flags:
        elements.flags.add(f"{flag}-missing")
    return requested


def _patient(elements: Elements) -> Patient:
    name = elements.repaired("PatientName", name=True)
    return Patient(
        patient_id=elements.text("PatientID"),
        issuer=elements.text("IssuerOfPatientID"),
        name=name.text[:324],
        name_guess=name.guess,
        birth_date=elements.day("PatientBirthDate", "birth-date"),
        sex=elements.code("PatientSex")[:1],
        name_charset=name.charset,
    )


def _contrast_agent(elements: Elements) -> str:
    """ContrastBolusAgent; UNNAMED where only the sequence of Enhanced CT says that one was given (PS3.3 C.7.6.4b); empty without."""
    return elements.text("ContrastBolusAgent", 64) or (UNNAMED if len(elements.raw("ContrastBolusAgentSequence")) > 8 else "")


def _indication(elements: Elements) -> str:
    """ReasonForTheRequestedProcedure, else RequestedProcedureDescription, of the object, else of its request items; else empty."""
    return _from_request(elements, ("ReasonForTheRequestedProcedure", "RequestedProcedureDescription"), LONG_TEXT)


def _from_request(elements: Elements, keywords: tuple[str, ...], longest: int) -> str:
    """The first of these texts that the object, else one of its request items has (PS3.3 C.7.2.1, 10.6); empty where none has."""
    places = (elements, *elements.items("RequestAttributesSequence"))
    return next((text for keyword in keywords for place in places if (text := place.text(keyword, longest))), "")


def _pixel_faults(elements: Elements, arrival: Arrival, rows: int | None, columns: int | None) -> set[str]:
    """What the header alone says against the pixels of a CT image (PS3.3 C.8.2.1: one sample, monochrome)."""
    if arrival.sop_class != CTImageStorage:
        return set()
    if not rows or not columns:
        return {"rows-or-columns-missing"}
    if elements.pixels is None:
        return set() if "header-long" in elements.flags else {"pixel-data-missing"}
    bits, stored = elements.unsigned("BitsAllocated") or 0, elements.unsigned("BitsStored") or 0
    plain = elements.unsigned("SamplesPerPixel") == 1 and elements.code("PhotometricInterpretation") in MONOCHROME
    if not plain or bits not in (8, 16, 32) or not 1 <= stored <= bits or elements.unsigned("HighBit") != stored - 1:
        return {"pixel-description-odd"}
    frames = elements.whole("NumberOfFrames", "frames")
    expected = rows * columns * bits // 8 * (1 if frames is None else frames)
    syntax = UID(arrival.transfer_syntax)
    native = syntax.is_deflated or not syntax.is_compressed
    return {"pixel-length-differs"} if native and elements.pixels[1] != expected + expected % 2 else set()
