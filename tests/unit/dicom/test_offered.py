"""What the listener offers to take."""

from __future__ import annotations

from pathlib import Path

from pydicom import dcmread
from pydicom.uid import UID
from pynetdicom.service_class import StorageServiceClass
from pynetdicom.sop_class import uid_to_service_class

from pipeline.dicom.offered import SOP_CLASSES, TRANSFER_SYNTAXES, offered

PRIVATE = "1.3.12.2.1107.5.9.1"


def test_every_offered_class_is_served_as_storage_and_named_once() -> None:
    classes = offered([PRIVATE, PRIVATE, SOP_CLASSES[0]])
    assert classes == (*map(str, SOP_CLASSES), PRIVATE)
    assert {uid_to_service_class(sop_class) for sop_class in classes} == {StorageServiceClass}
    assert offered() == tuple(map(str, SOP_CLASSES))


def test_every_transfer_syntax_of_the_test_data_is_offered(test_data: Path) -> None:
    files = list((test_data / "transfer_syntaxes").glob("*.dcm"))
    said = {str(dcmread(file, specific_tags=[], force=True).file_meta.TransferSyntaxUID) for file in files}
    assert len(said) >= 15
    assert said <= set(TRANSFER_SYNTAXES)


def test_no_transfer_syntax_is_listed_twice_and_each_is_one() -> None:
    assert len(set(TRANSFER_SYNTAXES)) == len(TRANSFER_SYNTAXES)
    assert all(UID(syntax).is_transfer_syntax for syntax in TRANSFER_SYNTAXES)
