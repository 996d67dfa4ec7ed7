"""Rejection notes: a Key Object Selection (PS3.3 A.35.4) whose title is one of PS3.16 CID 7011, as IHE IOCM (RAD TF-3 4.66) sends it."""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Iterator
from io import BytesIO

from pydicom.dataset import Dataset
from pydicom.filereader import read_dataset
from pydicom.uid import DeflatedExplicitVRLittleEndian, ExplicitVRBigEndian, ImplicitVRLittleEndian

from pipeline import log
from pipeline.dicom.elements import FAULTS
from pipeline.dicom.told import items, text
from pipeline.errors import BadInput
from pipeline.model import RejectedImage, Rejection

logger = log.get(__name__)
TITLES = {
    "113001": "因质量原因拒绝",
    "113037": "因患者安全原因拒绝",
    "113038": "检查申请条目选择错误",
    "113039": "数据保存期已满",
}
SCHEME = "DCM"
DAMAGE: tuple[type[Exception], ...] = (*FAULTS, BadInput)
MOST_BYTES = 64 << 20  # of an inflated note: a million references


def read_rejection(data_set: bytes, transfer_syntax: str) -> Rejection | None:
    """What a key object says when it is a rejection note, else None. A damaged one is None with a warning in the log: nothing is barred on
    half a sentence, and the object itself is kept."""
    try:
        ds = _read(data_set, transfer_syntax)
        code = _title(ds)
        return None if code is None else _rejection(ds, code)
    except DAMAGE as error:
        logger.warning("rejection_unreadable", reason=type(error).__name__)
        return None


def _read(data_set: bytes, transfer_syntax: str) -> Dataset:
    implicit, little_endian = transfer_syntax == ImplicitVRLittleEndian, transfer_syntax != ExplicitVRBigEndian
    if transfer_syntax == DeflatedExplicitVRLittleEndian:
        data_set = zlib.decompressobj(-zlib.MAX_WBITS).decompress(data_set, MOST_BYTES)
    ds = read_dataset(BytesIO(data_set), implicit, little_endian)
    return ds if "StudyInstanceUID" in ds else read_dataset(BytesIO(data_set), not implicit, True)


def _title(ds: Dataset) -> str | None:
    """The code of the document title when it is a rejection; PS3.16 TID 2010."""
    for item in _items(ds, "ConceptNameCodeSequence"):
        code = _text(item, "CodeValue")
        if code in TITLES and _text(item, "CodingSchemeDesignator") == SCHEME:
            return code
    return None


def _rejection(ds: Dataset, code: str) -> Rejection:
    """The note. What its content names counts, in the study where its evidence places it; without content, all of its evidence."""
    own = _text(ds, "StudyInstanceUID")
    if not own:
        raise BadInput("a rejection note names no study of its own; send it again whole")
    evidence = dict(_evidence(ds))
    named = list(_content(ds)) or list(evidence)
    images = tuple(RejectedImage(evidence.get(sop_uid, own), sop_uid) for sop_uid in dict.fromkeys(named))
    return Rejection(_text(ds, "SOPInstanceUID"), code, TITLES[code], own, images)


def _evidence(ds: Dataset) -> Iterator[tuple[str, str]]:
    """(SOP instance, its study) of the Pertinent Other and Current Requested Procedure Evidence sequences."""
    for keyword in ("PertinentOtherEvidenceSequence", "CurrentRequestedProcedureEvidenceSequence"):
        for study in _items(ds, keyword):
            for series in _items(study, "ReferencedSeriesSequence"):
                for sop_uid in _references(series):
                    yield sop_uid, _text(study, "StudyInstanceUID")


def _content(ds: Dataset) -> Iterator[str]:
    """Every SOP instance that the content tree references."""
    ahead = deque(_items(ds, "ContentSequence"))
    while ahead:
        item = ahead.popleft()
        ahead += _items(item, "ContentSequence")
        yield from _references(item)


def _references(ds: Dataset) -> Iterator[str]:
    return filter(None, (_text(image, "ReferencedSOPInstanceUID") for image in _items(ds, "ReferencedSOPSequence")))


def _items(ds: Dataset, keyword: str) -> tuple[Dataset, ...]:
    return items(ds, keyword) or ()


def _text(ds: Dataset, keyword: str) -> str:
    return text(ds, keyword) or ""
