"""Ledger against rows against bytes."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from pipeline.dicom.archive import FileArchive
from pipeline.dicom.ledger import Entry
from pipeline.dicom.verify import Verification, compare


class Row(NamedTuple):
    sop_uid: str
    sha256: str
    path: str


class Case(NamedTuple):
    root: Path
    entries: list[Entry]
    rows: list[Row]

    def verified(self, stuck: tuple[object, ...] = ()) -> Verification:
        return compare(self.entries, self.rows, FileArchive(self.root, 0), stuck)


@pytest.fixture
def case(tmp_path: Path) -> Case:
    """Three images, all as they should be."""
    archive, entries, rows = FileArchive(tmp_path, 0), [], []
    for number in range(3):
        incoming = archive.open()
        incoming.write(bytes([number]) * 100)
        stored = incoming.commit()
        entries.append(Entry(f"1.2.{number}", stored.sha256, 100, stored.path, "2026-11-30T00:00:00+00:00"))
        rows.append(Row(f"1.2.{number}", stored.sha256, stored.path))
    return Case(tmp_path, entries, rows)


def test_three_that_agree_are_clean_however_often_they_were_acknowledged(case: Case) -> None:
    case.entries.extend(case.entries[:])
    report = case.verified()
    assert report.clean
    assert report.as_json() == {"clean": True, "acknowledged": 3, "missing": [], "changed": [], "orphaned": [], "duplicates": [], "stuck": []}


def test_a_lost_row_and_a_lost_file_are_named(case: Case) -> None:
    lost_row = case.rows.pop(0)
    (case.root / case.rows[0].path).unlink()
    report = case.verified()
    assert not report.clean
    assert [(d.what, d.sop_uid) for d in report.missing] == [("no database row", lost_row.sop_uid), ("no file in the archive", case.rows[0].sop_uid)]
    assert lost_row.sop_uid in report.summary()


def test_a_changed_file_is_named(case: Case) -> None:
    (case.root / case.rows[1].path).write_bytes(b"x" * 100)
    report = case.verified()
    assert [d.path for d in report.changed] == [case.rows[1].path]
    assert not report.clean


def test_a_file_without_a_row_is_listed_and_no_fault(case: Case) -> None:
    entry = case.entries.pop()
    case.rows.pop()
    report = case.verified()
    assert report.clean
    assert [d.path for d in report.orphaned] == [entry.path]


def test_two_rows_for_one_image_are_a_fault(case: Case) -> None:
    case.rows.append(case.rows[0])
    assert [d.sop_uid for d in case.verified().duplicates] == ["1.2.0"]
    assert not case.verified().clean


def test_a_row_that_does_not_move_is_a_fault(case: Case) -> None:
    report = case.verified(stuck=(Row("study", "a", "b"),))
    assert not report.clean
    assert report.as_json()["stuck"] == [{"sop_uid": "study", "sha256": "a", "path": "b"}]
