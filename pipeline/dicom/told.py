"""Values out of small data sets that peers send beside images (N-ACTION, N-CREATE, N-SET), read without the library's validation: it warns
with the value itself, which must not reach a log."""

from __future__ import annotations

from pydicom.datadict import tag_for_keyword
from pydicom.dataelem import DataElement, RawDataElement
from pydicom.dataset import Dataset
from pydicom.tag import BaseTag, Tag

from pipeline.dicom.elements import FAULTS
from pipeline.errors import BadInput

UNVALIDATED = 0  # pydicom.config.IGNORE


def text(ds: Dataset, keyword: str) -> str | None:
    """The first value of an ASCII element, stripped; None when the element is absent."""
    tag = tag_of(keyword)
    if tag not in ds:
        return None
    element: DataElement | RawDataElement = ds.get_item(tag)
    value = element.value
    if isinstance(element, RawDataElement):
        value = bytes(value or b"").decode("ascii", "replace").split("\\")[0]
    return "" if value is None else str(value).strip(" \x00")


def items(ds: Dataset, keyword: str) -> tuple[Dataset, ...] | None:
    """The items of a sequence; None when it is absent. Raises BadInput for bytes that are no sequence."""
    tag = tag_of(keyword)
    if tag not in ds:
        return None
    try:
        value = ds[tag].value
    except FAULTS as error:
        raise BadInput(f"{keyword} cannot be read ({type(error).__name__})") from None
    if value is None:
        return ()
    if not all(isinstance(item, Dataset) for item in value):
        raise BadInput(f"{keyword} is no sequence")
    return tuple(value)


def uid_element(keyword: str, value: str) -> DataElement:
    """A UID element with the value as it was told to us, conforming or not."""
    return DataElement(tag_of(keyword), "UI", value, validation_mode=UNVALIDATED)


def tag_of(keyword: str) -> BaseTag:
    """The tag of a keyword of the dictionary."""
    tag = tag_for_keyword(keyword)
    assert tag is not None, keyword
    return Tag(tag)
