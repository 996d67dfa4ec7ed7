from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.dicom.phantom_ledger import FilePhantomLedger, append_ledger, read_ledger


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "new" / "phantoms.ledger"


def test_what_was_appended_is_read(path: Path) -> None:
    append_ledger(path, ["2.25.1", "2.25.2"])
    append_ledger(path, ["2.25.3", "2.25.1"])
    assert read_ledger(path) == {"2.25.1", "2.25.2", "2.25.3"}
    assert len(path.read_text().splitlines()) == 3


def test_no_ledger_holds_nothing(path: Path) -> None:
    assert read_ledger(path) == frozenset()
    assert not FilePhantomLedger(path).holds_all(["2.25.1"])


def test_a_study_is_a_phantom_only_when_every_image_is(path: Path) -> None:
    ledger = FilePhantomLedger(path)
    ledger.append(["2.25.1", "2.25.2"])
    assert ledger.holds_all(["2.25.2", "2.25.1"])
    assert not ledger.holds_all(["2.25.1", "1.2.840.1"])
    assert not ledger.holds_all([])


def test_a_line_that_was_cut_short_counts_for_nothing_and_spoils_nothing(path: Path) -> None:
    append_ledger(path, ["2.25.1"])
    with path.open("a") as file:
        file.write("2.25.2")  # the process died before the newline
    assert read_ledger(path) == {"2.25.1"}
    append_ledger(path, ["2.25.7"])
    assert "2.25.7" in read_ledger(path)
    assert "2.25.22.25.7" not in read_ledger(path)
