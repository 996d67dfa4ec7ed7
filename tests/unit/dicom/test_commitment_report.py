"""Storage commitments: read, judged, put into words."""

from __future__ import annotations

import contextlib
from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydicom.dataset import Dataset
from pynetdicom.dsutils import decode, encode

from pipeline.dicom.commitment_report import Failure, Judgement, event_information, judge, read_request
from pipeline.dicom.elements import FAULTS
from pipeline.dicom.told import text
from pipeline.errors import BadInput
from pipeline.modalities import Held, Reference
from tests.integration.dicom.services import action

CT, SR = "1.2.840.10008.5.1.4.1.1.2", "1.2.840.10008.5.1.4.1.1.88.67"
NAMES = st.sampled_from(["1.1", "1.2", "1.3", "not a uid"])
REFERENCES = st.builds(Reference, st.sampled_from([CT, SR, "9.9"]), NAMES)
HELD = st.builds(Held, REFERENCES, st.sampled_from(["good", "bad"]), st.just(""))


def intact(one: Held) -> bool:
    return one.path == "good"


@given(st.lists(REFERENCES, unique=True), st.lists(HELD))
def test_every_object_is_promised_or_refused_once_and_only_sound_ones_are_promised(requested: list[Reference], held: list[Held]) -> None:
    judgement = judge(requested, held, intact, {CT, SR})
    assert sorted([*judgement.committed, *(reference for reference, _ in judgement.failed)], key=str) == sorted(requested, key=str)
    for reference in judgement.committed:
        kept = [one for one in held if one.reference == reference]
        assert kept
        assert all(map(intact, kept))
    for reference, reason in judgement.failed:
        of_uid = [one for one in held if one.reference.sop_uid == reference.sop_uid]
        absent = not of_uid
        assert (reason in (Failure.NO_SUCH_OBJECT, Failure.CLASS_NOT_SUPPORTED)) == absent
        assert (reason is Failure.CLASS_CONFLICT) == (not absent and reference not in [one.reference for one in of_uid])


@given(st.lists(REFERENCES, unique=True, min_size=1), st.booleans())
def test_a_request_survives_both_encodings_with_any_text_as_uid(requested: list[Reference], implicit: bool) -> None:
    _, told = event_information("1.2.3", Judgement(tuple(requested), ()))
    encoded = encode(told, implicit, True)
    assert encoded is not None
    transaction, references = read_request(decode(BytesIO(encoded), implicit, True))
    assert (transaction, list(references)) == ("1.2.3", requested)


def test_failures_make_event_type_2_with_their_reasons() -> None:
    failed = ((Reference(CT, "1.1"), Failure.NO_SUCH_OBJECT), (Reference(SR, "1.2"), Failure.CLASS_CONFLICT))
    event_type, ds = event_information("1.2.3", Judgement((Reference(CT, "1.3"),), failed))
    assert event_type == 2
    assert [item.FailureReason for item in ds.FailedSOPSequence] == [0x0112, 0x0119]
    assert len(ds.ReferencedSOPSequence) == 1
    assert event_information("1.2.3", Judgement((Reference(CT, "1.3"),), ()))[0] == 1


def test_nothing_promised_names_no_referenced_objects() -> None:
    event_type, ds = event_information("1.2.3", Judgement((), ((Reference(CT, "1.1"), Failure.PROCESSING),)))
    assert event_type == 2
    assert "ReferencedSOPSequence" not in ds


@pytest.mark.parametrize("ds", [Dataset(), action(None, [(CT, "1.1")]), action("1.2", []), action("1.2", [(CT, "")]), action("", [(CT, "1.1")])])
def test_a_request_that_lacks_something_is_refused_without_saying_a_uid(ds: Dataset) -> None:
    with pytest.raises(BadInput, match=r"missing|lacks"):
        read_request(ds)


def test_the_same_reference_twice_counts_once() -> None:
    assert read_request(action("1.2", [(CT, "1.1"), (CT, "1.1")]))[1] == (Reference(CT, "1.1"),)


@given(st.binary(max_size=200))
def test_no_bytes_make_reading_fail_otherwise_than_by_bad_input(data: bytes) -> None:
    try:
        ds = decode(BytesIO(data), True, True)
        text(ds, "TransactionUID")
    except FAULTS:
        return
    with contextlib.suppress(BadInput):
        read_request(ds)
