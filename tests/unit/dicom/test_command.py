"""Command sets read and written by hand, held against pynetdicom's own reading and writing of the same messages."""

from __future__ import annotations

from io import BytesIO

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydicom.dataset import Dataset
from pydicom.uid import UID
from pynetdicom.dimse_messages import C_ECHO_RQ, C_STORE_RQ, C_STORE_RSP, N_ACTION_RQ, DIMSEMessage
from pynetdicom.dimse_primitives import C_ECHO, C_STORE, N_ACTION
from pynetdicom.dsutils import decode
from pynetdicom.pdu import P_DATA_TF

from pipeline.dicom.command import Request, read_request, store_response
from pipeline.dicom.listener import STATUSES
from tests.wire import CT, c_echo_rq, c_store_rq

COMMITMENT, COMMITMENT_INSTANCE = "1.2.840.10008.1.20.1", "1.2.840.10008.1.20.1.1"
NO_DATA_SET = 0x0101
WHOLE_PDU = 16_384
uids = st.from_regex(r"[012](\.(0|[1-9][0-9]{0,8})){1,6}", fullmatch=True).filter(lambda uid: len(uid) <= 64)
message_ids = st.integers(0, 0xFFFF)
contexts = st.integers(0, 127).map(lambda number: 2 * number + 1)


def bytes_of(message: DIMSEMessage) -> bytes:
    """A message's command set as the library encodes it."""
    fragments = [value for pdata in message.encode_msg(1, 0) for _, value in pdata.presentation_data_value_list if value[0] & 1]
    return b"".join(value[1:] for value in fragments)


def theirs(command: bytes) -> Request:
    """What the library makes of a command set."""
    ds = decode(BytesIO(command), True, True)
    sop_class, sop_uid = str(ds.get("AffectedSOPClassUID") or ""), str(ds.get("AffectedSOPInstanceUID") or "")
    return Request(ds.CommandField, ds.MessageID, sop_class, sop_uid, ds.CommandDataSetType != NO_DATA_SET)


def store_command(sop_class: str, sop_uid: str, message_id: int, has_data_set: bool) -> bytes:
    primitive, message = C_STORE(), C_STORE_RQ()
    primitive.AffectedSOPClassUID, primitive.AffectedSOPInstanceUID = UID(sop_class), UID(sop_uid)
    primitive.MessageID, primitive.Priority = message_id, 2
    if has_data_set:
        primitive.DataSet = BytesIO(b"\x08\x00\x05\x00\x00\x00\x00\x00")
    message.primitive_to_message(primitive)
    return bytes_of(message)


@given(uids, uids, message_ids, st.booleans())
def test_a_store_request_is_read_as_the_library_reads_it(sop_class: str, sop_uid: str, message_id: int, has_data_set: bool) -> None:
    command = store_command(sop_class, sop_uid, message_id, has_data_set)
    assert read_request(command) == theirs(command) == Request(0x0001, message_id, sop_class, sop_uid, has_data_set)


@given(message_ids)
def test_an_echo_is_read_as_the_library_reads_it(message_id: int) -> None:
    primitive, message = C_ECHO(), C_ECHO_RQ()
    primitive.MessageID, primitive.AffectedSOPClassUID = message_id, UID("1.2.840.10008.1.1")
    message.primitive_to_message(primitive)
    command = bytes_of(message)
    assert read_request(command) == theirs(command)
    assert read_request(c_echo_rq(message_id)) == Request(0x0030, message_id, "1.2.840.10008.1.1", "", False)


@given(message_ids, st.booleans())
def test_a_commitment_request_is_read_as_the_library_reads_it(message_id: int, has_data_set: bool) -> None:
    """Its requested class and instance are no affected ones."""
    primitive, message = N_ACTION(), N_ACTION_RQ()
    primitive.MessageID, primitive.ActionTypeID = message_id, 1
    primitive.RequestedSOPClassUID, primitive.RequestedSOPInstanceUID = UID(COMMITMENT), UID(COMMITMENT_INSTANCE)
    if has_data_set:
        primitive.ActionInformation = BytesIO(b"\x08\x00\x05\x00\x00\x00\x00\x00")
    message.primitive_to_message(primitive)
    command = bytes_of(message)
    assert read_request(command) == theirs(command) == Request(0x0130, message_id, "", "", has_data_set)


@given(st.binary(max_size=200))
def test_random_bytes_are_a_request_or_none(command: bytes) -> None:
    found = read_request(command)
    assert found is None or isinstance(found, Request)


@given(st.data())
def test_a_damaged_request_is_a_request_or_none(data: st.DataObject) -> None:
    command = bytearray(c_store_rq(CT, "1.2.3"))
    for _ in range(data.draw(st.integers(1, 4))):
        command[data.draw(st.integers(0, len(command) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(command)))
    for damaged in (bytes(command), bytes(command[:cut]), bytes(command) + b"\x00"):
        found = read_request(damaged)
        assert found is None or store_response(found, 1, 0x0000, "")


def test_every_cut_of_a_request_but_a_cut_between_elements_is_none() -> None:
    command = c_store_rq(CT, "1.2.3")
    whole = [cut for cut in range(len(command) + 1) if read_request(command[:cut]) is not None]
    assert whole[-1] == len(command)
    assert all(read_request(command[:cut]) is None for cut in range(len(command)) if cut not in whole)
    assert len(whole) == 5, "after the command field, and after each of the four elements that follow it"


def test_an_element_of_another_group_is_no_command_set() -> None:
    assert read_request(b"\x08\x00\x00\x01\x02\x00\x00\x00\x01\x00" + c_store_rq(CT, "1.2.3")) is None


def test_empty_and_missing_uids_are_empty() -> None:
    assert read_request(c_store_rq("", "")) == Request(0x0001, 1, "", "", True)
    assert read_request(b"\x00\x00\x00\x01\x02\x00\x00\x00\x01\x00") == Request(0x0001, 0, "", "", True)


def library_response(request: Request, context_id: int, status: int, comment: str) -> bytes:
    """The bytes that the library's C-STORE service sends."""
    primitive, message = C_STORE(), C_STORE_RSP()
    primitive.MessageIDBeingRespondedTo, primitive.Status = request.message_id, status
    primitive.AffectedSOPClassUID, primitive.AffectedSOPInstanceUID = UID(request.sop_class), UID(request.sop_uid)
    if comment:
        primitive.ErrorComment = comment  # type: ignore[assignment]  # the library types it by its first value, None
    message.primitive_to_message(primitive)
    sent = b""
    for pdata in message.encode_msg(context_id, WHOLE_PDU):
        pdu = P_DATA_TF()
        pdu.from_primitive(pdata)
        sent += pdu.encode()
    return sent


@pytest.mark.parametrize(("status", "comment"), STATUSES.values())
@pytest.mark.parametrize("sop_uid", ["1.2.3", "1.2.34"], ids=["odd", "even"])
def test_every_answer_is_written_as_the_library_writes_it(status: int, comment: str, sop_uid: str) -> None:
    request = Request(0x0001, 7, CT, sop_uid, True)
    assert store_response(request, 3, status, comment) == library_response(request, 3, status, comment)


@given(
    st.builds(Request, st.just(0x0001), message_ids, uids, uids, st.just(True)),
    contexts,
    st.sampled_from([status for status, _ in STATUSES.values()]),
    st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E, exclude_characters="\\"), max_size=64),
)
@example(Request(0x0001, 0, CT, "1.2", True), 1, 0xA700, "x")
@example(Request(0x0001, 65535, CT, "1.2", True), 255, 0xA700, "x" * 64)
def test_any_answer_is_written_as_the_library_writes_it(request: Request, context_id: int, status: int, comment: str) -> None:
    assert store_response(request, context_id, status, comment) == library_response(request, context_id, status, comment)


def test_comments_fit_the_value_that_carries_them() -> None:
    """LO, 64 characters at most (PS3.7 C.4.2)."""
    assert all(len(comment) <= 64 and comment.isascii() for _, comment in STATUSES.values())


def test_an_answer_can_be_read_by_the_library() -> None:
    sent = store_response(Request(0x0001, 7, CT, "1.2.3", True), 3, 0xA900, "why")
    pdu = P_DATA_TF()
    pdu.decode(sent)
    message = DIMSEMessage()
    assert message.decode_msg(pdu.to_primitive())
    command: Dataset = message.command_set
    assert (command.Status, command.ErrorComment, command.MessageIDBeingRespondedTo) == (0xA900, "why", 7)
