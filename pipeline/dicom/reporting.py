"""The reports of storage commitments (PS3.4 J.3.3): judged by re-hashing the archive, sent until the peer has heard.

A report goes over the association that asked, while it is open, else over one of ours to the peer's address, else it waits until the
address answers or that AE title connects again. Any number of listener processes share the rows.
"""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections.abc import Callable, Container
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from typing import TYPE_CHECKING

from pynetdicom.sop_class import StorageCommitmentPushModel, StorageCommitmentPushModelInstance  # type: ignore[attr-defined]  # generated at import

from pipeline import log, metrics
from pipeline.dicom.commitment_report import Judgement, event_information, judge
from pipeline.dicom.outlet import Outlet, Outlets, expect_answers
from pipeline.dicom.peer import Address, Caller, Report
from pipeline.dicom.response import failed_at
from pipeline.errors import BadInput, LeaseLost, PipelineError, ServiceUnavailable
from pipeline.modalities import Commitment, Held
from pipeline.model import Lease
from pipeline.ports import Archive, Store

if TYPE_CHECKING:
    from pipeline.settings import CommitSettings

logger = log.get(__name__)
SUCCESS = 0x0000
WARNING = range(0xB000, 0xC000)
LEASE_S = 20.0  # until a listener that was killed while judging is known to be dead
WORKERS = 4
LONGEST_DELAY_S = 3600.0


class Reporting:
    """The threads that judge and report, from start() to stop()."""

    def __init__(
        self,
        store: Store,
        archive: Archive,
        settings: CommitSettings,
        aet: str,
        addresses: Callable[[str], Address | None],
        supported: Container[str],
        outlets: Outlets,
        round_s: float,
    ) -> None:
        self._store, self._archive, self._settings = store, archive, settings
        self._addresses, self._supported = addresses, supported
        self._aet, self._outlets, self._round_s = aet, outlets, round_s
        self._stopping, self._wake = threading.Event(), threading.Event()

    def start(self) -> None:
        """Begin to report; also what an earlier process has left waiting."""
        expect_answers()
        self._owner = f"commit:{os.getpid()}:{uuid.uuid4().hex[:8]}"
        self._caller = Caller(self._aet, self._settings.timeout_s)
        self._idle = threading.Semaphore(WORKERS)
        self._pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="commit")
        self._thread = threading.Thread(target=self._run, name="commitments", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Let go; what is not reported waits in its row."""
        self._stopping.set()
        self._wake.set()
        self._outlets.close()
        self._caller.close()
        self._thread.join(timeout=2 * self._settings.timeout_s)
        self._pool.shutdown(wait=True, cancel_futures=True)

    def lease(self, seconds: float = LEASE_S) -> Lease:
        """A lease of this process."""
        return Lease(self._owner, seconds)

    def submit(self, work: Callable[..., None], *arguments: object) -> None:
        """Hand work to a thread; while stopping it waits in its row."""
        if not self._stopping.is_set():
            self._pool.submit(self._guarded, work, *arguments)

    def _guarded(self, work: Callable[..., None], *arguments: object) -> None:
        try:
            work(*arguments)
        except PipelineError as error:  # its lease runs out, and somebody tries again
            logger.warning("commit_interrupted", reason=str(error))
        except Exception as error:  # noqa: BLE001  # a thread of the listener: the row still waits
            logger.error("commit_failed", error=type(error).__name__, **failed_at(error))

    def _run(self) -> None:
        """The dispatcher: every round, what is due."""
        while not self._stopping.is_set():
            self._guarded(self._due)
            self._wake.wait(self._round_s)
            self._wake.clear()

    def _due(self) -> None:
        """Claim one row per idle worker."""
        self._outlets.forget_dead()
        while self._idle.acquire(blocking=False):
            claimed: tuple[Commitment, ...] = ()
            try:
                with self._store.begin() as work:
                    claimed = work.commitments.claim(1, self.lease())
            finally:
                if not claimed:
                    self._idle.release()
            if not claimed:
                return
            self.submit(self._claimed, claimed[0])

    def _claimed(self, commitment: Commitment) -> None:
        try:
            self.work(commitment, self._outlets.open_to(commitment.calling_aet))
        finally:
            self._idle.release()
            self._wake.set()

    def catch_up(self, aet: str, outlet: Outlet) -> None:
        """Report to a peer that has just connected what it is still owed."""
        while outlet.is_open:
            with self._store.begin() as work:
                claimed = work.commitments.claim(1, self.lease(), aet)
            if not claimed:
                return
            self.work(claimed[0], outlet)

    def work(self, commitment: Commitment, outlet: Outlet | None) -> None:
        """Judge one commitment and report it; an unheard report goes back with its reason."""
        judgement = self._judged(commitment)
        event_type, information = event_information(commitment.transaction_uid, judgement)
        report = Report(StorageCommitmentPushModel, StorageCommitmentPushModelInstance, event_type, information)
        try:
            self._delivered(commitment, report, outlet)
        except ServiceUnavailable as error:
            self._give_back(commitment, str(error))
            return
        with self._store.begin() as work:
            work.commitments.reported(commitment, len(judgement.failed), self.lease())
        metrics.COMMITMENTS.labels("refused" if judgement.failed else "committed").inc()
        logger.info("commit_reported", commitment=str(commitment.id), objects=len(commitment.requested), failures=len(judgement.failed))

    def _judged(self, commitment: Commitment) -> Judgement:
        """Raises LeaseLost when another process works on it, ServiceUnavailable without a database."""
        self._beat(commitment)
        with self._store.begin() as work:
            held = work.commitments.held([reference.sop_uid for reference in commitment.requested])
        beaten = time.monotonic()

        def intact(one: Held) -> bool:
            nonlocal beaten
            if time.monotonic() > beaten + LEASE_S / 4:
                self._beat(commitment)
                beaten = time.monotonic()
            return self._intact(one)

        judgement = judge(commitment.requested, held, intact, self._supported)
        self._beat(commitment, LEASE_S + 4 * self._settings.timeout_s)  # two ways to report, each may wait for its peer
        return judgement

    def _intact(self, one: Held) -> bool:
        try:
            return self._archive.sha256(one.path) == one.sha256
        except (OSError, BadInput):
            return False

    def _beat(self, commitment: Commitment, seconds: float = LEASE_S) -> None:
        with self._store.begin() as work:
            if not work.commitments.heartbeat(commitment, self.lease(seconds)):
                raise LeaseLost(f"commitment {commitment.id} is no longer leased by this listener; the holder goes on")

    def _delivered(self, commitment: Commitment, report: Report, outlet: Outlet | None) -> None:
        """The same association, else a new one. Raises ServiceUnavailable when nobody has confirmed the report."""
        status = self._over_same(report, outlet) if outlet is not None and outlet.is_open else None
        if status is None:
            address = self._addresses(commitment.calling_aet)
            if address is None:
                raise ServiceUnavailable(f"{commitment.calling_aet} has no report_to address: it is told when it connects next")
            status = self._caller.report(address, commitment.calling_aet, report)
        if status != SUCCESS and status not in WARNING:
            raise ServiceUnavailable(f"{commitment.calling_aet} answered the report with status 0x{status:04X}")

    def _over_same(self, report: Report, outlet: Outlet) -> int | None:
        """The peer's status; None when the association ended before it answered."""
        answer: Future[int] = outlet.report(report.sop_class, report.sop_uid, report.event_type, report.information)
        try:
            return answer.result(self._settings.timeout_s)
        except ServiceUnavailable:
            return None
        except FutureTimeout:
            outlet.close()
            return None

    def _give_back(self, commitment: Commitment, reason: str) -> None:
        delay_s = min(self._settings.retry_delay_s * 2.0 ** min(commitment.attempts, 20), LONGEST_DELAY_S)
        with self._store.begin() as work:
            waits = work.commitments.give_back(commitment, reason, delay_s, self._settings.give_up_h * 3600.0, self.lease())
        metrics.COMMITMENTS.labels("delayed" if waits else "given_up").inc()
        logger.warning("commit_delayed" if waits else "commit_given_up", commitment=str(commitment.id), attempts=commitment.attempts, reason=reason)
