"""Objects put together from the fragments of PDUs: whatever way they are cut, the bytes are the ones that were sent, and the library sees none."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydicom.uid import UID as Uid
from pynetdicom.dimse_primitives import C_STORE
from pynetdicom.pdu import P_DATA_TF

from pipeline.dicom import intake
from pipeline.dicom.file_meta import file_meta
from pipeline.dicom.intake import NOTHING, Context, Intake, MessageTooLong, Object
from pipeline.errors import StorageFull
from pipeline.model import Stored
from pipeline.ports import Incoming
from tests.wire import COMMAND, CT, EXPLICIT_LE, LAST, VERIFICATION, c_echo_rq, c_store_rq, p_data, pdv

CONTEXTS = {1: Context(CT, EXPLICIT_LE), 3: Context(CT, "1.2.840.10008.1.2")}
ECHO_CONTEXT = 5
UID = "1.2.3.4"
META = file_meta(CT, UID, EXPLICIT_LE)
Fragment = tuple[int, int, bytes]  # context id, control header, value


@dataclass
class File:
    """An incoming file in memory; writing fails once it holds more than `room`."""

    room: int | None = None
    held: bytearray = field(default_factory=bytearray)
    discards: int = 0

    def write(self, data: bytes | memoryview) -> None:
        if self.room is not None and len(self.held) + len(data) > self.room:
            raise StorageFull("no room")
        self.held += data

    def seal(self) -> Stored:
        raise AssertionError("an intake seals nothing")

    def commit(self) -> Stored:
        raise AssertionError("an intake commits nothing")

    def quarantine(self, reason: str) -> Stored:
        raise AssertionError("an intake quarantines nothing")

    def discard(self) -> None:
        self.discards += 1


class Desk:
    """An intake, the files that it opened and the objects that it answered inline."""

    def __init__(self, *, inline: bool = False, room: int | None = None, full: bool = False, most: int = 1 << 20) -> None:
        self.files: list[File] = []
        self.answered: list[Object] = []
        self.room, self.full = room, full
        self.intake = Intake(self.open, lambda: CONTEXTS, most, self.answered.append, lambda: inline)

    def open(self) -> Incoming:
        if self.full:
            raise StorageFull("below the floor")
        self.files.append(File(self.room))
        return self.files[-1]

    def say(self, *fragments: Fragment) -> list[bytes]:
        """Take one PDU of these fragments; returns what the library may see of each."""
        pdu = P_DATA_TF()
        pdu.decode(p_data(*(pdv(number, control, value) for number, control, value in fragments)))
        self.intake.take(pdu)
        seen = [item.presentation_data_value for item in pdu.presentation_data_value_items]
        assert None not in seen
        return [value or b"" for value in seen]

    def go_on(self, fragment: Fragment) -> None:
        """Say one fragment again and again."""
        for _ in range(20):
            self.say(fragment)

    def whole(self) -> Object:
        (one,) = self.intake.whole
        return one


def bytes_of(one: Object) -> bytes:
    """What of the data set stands in its file."""
    assert isinstance(one.content, File)
    return bytes(one.content.held).removeprefix(file_meta(one.request.sop_class, one.request.sop_uid, one.syntax))


def cut(value: bytes, number: int, control: int, *places: int) -> list[Fragment]:
    """A value cut into fragments of one context; the last says so."""
    edges = [0, *sorted(place % (len(value) + 1) for place in places), len(value)]
    parts = [value[start:end] for start, end in itertools.pairwise(edges)]
    return [(number, control, part) for part in parts[:-1]] + [(number, control | LAST, parts[-1])]


def request(uid: str = UID, message: int = 1, *places: int, number: int = 1) -> list[Fragment]:
    return cut(c_store_rq(CT, uid, message), number, COMMAND, *places)


places = st.lists(st.integers(0, 10_000), max_size=6)


@example(data=b"ab", command_cuts=[0], data_cuts=[], pdus=[], inline=True)  # an empty fragment, then the whole command
@given(data=st.binary(max_size=3_000), command_cuts=places, data_cuts=places, pdus=st.lists(st.integers(1, 4), max_size=12), inline=st.booleans())
def test_an_object_cut_in_any_way_is_whole_again(data: bytes, command_cuts: list[int], data_cuts: list[int], pdus: list[int], inline: bool) -> None:
    desk = Desk(inline=inline)
    command = request(UID, 9, *command_cuts)
    fragments = command + cut(data, 1, 0, *data_cuts)
    is_inline = inline and not any(value for _, _, value in command[:-1])
    shown = [seen(fragment) for fragment in fragments]
    if is_inline:
        shown[len(command) - 1 :] = [NOTHING] * (len(shown) - len(command) + 1)
    while fragments:
        size = pdus.pop() if pdus else 1
        said, fragments = fragments[:size], fragments[size:]
        assert desk.say(*said) == [shown.pop(0) for _ in said]
    (one,) = desk.answered if is_inline else desk.intake.whole
    assert bytes_of(one) == one.head == data
    assert (one.size, one.context_id, one.syntax, one.too_large) == (len(data), 1, EXPLICIT_LE, False)
    assert (one.request.message_id, one.request.sop_uid) == (9, UID)
    assert len(desk.answered) + len(desk.intake.whole) == len(desk.files) == 1
    assert desk.files[0].discards == 0


def seen(fragment: Fragment) -> bytes:
    """What the library may see of a fragment on its way: commands as they are, data sets without their bytes."""
    _, control, value = fragment
    return bytes([control]) + (value if control & COMMAND else b"")


@given(st.lists(st.binary(min_size=1, max_size=300), min_size=1, max_size=6), st.booleans())
def test_objects_that_follow_each_other_keep_their_bytes_and_their_order(data_sets: list[bytes], inline: bool) -> None:
    desk = Desk(inline=inline)
    for number, data in enumerate(data_sets):
        desk.say(*request(f"1.2.{number}", number), *cut(data, 1, 0, len(data) // 2))
    found = desk.answered if inline else list(desk.intake.whole)
    assert [(bytes_of(one), one.request.sop_uid) for one in found] == [(data, f"1.2.{number}") for number, data in enumerate(data_sets)]


def test_reserved_bits_of_the_control_header_change_nothing() -> None:
    desk = Desk()
    desk.say((1, 0xF0 | COMMAND | LAST, c_store_rq(CT, UID)), (1, 0xF0, b"ab"), (1, 0xF0 | LAST, b"cd"))
    assert bytes_of(desk.whole()) == b"abcd"


def test_the_syntax_is_the_one_of_the_context() -> None:
    desk = Desk()
    desk.say(*request(number=3), (3, LAST, b"ab"))
    assert desk.whole().syntax == CONTEXTS[3].transfer_syntax


def test_a_request_without_a_data_set_is_an_empty_object() -> None:
    command = c_store_rq(CT, UID).replace(b"\x00\x00\x00\x08\x02\x00\x00\x00\x01\x00", b"\x00\x00\x00\x08\x02\x00\x00\x00\x01\x01")
    desk = Desk(inline=True)
    assert desk.say((1, COMMAND | LAST, command)) == [NOTHING]
    (one,) = desk.answered
    assert (one.head, one.size, bytes_of(one)) == (b"", 0, b"")


def test_what_is_no_object_goes_to_the_library_untouched() -> None:
    desk = Desk(inline=True)
    said = [(ECHO_CONTEXT, COMMAND | LAST, c_echo_rq()), (ECHO_CONTEXT, LAST, b"a data set that belongs to nobody")]
    assert desk.say(*said) == [bytes([control]) + value for _, control, value in said]
    assert not desk.files
    assert not desk.intake.streaming


@pytest.mark.parametrize("number", [ECHO_CONTEXT, 99])
def test_a_store_request_on_a_context_without_storage_is_the_librarys(number: int) -> None:
    desk = Desk(inline=True)
    assert desk.say((number, COMMAND | LAST, c_store_rq(CT, UID)), (number, LAST, b"ab")) == [b"\x03" + c_store_rq(CT, UID), b"\x02ab"]
    assert not desk.files


def test_a_command_that_is_none_is_the_librarys() -> None:
    desk = Desk(inline=True)
    assert desk.say((1, COMMAND | LAST, b"garbage"), (1, LAST, b"ab")) == [b"\x03garbage", b"\x02ab"]
    assert not desk.files


def test_data_of_another_context_is_left_alone_in_the_middle_of_an_object() -> None:
    desk = Desk()
    desk.say(*request(), (1, 0, b"ab"))
    assert desk.say((3, 0, b"stray"), (1, LAST, b"cd")) == [b"\x00stray", b"\x02"]
    assert bytes_of(desk.whole()) == b"abcd"


@pytest.mark.parametrize("inline", [False, True])
def test_a_new_request_in_the_middle_of_a_data_set_drops_the_first(inline: bool) -> None:
    desk = Desk(inline=inline)
    desk.say(*request("1.2.1"), (1, 0, b"half"))
    desk.say(*request("1.2.2"), (1, LAST, b"whole"))
    (one,) = desk.answered if inline else desk.intake.whole
    assert (bytes_of(one), one.head, one.request.sop_uid) == (b"whole", b"whole", "1.2.2")
    assert [file.discards for file in desk.files] == [1, 0]


def test_an_echo_in_the_middle_of_a_data_set_drops_it_too() -> None:
    desk = Desk()
    desk.say(*request(), (1, 0, b"half"))
    desk.say((ECHO_CONTEXT, COMMAND | LAST, c_echo_rq()))
    assert desk.say((1, LAST, b"rest")) == [b"\x02rest"]
    assert not desk.intake.whole
    assert desk.files[0].discards == 1


def test_streaming_says_that_the_last_request_was_answered_inline() -> None:
    desk = Desk(inline=True)
    desk.say(*request(), (1, LAST, b"ab"))
    assert desk.intake.streaming
    desk.say((ECHO_CONTEXT, COMMAND | LAST, c_echo_rq()))
    assert not desk.intake.streaming


@pytest.mark.parametrize("inline", [False, True])
def test_without_room_the_rest_is_swallowed_and_the_object_has_no_content(inline: bool) -> None:
    desk = Desk(inline=inline, room=len(META) + 4)
    shown = desk.say(*request(), (1, 0, b"abcd"), (1, 0, b"no room for this"), (1, LAST, b"nor this"))
    assert shown[1:] == ([NOTHING] * 3 if inline else [b"\x00", b"\x00", b"\x02"])
    (one,) = desk.answered if inline else desk.intake.whole
    assert (one.content, one.too_large) == (None, False)
    assert desk.files[0].discards == 1


def test_below_the_floor_nothing_is_opened_and_the_next_object_may_find_room() -> None:
    desk = Desk(full=True)
    desk.say(*request("1.2.1"), (1, LAST, b"ab"))
    desk.full = False
    desk.say(*request("1.2.2"), (1, LAST, b"cd"))
    first, second = desk.intake.whole
    assert first.content is None
    assert bytes_of(second) == b"cd"


def test_no_room_for_the_file_meta_leaves_no_file_behind() -> None:
    desk = Desk(room=10)
    desk.say(*request(), (1, LAST, b"ab"))
    assert desk.whole().content is None
    assert desk.files[0].discards == 1


def test_an_object_over_the_limit_is_dropped_at_once_and_says_so() -> None:
    desk = Desk(most=10)
    desk.say(*request(), (1, 0, b"0123456789"))
    assert desk.files[0].discards == 0
    desk.say((1, 0, b"!"))
    assert desk.files[0].discards == 1
    desk.say((1, LAST, b"more"))
    one = desk.whole()
    assert (one.content, one.too_large, one.size) == (None, True, 15)


def test_a_message_that_never_ends_is_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake, "MESSAGE_BYTES", 1_000)
    desk = Desk()
    desk.say((ECHO_CONTEXT, COMMAND | LAST, c_echo_rq()))
    with pytest.raises(MessageTooLong):
        desk.go_on((ECHO_CONTEXT, 0, bytes(100)))


def test_a_command_that_never_ends_is_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake, "COMMAND_BYTES", 1_000)
    desk = Desk()
    with pytest.raises(MessageTooLong):
        desk.go_on((1, COMMAND, bytes(100)))


def test_messages_are_counted_one_by_one_and_objects_not_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake, "MESSAGE_BYTES", 1_000)
    desk = Desk()
    taken = 0
    for _ in range(20):
        desk.say(*request(), (1, 0, bytes(700)), (1, LAST, bytes(700)))
        taken += len(desk.intake.whole)
        desk.intake.whole.clear()
        desk.say((ECHO_CONTEXT, COMMAND | LAST, c_echo_rq()), (ECHO_CONTEXT, LAST, bytes(300)))
    assert taken == 20


def test_the_head_is_kept_in_memory_up_to_its_bound_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake, "HEADER_BYTES", 1_000)
    desk = Desk()
    desk.say(*request(), *((1, 0, bytes([number]) * 300) for number in range(100)), (1, LAST, b"end"))
    one = desk.whole()
    sent = b"".join(bytes([number]) * 300 for number in range(100)) + b"end"
    assert (bytes_of(one), one.size) == (sent, len(sent))
    assert 1_000 <= len(one.head) < 1_000 + 300
    assert sent.startswith(one.head)


def test_discard_drops_what_is_under_way_and_what_waits() -> None:
    desk = Desk()
    desk.say(*request("1.2.1"), (1, LAST, b"waits"))
    desk.say(*request("1.2.2"), (1, 0, b"under way"))
    desk.intake.discard()
    assert [file.discards for file in desk.files] == [1, 1]
    assert not desk.intake.whole


@pytest.mark.parametrize("before", [0, 1], ids=["fresh", "in the middle of an object"])
def test_after_discard_nothing_is_taken(before: int) -> None:
    desk = Desk(inline=True)
    if before:
        desk.say(*request(), (1, 0, b"half"))
    desk.intake.discard()
    said: Sequence[Fragment] = [(1, LAST, b"rest"), *request(), (1, LAST, b"data")]
    assert desk.say(*said) == [bytes([control]) + value for _, control, value in said]
    assert (len(desk.files), len(desk.answered), len(desk.intake.whole)) == (before, 0, 0)
    desk.intake.discard()
    assert [file.discards for file in desk.files] == [1] * before


def test_an_empty_fragment_value_is_left_to_the_library() -> None:
    """A PDV without even its control header (PS3.8 E.2)."""
    pdu = P_DATA_TF()
    pdu.decode(p_data(pdv(1, COMMAND | LAST, c_echo_rq())))
    pdu.presentation_data_value_items[0].presentation_data_value = b""
    desk = Desk()
    desk.intake.take(pdu)
    assert pdu.presentation_data_value_items[0].presentation_data_value == b""
    assert VERIFICATION not in {one.abstract_syntax for one in CONTEXTS.values()}


def primitive(uid: str, message: int = 1, sop_class: str = CT) -> C_STORE:
    """A request as the library shows it to its handler."""
    made = C_STORE()
    made.MessageID, made.AffectedSOPClassUID, made.AffectedSOPInstanceUID = message, Uid(sop_class), Uid(uid)
    return made


def test_pop_finds_the_object_of_a_request_and_discards_what_the_library_dropped_before_it() -> None:
    desk = Desk()
    for uid in ("1.2.1", "1.2.2", "1.2.3"):
        desk.say(*request(uid), (1, LAST, b"ab"))
    one = desk.intake.pop(primitive("1.2.2"))
    assert one is not None
    assert one.request.sop_uid == "1.2.2"
    assert [file.discards for file in desk.files] == [1, 0, 0]
    assert [left.request.sop_uid for left in desk.intake.whole] == ["1.2.3"]


@pytest.mark.parametrize("asked", [primitive("1.2.9"), primitive(UID, 2), primitive(UID, 1, VERIFICATION)], ids=["uid", "message", "class"])
def test_pop_never_gives_the_object_of_another_request(asked: C_STORE) -> None:
    desk = Desk()
    desk.say(*request(), (1, LAST, b"ab"))
    assert desk.intake.pop(asked) is None
    assert desk.files[0].discards == 1
    assert desk.intake.pop(primitive(UID)) is None


def test_objects_that_wait_for_no_answer_are_too_many_at_last() -> None:
    desk = Desk()
    for number in range(intake.UNANSWERED):
        desk.say(*request(f"1.2.{number}"), (1, LAST, b"ab"))
    with pytest.raises(MessageTooLong):
        desk.say(*request(), (1, LAST, b"ab"))


def test_objects_that_are_answered_inline_are_never_too_many() -> None:
    desk = Desk(inline=True)
    for number in range(3 * intake.UNANSWERED):
        desk.say(*request(f"1.2.{number}"), (1, LAST, b"ab"))
    assert len(desk.answered) == 3 * intake.UNANSWERED


def test_an_intake_is_idle_between_two_objects_only() -> None:
    desk = Desk()
    assert desk.intake.is_idle
    said: Sequence[Fragment] = [*request(UID, 1, 40), (1, 0, b"half"), (1, LAST, b"rest")]
    for fragment in said:
        desk.say(fragment)
        assert not desk.intake.is_idle
    desk.intake.pop(primitive(UID))
    assert desk.intake.is_idle


@pytest.mark.parametrize("fragment", [b"", b"a"])
def test_small_fragments_leave_their_bytes_and_no_object_each(fragment: bytes) -> None:
    desk = Desk()
    desk.say(*request())
    for _ in range(10):
        desk.say(*[(1, 0, fragment)] * 100)
    arriving = desk.intake._arriving
    assert arriving is not None
    assert b"".join(arriving.head) == bytes_of(arriving.object) == fragment * 1_000
    assert len(arriving.head) <= 1
