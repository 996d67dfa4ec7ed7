"""The patient's name in files on disk, as the receiver reads it: for `ctreport identity`, which needs no stack and writes nothing."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydicom import dcmread
from pydicom.dataset import Dataset
from pynetdicom.dsutils import split_dataset

from pipeline.dicom.elements import FAULTS, read_elements
from pipeline.dicom.identity import Repaired, repair
from pipeline.dicom.walk import HEADER_BYTES
from pipeline.errors import UnreadableDicom

PREFIX = b"DICM"
SUFFIX = ".dcm"
USUAL = ("PatientName", "PatientID", "SOPClassUID", "StudyInstanceUID", "Modality")


@dataclass(frozen=True, slots=True)
class NameInFile:
    """One file: the name and the character set that the file claims, or the reason why it cannot be read."""

    file: str
    label: str = ""
    name: Repaired | None = None
    reason: str = ""

    def as_json(self) -> dict[str, object]:
        """The keys of `ctreport identity --json`."""
        if self.name is None:
            return {"file": self.file, "patient_name": None, "charset": None, "label": None, "repaired": False, "guess": False, "reason": self.reason}
        found = self.name
        said = {"charset": found.charset, "label": self.label, "repaired": found.repaired, "guess": found.guess}
        return {"file": self.file, "patient_name": found.text, **said, "reason": None}


def names_in_files(paths: Sequence[Path]) -> Iterator[NameInFile]:
    """Each file, and each DICOM file below a folder, in order. Never raises for what a file holds."""
    for path in paths:
        below = sorted(one for one in path.rglob("*") if one.is_file()) if path.is_dir() else [path]
        for file in below:
            found = name_in_file(file)
            if found.name is not None or not path.is_dir() or file.suffix.lower() == SUFFIX:
                yield found


def name_in_file(path: Path) -> NameInFile:
    """Read one file, also one without preamble or file meta."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what pydicom finds odd is judged here
            return _received(path) or _anyhow(path)
    except UnreadableDicom as error:
        return NameInFile(str(path), reason=str(error))
    except FAULTS as error:
        return NameInFile(str(path), reason=f"cannot be read ({type(error).__name__}): look whether the file is whole")


def _received(path: Path) -> NameInFile | None:
    """As the receiver would read it; None when it could not come by C-STORE, or names nobody."""
    try:
        meta, start = split_dataset(path)
        syntax = str(meta.TransferSyntaxUID)
    except FAULTS:
        return None
    with path.open("rb") as file:
        file.seek(start)
        elements = read_elements(file.read(HEADER_BYTES), syntax, path.stat().st_size - start)
    if not elements.raw("PatientName"):
        return None
    return NameInFile(str(path), elements.charset, elements.repaired("PatientName", name=True))


def _anyhow(path: Path) -> NameInFile:
    """As pydicom can read it, wherever in it a name stands."""
    ds = dcmread(path, force=True, stop_before_pixels=True)
    found = _name(ds, "")
    if found is None and not any(keyword in ds for keyword in USUAL):
        with path.open("rb") as file:
            claimed = file.read(132)[128:] == PREFIX
        fault = "holds none of the elements that every object has: look whether the file is whole" if claimed else "is no DICOM file"
        return NameInFile(str(path), reason=fault)
    raw, label = found or (b"", _label(ds, ""))
    return NameInFile(str(path), label, repair(raw, label))


def _name(ds: Dataset, outer: str) -> tuple[bytes, str] | None:
    """The first name in a data set or, where it has none of its own, in its sequences; and the character set that holds there."""
    label = _label(ds, outer)
    if "PatientName" in ds:
        raw = ds.get_item("PatientName").value
        return (raw if isinstance(raw, bytes) else b""), label
    items = (item for element in ds if element.VR == "SQ" for item in element.value)
    return next((found for item in items if (found := _name(item, label)) is not None), None)


def _label(ds: Dataset, outer: str) -> str:
    charset = ds.get("SpecificCharacterSet") or outer
    return charset if isinstance(charset, str) else "\\".join(charset)
