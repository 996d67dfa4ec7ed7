"""The content tree of a structured report (PS3.3 C.17.3) as plain values, read by coded concepts and never by position.

Bounded in depth and number, without recursion; relationships by reference are not followed, so that a tree cannot run in circles.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from pydicom.dataelem import RawDataElement
from pydicom.dataset import Dataset

from pipeline.dicom.identity import repair
from pipeline.dicom.told import items, tag_of, text
from pipeline.errors import BadInput

MOST_ITEMS, MOST_DEPTH = 10_000, 64


@dataclass(frozen=True, slots=True)
class Item:
    """One content item: the concept's code and its data set. `depth` counts from the document, 0."""

    code: str
    scheme: str
    depth: int
    ds: Dataset
    charset: str

    @property
    def choice(self) -> str:
        """Code value of a CODE item; empty for any other."""
        return first_code(self.ds, "ConceptCodeSequence")[0]

    @property
    def text(self) -> str:
        """TextValue in the document's character set, repaired."""
        tag = tag_of("TextValue")
        if tag not in self.ds:
            return ""
        element = self.ds.get_item(tag)
        raw = element.value if isinstance(element, RawDataElement) else str(element.value or "").encode()
        return repair(bytes(raw or b""), self.charset if isinstance(element, RawDataElement) else "ISO_IR 192", name=False).text[:256]

    @property
    def uid(self) -> str:
        """UID of a UIDREF item."""
        return text(self.ds, "UID") or ""

    @property
    def when(self) -> datetime | None:
        """DateTime to the second (PS3.5 DT); the zone is left out, as local times are compared with local days."""
        digits = (text(self.ds, "DateTime") or "").split(".")[0].split("+")[0].split("-")[0]
        try:
            return datetime.strptime(digits[:14].ljust(14, "0"), "%Y%m%d%H%M%S") if len(digits) >= 8 else None
        except ValueError:
            return None

    def number(self) -> tuple[str, str] | None:
        """NumericValue and its unit's code as written; None without a value."""
        for measured in items(self.ds, "MeasuredValueSequence") or ():
            value = text(measured, "NumericValue")
            if value:
                return value, first_code(measured, "MeasurementUnitsCodeSequence")[0]
        return None


def first_code(ds: Dataset, keyword: str) -> tuple[str, str]:
    """Value and scheme of the first code of a sequence; a long or URN code's value stands in another element (PS3.3 8.1). Empty when absent."""
    for code in items(ds, keyword) or ():
        value = text(code, "CodeValue") or text(code, "LongCodeValue") or text(code, "URNCodeValue") or ""
        return value, text(code, "CodingSchemeDesignator") or ""
    return "", ""


def walk(root: Dataset, charset: str, depth: int = 0) -> Iterator[Item]:
    """The item itself and all below it, depth first and in the order of the document. Raises BadInput past the bounds."""
    ahead: list[tuple[Dataset, int]] = [(root, depth)]
    seen = 0
    while ahead:
        ds, depth = ahead.pop()
        seen += 1
        if depth > MOST_DEPTH or seen > MOST_ITEMS:
            raise BadInput(f"the content tree goes past {MOST_DEPTH} levels or {MOST_ITEMS} items: no dose report is that deep; look at its sender")
        code, scheme = first_code(ds, "ConceptNameCodeSequence")
        yield Item(code, scheme, depth, ds, charset)
        ahead += [(child, depth + 1) for child in reversed(items(ds, "ContentSequence") or ())]


def below(item: Item) -> Mapping[str, list[Item]]:
    """All items below one, by code."""
    found: dict[str, list[Item]] = {}
    for one in walk(item.ds, item.charset, item.depth):
        if one.ds is not item.ds:
            found.setdefault(one.code, []).append(one)
    return found
