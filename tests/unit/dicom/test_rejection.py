"""Rejection notes as senders write them, and what is none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydicom.uid import DeflatedExplicitVRLittleEndian, ExplicitVRBigEndian, ExplicitVRLittleEndian, ImplicitVRLittleEndian

from pipeline.dicom.rejection import read_rejection
from pipeline.model import RejectedImage, Rejection
from tests.rejection_notes import encoded, note


@pytest.mark.parametrize("syntax", [ImplicitVRLittleEndian, ExplicitVRLittleEndian, ExplicitVRBigEndian, DeflatedExplicitVRLittleEndian])
def test_a_note_is_read_in_every_uncompressed_syntax(syntax: str) -> None:
    found = read_rejection(encoded(note("1.2.3", ["1.2.3.9.1", "1.2.3.9.2"]), syntax), syntax)
    images = (RejectedImage("1.2.3", "1.2.3.9.1"), RejectedImage("1.2.3", "1.2.3.9.2"))
    assert found == Rejection("1.2.3.8.113001", "113001", "因质量原因拒绝", "1.2.3", images)


@pytest.mark.parametrize(("code", "bars"), [("113001", True), ("113037", True), ("113038", True), ("113039", False)])
def test_every_code_of_the_context_group_is_known_and_retention_bars_nothing(code: str, bars: bool) -> None:
    found = read_rejection(encoded(note("1.2.3", ["1.2.3.9.1"], code)), ImplicitVRLittleEndian)
    assert found is not None
    assert (found.code, found.bars, found.sop_uids) == (code, bars, ("1.2.3.9.1",))


def test_a_key_object_for_teaching_is_no_note() -> None:
    assert read_rejection(encoded(note("1.2.3", ["1.2.3.9.1"], "113004")), ImplicitVRLittleEndian) is None


def test_a_code_of_another_scheme_is_no_note() -> None:
    ds = note("1.2.3", ["1.2.3.9.1"])
    ds.ConceptNameCodeSequence[0].CodingSchemeDesignator = "99LOCAL"
    assert read_rejection(encoded(ds), ImplicitVRLittleEndian) is None


def test_the_evidence_places_images_of_other_studies_and_stands_in_for_missing_content() -> None:
    ds = note("1.2.3", ["1.2.3.9.1"], others={"4.5.6": ["4.5.6.9.1"]})
    found = read_rejection(encoded(ds), ImplicitVRLittleEndian)
    del ds.ContentSequence
    assert found == read_rejection(encoded(ds), ImplicitVRLittleEndian)
    assert found is not None
    assert found.images == (RejectedImage("1.2.3", "1.2.3.9.1"), RejectedImage("4.5.6", "4.5.6.9.1"))


def test_only_what_the_content_selects_counts_where_there_is_content() -> None:
    ds = note("1.2.3", ["1.2.3.9.1", "1.2.3.9.2"])
    del ds.ContentSequence[-1]
    found = read_rejection(encoded(ds), ImplicitVRLittleEndian)
    assert found is not None
    assert found.sop_uids == ("1.2.3.9.1",)


def test_an_image_that_the_evidence_does_not_place_belongs_to_the_notes_own_study() -> None:
    ds = note("1.2.3", ["1.2.3.9.1"])
    del ds.CurrentRequestedProcedureEvidenceSequence
    found = read_rejection(encoded(ds), ImplicitVRLittleEndian)
    assert found is not None
    assert found.images == (RejectedImage("1.2.3", "1.2.3.9.1"),)


def test_a_uid_that_breaks_the_rules_is_taken_as_it_is_and_reaches_no_log(caplog: pytest.LogCaptureFixture) -> None:
    ds = note("1.2.3", ["1.2.3.9.1"])
    ds.ContentSequence[0].ReferencedSOPSequence[0][0x00081155]._value = "1.02.x"
    body = encoded(ds)
    caplog.clear()
    found = read_rejection(body, ImplicitVRLittleEndian)
    assert found is not None
    assert found.sop_uids == ("1.02.x",)
    assert caplog.text == ""


@given(st.binary(max_size=400))
def test_garbage_is_no_note_and_raises_nothing(data: bytes) -> None:
    assert read_rejection(data, ExplicitVRLittleEndian) is None
    assert read_rejection(data, DeflatedExplicitVRLittleEndian) is None


@given(st.integers(0, 600), st.binary(min_size=1, max_size=8))
def test_a_damaged_note_raises_nothing(at: int, rubbish: bytes) -> None:
    whole = encoded(note("1.2.3", ["1.2.3.9.1"]))
    for damaged in (whole[:at], whole[:at] + rubbish + whole[at + len(rubbish) :]):
        found = read_rejection(damaged, ImplicitVRLittleEndian)
        assert found is None or found.study_uid
