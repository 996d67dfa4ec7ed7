"""Group commit: images that wait at the same moment share one folder sync, one database transaction and one writing in the ledger. Bytes and names
are synced while the database works; the transaction waits for them before it commits.

Nobody waits for company: whoever finds no round under way starts one with everything that waits. No call returns before its own
image is durable, and a value that the database refuses costs only its own image.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from uuid import UUID

from pipeline import metrics
from pipeline.errors import BadInput, PipelineError, ServiceUnavailable
from pipeline.model import Header, Stored
from pipeline.ports import Archive, Filing, Incoming, Ledger, Registered, Store

CONFLICT_FLAG = "sop-uid-conflict"
LARGEST_ROUND = 64
SIDE_THREADS = 8


@dataclass
class _Waiting:
    """One image: its bytes are on their way to their final name, not yet settled, registered and written down."""

    header: Header
    stored: Future[Stored]
    association: UUID | None
    registered: Registered | None = None
    error: PipelineError | None = None

    @property
    def done(self) -> bool:
        """True when its round is over."""
        return self.registered is not None or self.error is not None


@dataclass(frozen=True)
class GroupCommit:
    """Where the threads of one process meet."""

    store: Store
    archive: Archive
    ledger: Ledger
    _waiting: list[_Waiting] = field(default_factory=list)
    _queue: threading.Lock = field(default_factory=threading.Lock)
    _round: threading.Lock = field(default_factory=threading.Lock)
    _side: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(SIDE_THREADS, "settle"))

    def __call__(self, header: Header, content: Incoming, association: UUID | None) -> Registered:
        """Make one sealed image durable. Raises BadInput for values that the database refuses, StorageFull, ServiceUnavailable."""
        mine = _Waiting(header, self._named(content), association)
        with self._queue:
            self._waiting.append(mine)
        while not mine.done:
            with self._round:
                if not mine.done:
                    self._serve(self._taken())
        wait([mine.stored])  # whatever became of it, nobody works on the content any more
        if mine.registered is None:
            assert mine.error is not None
            raise mine.error
        return mine.registered

    def _named(self, content: Incoming) -> Future[Stored]:
        """Bytes to their final name: on a side thread while the database works for this image alone, here while it works for others."""
        if not self._round.locked():
            return self._side.submit(content.commit)
        done: Future[Stored] = Future()
        try:
            done.set_result(content.commit())
        except PipelineError as error:
            done.set_exception(error)
        return done

    def _taken(self) -> list[_Waiting]:
        with self._queue:
            taken = self._waiting[:LARGEST_ROUND]
            del self._waiting[:LARGEST_ROUND]
        return taken

    def _serve(self, group: Sequence[_Waiting]) -> None:
        """One round. Whatever happens, each of the group is told."""
        try:
            self._settle(group)
        except BadInput as error:
            if len(group) == 1:
                group[0].error = error
            else:
                for one in group:
                    self._serve([one])
        except PipelineError as error:
            for one in group:
                one.error = error
        finally:
            for one in group:
                if not one.done:
                    one.error = ServiceUnavailable("a round of the group commit failed; send the image again")

    def _settle(self, group: Sequence[_Waiting]) -> None:
        registered = self._register(group, self._side.submit(self._sync, group))
        self.ledger.append([one.header for one in group])
        for one, found in zip(group, registered, strict=True):
            if found.filing is not Filing.SAME:
                metrics.RECEIVED_BYTES.inc(one.header.instance.size_bytes)
            one.registered = found

    def _sync(self, group: Sequence[_Waiting]) -> None:
        """Every image of the group under its name, and the names safe. The side threads began with the images before this: it never waits in vain."""
        self.archive.settle([one.stored.result() for one in group])

    def _register(self, group: Sequence[_Waiting], settled: Future[None]) -> Sequence[Registered]:
        with self.store.begin() as work:
            try:
                registered = work.studies.register([(one.header, one.association) for one in group])
            finally:
                settled.result()
            for one, found in zip(group, registered, strict=True):
                if found.filing is Filing.CONFLICT:
                    work.audit.append(CONFLICT_FLAG, study_id=found.study_id, sha256=one.header.instance.sha256)
        return registered
