"""One association's objects on their way in: each fragment goes to the archive's incoming file as it comes, so that memory stays bounded.

The library would gather a whole object in memory. It shows every PDU to EVT_PDU_RECV before it reads it, so the fragments are taken from
the PDU there and an empty fragment is left in their place: the library sees a C-STORE request with an empty data set.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline import log
from pipeline.dicom.archive import add_part
from pipeline.dicom.command import C_STORE_RQ, Request, read_request
from pipeline.dicom.file_meta import file_meta
from pipeline.dicom.walk import HEADER_BYTES
from pipeline.errors import StorageFull
from pipeline.ports import Incoming

if TYPE_CHECKING:
    from pynetdicom.dimse_primitives import C_STORE
    from pynetdicom.pdu import P_DATA_TF

logger = log.get(__name__)
COMMAND, LAST = 0x01, 0x02  # message control header (PS3.8 E.2)
NOTHING = b"\x00"  # a fragment of a data set, not the last, without a byte
COMMAND_BYTES = 64 << 10  # of a command set; real ones have some 200
UNANSWERED = 8  # objects that may wait for the library: a peer sends the next one after the answer
MESSAGE_BYTES = 64 << 20  # of a message that is no C-STORE (a list of instances to commit): more is an attack


class MessageTooLong(Exception):
    """A peer sends a message that never ends."""


@dataclass(frozen=True, slots=True)
class Context:
    """An accepted presentation context."""

    abstract_syntax: str
    transfer_syntax: str


@dataclass
class Object:
    """One C-STORE request with its data set; `content` is None when it had to be dropped, for lack of room or by the size limit."""

    request: Request
    context_id: int
    syntax: str
    content: Incoming | None
    head: bytes = b""
    size: int = 0
    too_large: bool = False


@dataclass
class _Arriving:
    """The object whose fragments are coming in."""

    object: Object
    head: list[bytes | bytearray | memoryview]
    inline: bool


class Intake:
    """What arrives over one association. Only its network thread calls take(); whole objects wait in `whole` for the C-STORE service.

    `inline` is called on the network thread with each object whose command set came in one fragment, where `answers_inline`: the library never
    sees it (it would leave odd requests, with an empty SOPInstanceUID or no data set, without an answer). Others go the library's way.
    """

    def __init__(
        self,
        open_file: Callable[[], Incoming],
        contexts: Callable[[], Mapping[int, Context]],
        max_object_bytes: int,
        inline: Callable[[Object], None],
        answers_inline: Callable[[], bool],
    ) -> None:
        self._open_file, self._contexts, self._max_object_bytes = open_file, contexts, max_object_bytes
        self._inline, self._answers_inline = inline, answers_inline
        self._command = bytearray()
        self._arriving: _Arriving | None = None
        self._other_bytes = 0
        self._lock, self._over = threading.Lock(), False
        self.whole: deque[Object] = deque()
        self.streaming = False  # the last request was an object that was answered inline

    def take(self, pdu: P_DATA_TF) -> bool:
        """Take what belongs to objects out of a PDU; True when something is left that the library must see to. Raises MessageTooLong."""
        left = False
        with self._lock:
            for item in pdu.presentation_data_value_items:
                value, context_id = item.presentation_data_value, item.presentation_context_id
                if value and context_id is not None and not self._over:
                    seen = self._fragment(context_id, value)
                    item.presentation_data_value, left = seen, left or seen is not NOTHING
        return left

    def pop(self, request: C_STORE) -> Object | None:
        """The object of a request that the library serves; None when there is none. Earlier ones, which it dropped in silence, are discarded."""
        while self.whole:
            one = self.whole.popleft()
            wanted = request.MessageID, str(request.AffectedSOPClassUID), str(request.AffectedSOPInstanceUID)
            if (one.request.message_id, one.request.sop_class, one.request.sop_uid) == wanted:
                return one
            if one.content is not None:
                one.content.discard()
        return None

    @property
    def is_idle(self) -> bool:
        """Nothing of an object or a command has arrived that is not whole."""
        return self._arriving is None and not self._command and not self.whole

    def discard(self) -> None:
        """The association is over: drop what nobody will answer any more, take nothing from now on."""
        with self._lock:
            self._over = True
            self._discard_unfinished()
            while self.whole:
                if (content := self.whole.popleft().content) is not None:
                    content.discard()

    def _fragment(self, context_id: int, value: bytes) -> bytes:
        """Take one fragment; returns what the library may see of it."""
        if value[0] & COMMAND:
            return self._command_fragment(context_id, value)
        arriving = self._arriving
        if arriving is None or arriving.object.context_id != context_id:
            self._count_other(value)
            return value
        self._add(arriving, memoryview(value)[1:])
        if value[0] & LAST:
            self._end(arriving)
        return NOTHING if arriving.inline else value[:1]

    def _command_fragment(self, context_id: int, value: bytes) -> bytes:
        alone = not self._command and bool(value[0] & LAST)
        self._command += value[1:]
        if len(self._command) > COMMAND_BYTES:
            raise MessageTooLong(f"a command set of more than {COMMAND_BYTES >> 10} KiB")
        if not value[0] & LAST:
            return value
        command, self._command = bytes(self._command), bytearray()
        request, context = read_request(command), self._contexts().get(context_id)
        self._discard_unfinished()
        self._other_bytes = 0
        if request is None or context is None or request.command_field != C_STORE_RQ:
            self.streaming = False
            return value
        inline = alone and self._answers_inline()
        self._begin(request, context_id, context, inline)
        return NOTHING if inline else value

    def _begin(self, request: Request, context_id: int, context: Context, inline: bool) -> None:
        one = Object(request, context_id, context.transfer_syntax, None)
        try:
            one.content = self._open_file()
            one.content.write(file_meta(request.sop_class, request.sop_uid, context.transfer_syntax))
        except StorageFull as error:
            self._drop(one, error)
        self._arriving = _Arriving(one, [], inline)
        if not request.has_data_set:
            self._end(self._arriving)

    def _add(self, arriving: _Arriving, data: memoryview) -> None:
        one = arriving.object
        if not data:
            return
        if one.size < HEADER_BYTES:
            add_part(arriving.head, data)
        one.size += len(data)
        if one.content is None:
            return
        if one.size > self._max_object_bytes:
            one.too_large = True
            self._drop(one, None)
            return
        try:
            one.content.write(data)  # a view into the PDU: written or hashed, never changed
        except StorageFull as error:
            self._drop(one, error)

    def _drop(self, one: Object, error: StorageFull | None) -> None:
        """Nothing of the object is kept: the rest is read and forgotten, then the peer is told."""
        content, one.content = one.content, None
        if content is not None:
            content.discard()
        logger.warning("object_dropped", reason=str(error) if error else f"larger than {self._max_object_bytes >> 20} MiB")

    def _end(self, arriving: _Arriving) -> None:
        arriving.object.head = b"".join(arriving.head)
        self._arriving = None
        self.streaming = arriving.inline
        if arriving.inline:
            self._inline(arriving.object)
            return
        self.whole.append(arriving.object)
        if len(self.whole) > UNANSWERED:
            raise MessageTooLong(f"more than {UNANSWERED} objects without waiting for an answer")

    def _discard_unfinished(self) -> None:
        """A new command in the middle of a data set: what came of it is worth nothing."""
        arriving, self._arriving = self._arriving, None
        if arriving is not None and arriving.object.content is not None:
            arriving.object.content.discard()

    def _count_other(self, value: bytes) -> None:
        self._other_bytes += len(value)
        if self._other_bytes > MESSAGE_BYTES:
            raise MessageTooLong(f"a message of more than {MESSAGE_BYTES >> 20} MiB that is no C-STORE")
