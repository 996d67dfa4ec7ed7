"""deploy/CONFORMANCE.md says what the code does: its tables are compared with the constants of the listener and its services."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydicom.uid import UID

from pipeline.dicom import commitment, mpps
from pipeline.dicom.access import Rejection
from pipeline.dicom.commitment_report import Failure
from pipeline.dicom.file_meta import IMPLEMENTATION_CLASS_UID, IMPLEMENTATION_VERSION_NAME
from pipeline.dicom.listener import STATUSES
from pipeline.dicom.offered import SOP_CLASSES, TRANSFER_SYNTAXES
from pipeline.dicom.rejection import TITLES
from pipeline.ports import Answer
from pipeline.settings import rows

STATEMENT = Path(__file__).resolve().parents[2] / "deploy" / "CONFORMANCE.md"
YOUNGER_THAN_PYDICOM = {"1.2.840.10008.5.1.4.1.1.66.7": "Label Map Segmentation Storage"}


@pytest.fixture(scope="module")
def text() -> str:
    return STATEMENT.read_text(encoding="utf-8")


def section(text: str, heading: str) -> str:
    """From a heading to the next one of the same or a higher level."""
    start = re.search(rf"^(#+) {re.escape(heading)}.*$", text, re.MULTILINE)
    assert start is not None, heading
    rest = text[start.end() :]
    end = re.search(rf"^#{{1,{len(start.group(1))}}} ", rest, re.MULTILINE)
    return rest[: end.start()] if end else rest


def table(part: str) -> list[list[str]]:
    """Cells of the rows of every table, without heads."""
    lines = [line for line in part.splitlines() if line.startswith("|")]
    separators = {number for number, line in enumerate(lines) if set(line) <= set("|-")}
    kept = [line for number, line in enumerate(lines) if number not in separators and number + 1 not in separators]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in kept]


def codes(part: str) -> set[int]:
    """Statuses named in the cells of its tables."""
    return {int(code, 16) for row in table(part) for cell in row for code in re.findall(r"`0x([0-9A-F]{4})`", cell)}


def name_of(uid: str) -> str:
    return YOUNGER_THAN_PYDICOM.get(uid) or UID(uid).name


def test_the_tables_of_sop_classes_and_transfer_syntaxes_are_what_is_offered(text: str) -> None:
    for heading, offered in (("4.2.1.1", SOP_CLASSES), ("4.2.1.2", TRANSFER_SYNTAXES)):
        assert table(section(text, heading)) == [[name_of(str(uid)), str(uid)] for uid in offered]


@pytest.mark.parametrize(
    ("heading", "sop_classes"), [("4.2.3", commitment.StorageCommitment.sop_classes), ("4.2.4", mpps.PerformedProcedureSteps.sop_classes)]
)
def test_the_other_services_are_named(text: str, heading: str, sop_classes: tuple[str, ...]) -> None:
    assert [[UID(str(uid)).name, str(uid)] for uid in sop_classes] == table(section(text, heading))[: len(sop_classes)]


def test_every_status_of_c_store_stands_with_its_comment(text: str) -> None:
    said = [(int(status.strip("`"), 16), comment) for status, comment, _ in table(section(text, "4.2.1.4"))]
    assert said == [(status, comment or "Success") for status, comment in STATUSES.values()]
    assert set(STATUSES) == set(Answer)


def test_every_status_of_commitment_and_mpps_stands(text: str) -> None:
    part = section(text, "4.2.3")
    actions = {commitment.SUCCESS, commitment.PROCESSING_FAILURE, commitment.NO_SUCH_INSTANCE}
    actions |= {commitment.INVALID_ARGUMENT, commitment.NO_SUCH_ACTION, commitment.RESOURCE_LIMITATION}
    assert codes(part[: part.index("Failure Reason")]) == actions
    assert codes(part[part.index("Failure Reason") :]) == {int(reason) for reason in Failure}
    steps = {mpps.SUCCESS, mpps.INVALID_VALUE, mpps.PROCESSING_FAILURE, mpps.DUPLICATE, mpps.NO_SUCH_INSTANCE}
    steps |= {mpps.MISSING, mpps.MISSING_VALUE, mpps.RESOURCE_LIMITATION, mpps.NO_LONGER_ID}
    assert codes(section(text, "4.2.4")) == steps


def test_every_rejection_of_an_association_stands(text: str) -> None:
    said = {tuple(int(cell.split()[0]) for cell in row[:3]) for row in table(section(text, "A-ASSOCIATE-RJ"))}
    assert said == {rejection.value for rejection in Rejection}


def test_titles_of_rejection_notes_and_our_own_names_stand(text: str) -> None:
    assert set(re.findall(r"\b113\d{3}\b", section(text, "4.5"))) == set(TITLES)
    assert IMPLEMENTATION_CLASS_UID in section(text, "4.1")
    assert IMPLEMENTATION_VERSION_NAME in section(text, "4.1")


def test_every_setting_that_is_named_exists(text: str) -> None:
    known = {name for name, _, _ in rows()}
    named = set(re.findall(r"CTREPORT_[A-Z_]+", text))
    assert named <= known
    assert {name for name in known if name.startswith(("CTREPORT_ACCESS_", "CTREPORT_TLS_C", "CTREPORT_COMMIT_"))} <= named
