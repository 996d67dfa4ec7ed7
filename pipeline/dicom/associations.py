"""Who is connected: one record an association, a database row from its first image on, and a thread that closes rows.

Rows are written lazily, so that a database that is down costs a refused image and no association. They are closed on a thread of
their own, again and again until the database takes it: a row that stayed open would keep its study from ever being complete.
"""

from __future__ import annotations

import contextlib
import gc
import threading
import uuid
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from pipeline import log, metrics
from pipeline.dicom.intake import Intake
from pipeline.errors import ServiceUnavailable
from pipeline.model import Step
from pipeline.ports import Doorbell, Store

logger = log.get(__name__)
COLLECTED_AT_ONCE = 32
RELEASED, ABORTED, LOST = "released", "aborted", "lost"


@dataclass
class Record:
    """One association. `alive` asks whether its thread still runs."""

    calling_aet: str
    host: str
    alive: Callable[[], bool]
    lock: threading.Lock = field(default_factory=threading.Lock)
    row: UUID | None = None
    stored: bool = False
    connection_lost: bool = False
    refused: bool = False  # an image of it is not here: no room, no database, too large
    over: bool = False
    busy: threading.Event = field(default_factory=threading.Event)  # set for good by the first thing that its own thread must see to
    intake: Intake | None = None


class Associations:
    """The associations of one listener."""

    def __init__(self, store: Store, listener: str, bell: Doorbell, round_s: float = 1.0, predecessors: Sequence[str] = ()) -> None:
        self._store, self._listener, self._bell, self._round_s = store, listener, bell, round_s
        self._names = (listener, *predecessors)  # names under which nobody else runs now
        self._records: dict[int, Record] = {}
        self._closing: deque[tuple[UUID, str, bool]] = deque()
        self._orphans_closed, self._orphans_lock = False, threading.Lock()
        self._lock = threading.Lock()
        self._ended = 0  # since the last collection; may miss one
        self._wake, self._stopping = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Close what an earlier process left open, now or as soon as the database answers."""
        with contextlib.suppress(ServiceUnavailable):
            self._close_orphans()
        self._thread = threading.Thread(target=self._run, name="associations", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Close what can be closed and end the thread; what the database does not take now, the next start closes."""
        self._stopping.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(timeout=10 * self._round_s)
            self._thread = None

    def begin(self, key: int, record: Record) -> int:
        """An association was requested; returns how many there are with it."""
        with self._lock:
            self._records[key] = record
            number = len(self._records)
        metrics.ASSOCIATIONS.inc()
        return number

    def get(self, key: int) -> Record | None:
        """The record of an association that is under way."""
        with self._lock:
            return self._records.get(key)

    def wake_all(self) -> None:
        """Have every association's thread look for what there is to do."""
        with self._lock:
            for record in self._records.values():
                record.busy.set()

    def row(self, record: Record) -> UUID:
        """The record's database row, written with the first image. Raises ServiceUnavailable."""
        with record.lock:
            if record.over:
                raise ServiceUnavailable("the association is over; associate again")
            if record.row is None:
                self._close_orphans()
                row = uuid.uuid4()
                try:
                    with self._store.begin() as work:
                        work.studies.open_association(row, self._listener, record.calling_aet, record.host)
                except ServiceUnavailable:
                    self._closing.append((row, LOST, False))  # whether it was committed is not known
                    raise
                record.row = row
            return record.row

    def end(self, key: int, how: str) -> None:
        """An association is over; the first call counts. Returns at once: the row is closed on the thread."""
        with self._lock:
            record = self._records.pop(key, None)
        if record is None:
            return
        metrics.ASSOCIATIONS.dec()
        self._ended += 1
        if record.intake is not None:
            record.intake.discard()
        with record.lock:
            record.over = True
            if record.row is not None:
                self._closing.append((record.row, how, record.stored))
        self._wake.set()

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._wake.wait(self._round_s)
            self._wake.clear()
            self._round()
        self._round()

    def _round(self) -> None:
        """Nothing ends this thread: a row that stayed open would keep its study waiting."""
        try:
            self._end_dead()
            self._close_waiting()
            self._collect()
        except Exception as error:  # noqa: BLE001  # see above; the next round tries again
            logger.error("associations_failed", error=type(error).__name__)

    def _collect(self) -> None:
        """An association of the library is a cycle of threads, queues and contexts: some dozens of ended ones are worth a collection."""
        if self._ended >= COLLECTED_AT_ONCE:
            self._ended = 0
            gc.collect()

    def _end_dead(self) -> None:
        """A thread that ended without an event (a lost connection) ends its association."""
        with self._lock:
            dead = [key for key, record in self._records.items() if not record.alive()]
        for key in dead:
            self.end(key, LOST)

    def _close_waiting(self) -> None:
        """Close each row in its own transaction, then ring once if any of them had brought images."""
        stored = False
        try:
            self._close_orphans()
            while self._closing:
                row, how, brought = self._closing[0]
                with self._store.begin() as work:
                    work.studies.close_association(row, how)
                self._closing.popleft()
                stored = stored or brought
        except ServiceUnavailable as error:
            logger.warning("association_not_closed", waiting=len(self._closing), reason=str(error))
            self._stopping.wait(self._round_s)
        if stored:
            self._bell.ring(Step.ASSEMBLE)

    def _close_orphans(self) -> None:
        """Once, before this process opens its first row. Raises ServiceUnavailable."""
        with self._orphans_lock:  # not the lock of the records: every PDU asks for that one
            if not self._orphans_closed:
                with self._store.begin() as work:
                    closed = sum(work.studies.close_orphans(name) for name in self._names)
                self._orphans_closed = True
                if closed:
                    logger.info("orphans_closed", associations=closed)
