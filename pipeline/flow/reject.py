"""Reject: a rejection note arrived (IHE IOCM). What it takes back is never read again; a study of which nothing is left is withdrawn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pipeline import log
from pipeline.errors import BadInput
from pipeline.model import Header, Rejection, Step, StudyState
from pipeline.ports import Arrival, Doorbell, Rejected, Store

logger = log.get(__name__)
KEY_OBJECT = "1.2.840.10008.5.1.4.1.1.88.59"


@dataclass(frozen=True)
class Rejecting:
    """Called by the receive step once an object's own row is committed and before its sender hears Success. Idempotent."""

    store: Store
    bell: Doorbell
    read_rejection: Callable[[bytes, str], Rejection | None]

    def __call__(self, arrival: Arrival, header: Header) -> None:
        """Act on a rejection note; nothing for any other object. Raises ServiceUnavailable."""
        if arrival.sop_class != KEY_OBJECT:
            return
        if len(arrival.head) < arrival.size:
            logger.warning("rejection_unreadable", reason="larger than a note can be")
            return
        rejection = self.read_rejection(arrival.head, arrival.transfer_syntax)
        if rejection is not None:
            self._act(header.instance.study_uid, rejection)

    def _act(self, study_uid: str, rejection: Rejection) -> None:
        try:
            with self.store.begin() as work:
                done = work.studies.reject(study_uid, rejection)
        except BadInput as error:  # values that the database refuses: the note is kept, a person must look
            logger.error("rejection_refused", reason=str(error))
            return
        for one in done:
            logger.info("reject", study_id=str(one.study_id), images=one.images, before=one.before.value, after=one.after.value)
        self._ring(done)

    def _ring(self, done: tuple[Rejected, ...]) -> None:
        if any(one.after is StudyState.RECEIVING for one in done):
            self.bell.ring(Step.ASSEMBLE)
        if any(one.after is StudyState.WITHDRAWN and one.before is not StudyState.WITHDRAWN for one in done):
            self.bell.ring(Step.DELIVER)
