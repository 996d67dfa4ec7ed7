"""The proof by fire: a stack of its own, from its first process to its last, whose first studies the embedded engine drafts and the others a fake
draft server, under the strikes of a seed."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from sqlalchemy import func, select

from pipeline import log
from pipeline.dicom.phantom_ledger import append_ledger
from pipeline.errors import NotAllowed, ServiceUnavailable
from pipeline.evidence import Patience
from pipeline.model import JobState
from pipeline.store.session import PgStore
from pipeline.store.tables import JobRow, StudyRow
from workers.chaos import proof
from workers.chaos.blows import Target, refusals
from workers.chaos.child import DISK, ENCODER, lay_down
from workers.chaos.clock import false_clock, swept
from workers.chaos.disk import FlaggedDisk, disk_for
from workers.chaos.drafts import fake_drafts, served_folder
from workers.chaos.mark import mark, refuse_unmarked
from workers.chaos.plan import PROCESSES, Fault, Strike, plan
from workers.chaos.report import TrialReport
from workers.chaos.senders import Peer, Sending
from workers.chaos.storm import Storm
from workers.chaos.studies import READABLE, TINY, TrialStudy, sop_uids, write_studies
from workers.chaos.trial import SENT_BY, Ground, at_rest, joined, strikes_of
from workers.embedded.processes import Child
from workers.local import StackInfo, read_stack, wait_for_stack
from workers.stack import CTREPORT

logger = log.get(__name__)
DEPARTMENT = "radiology"
LEASE_S = 3.0
QUIET_S, WAIT_S = 1.0, 2.0
DISK_MB = 96
READY_S, LOOK_S, STOP_S = 300.0, 0.25, 120.0
REPORT = "report.json"
# while the embedded engine drafts: what it and its neighbours may die of
FIRST_FAULTS = frozenset({*PROCESSES, Fault.BROKER_EMPTIED, Fault.DATABASE_CUT})
AGAIN = {"tries": 60, "first_s": 0.5, "longest_s": 3.0}  # many short pauses: the storm is short, too
SETTINGS: Mapping[str, str] = {
    "CTREPORT_MODE": "site",
    "CTREPORT_ASSEMBLE_QUIET_S": f"{QUIET_S:g}",
    "CTREPORT_ASSEMBLE_PATIENCE_S": f"{WAIT_S:g}",
    "CTREPORT_WORK_LEASE_S": f"{LEASE_S:g}",
    "CTREPORT_WORK_SWEEP_S": "1",
    "CTREPORT_WORK_MAX_ATTEMPTS": "20",
    "CTREPORT_WORK_RETRIES": json.dumps({"service": AGAIN, "storage": AGAIN, "passing": AGAIN}),
    "CTREPORT_WORK_DEAF_S": "8",
    "CTREPORT_WORK_GRACE_S": "5",
    "CTREPORT_REDIS_VISIBILITY_TIMEOUT_S": "20",
    "CTREPORT_ARCHIVE_FREE_FLOOR_MB": "1",
    "CTREPORT_ARCHIVE_FREE_FLOOR_PERCENT": "0",
    "CTREPORT_IMAGING_DENOISE": "never",
    "CTREPORT_SERVED_CONNECT_TIMEOUT_S": "1",
    "CTREPORT_SERVED_FIRST_TOKEN_TIMEOUT_S": "2",
    "CTREPORT_SERVED_TIMEOUT_S": "5",
    "CTREPORT_SERVED_RETRIES": "1",
    "CTREPORT_SERVED_CONCURRENCY": "4",
    "CTREPORT_SERVED_RECHECK_S": "1",
}


@dataclass(frozen=True, slots=True)
class Size:
    """How large a fire is: studies that each kind of drafter gets, and the seconds of each storm."""

    embedded: int = 20
    served: int = 180
    first_s: float = 20.0
    then_s: float = 45.0
    patience_s: float = 180.0


@dataclass(frozen=True)
class Fuel:
    """What all fires of one folder share: the studies for each drafter, and what the fake server serves."""

    readable: Sequence[TrialStudy]
    tiny: Sequence[TrialStudy]
    model: Path

    @property
    def studies(self) -> list[TrialStudy]:
        """All of them."""
        return [*self.readable, *self.tiny]


def gather(work: Path, size: Size) -> Fuel:
    """Write what a fire of this size needs into `work`, where it is not there yet."""
    readable = write_studies(work / "studies", 1, size.embedded, READABLE)
    tiny = write_studies(work / "studies", 100_001, size.served, TINY)
    return Fuel(readable, tiny, served_folder(work / "model"))


def burn(work: Path, seed: int, size: Size) -> TrialReport:
    """One seed, from an empty data folder to a stopped stack; the report also stands in the folder, beside the logs."""
    began, cpu_before = time.monotonic(), _cpu_s()
    fuel = gather(work, size)
    data = work / f"seed-{seed}"
    run = data / "fire"
    if data.exists():
        raise NotAllowed(f"'{data}' is there already: a fire begins on an empty folder; remove it, or give another --work")
    run.mkdir(parents=True)
    with ExitStack() as lit:
        lit.enter_context(swept())
        disk = lit.enter_context(disk_for(data / "disk", run, DISK_MB))
        drafts = lit.enter_context(fake_drafts(fuel.model))
        append_ledger(data / "phantoms.ledger", sop_uids(fuel.studies))
        lay_down(run, {DISK: "flagged"} if isinstance(disk, FlaggedDisk) else {})
        info = lit.enter_context(running(data, run))
        mark(info.database_url)
        clock, pid_of = false_clock(run), partial(_pid_of, data)
        target = Target(info.database_url, info.redis_url, pid_of, clock=clock, disk=disk, drafts=drafts)
        store = PgStore(info.database_url)
        lit.callback(store.dispose)
        report = _Fire(_ground(store, info, size), target, fuel, size, run).burn(seed)
        (data / REPORT).write_text(json.dumps(report.as_json(), ensure_ascii=False, indent=1), encoding="utf-8")
    return replace(report, seconds=round(time.monotonic() - began, 1), cpu_s=round(_cpu_s() - cpu_before, 1))


@dataclass(frozen=True)
class _Fire:
    """One seed on a stack that runs."""

    ground: Ground
    target: Target
    fuel: Fuel
    size: Size
    run: Path

    def burn(self, seed: int) -> TrialReport:
        """The first studies with their storm, the others with theirs, then the proof."""
        refuse_unmarked(self.target.database_url)
        began = time.monotonic()
        first = self._send(self.fuel.readable, 0.0)
        kindling = self._storm(_first_strikes(seed, self.size.first_s, self.target))
        self._await(first, self.fuel.readable, (JobState.READY, JobState.ENCODING))
        self._change("worker-encode", {ENCODER: "fake"})
        kindling.wait()
        self._await(first, self.fuel.readable, (JobState.ENCODED, JobState.DRAFTING))
        assert self.target.drafts is not None
        served = {"CTREPORT_SGLANG_URL": self.target.drafts.url, "CTREPORT_SERVED_MODEL": str(self.target.drafts.folder)}
        self._change("worker-draft", {ENCODER: "fake", **served})
        then_s = time.monotonic() - began
        others = self._send(self.fuel.tiny, SENT_BY * self.size.then_s / max(1, len(self.fuel.tiny)))
        storm = self._storm(strikes_of(seed, self.size.then_s, self.target))
        storm.wait()
        all_sent = all([first.wait(self.size.patience_s), others.wait(self.size.patience_s)])
        acknowledged = first.acknowledged | others.acknowledged
        broken = at_rest(self.ground, self.fuel.studies, acknowledged, all_sent)
        target = self.target
        return TrialReport(
            seed=seed,
            studies=len(self.fuel.studies),
            images=len(acknowledged),
            refused=first.refused + others.refused,
            struck=joined(kindling.struck, storm.struck, then_s),
            left_out=refusals(target),
            disk=target.disk.what if target.disk else "left alone",
            clock="an hour ahead and back, by libfaketime on our processes" if target.clock else target.no_clock,
            outcomes=proof.outcomes(self.ground.store, [study.uid for study in self.fuel.studies]),
            restarts=self.ground.restarts(),
            broken=broken,
            seconds=time.monotonic() - began,
        )

    def _send(self, studies: Sequence[TrialStudy], pace_s: float) -> Sending:
        sending = Sending(self.ground.peer, studies, pace_s)
        sending.start()
        return sending

    def _storm(self, strikes: Sequence[Strike]) -> Storm:
        storm = Storm(self.target, strikes)
        storm.start()
        return storm

    def _change(self, part: str, settings: Mapping[str, str]) -> None:
        """Lay down other settings, and kill the process that is to live by them: its supervisor starts it with them."""
        disk = {DISK: "flagged"} if isinstance(self.target.disk, FlaggedDisk) else {}
        lay_down(self.run, {**disk, **settings})
        while (pid := self.target.pid_of(part) if self.target.pid_of else None) is not None:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:  # it has just died of something else; the one that was started meanwhile may know the old ones
                time.sleep(LOOK_S)
            else:
                return

    def _await(self, sending: Sending, studies: Sequence[TrialStudy], states: Sequence[JobState]) -> None:
        """Until these studies are sent and have a job, and none is in these states or before them."""
        sending.wait(self.size.patience_s)
        deadline = time.monotonic() + self.size.patience_s
        while time.monotonic() < deadline:
            with suppress(ServiceUnavailable):
                if not _before(self.ground.store, studies, states):
                    return
            time.sleep(LOOK_S)


def _before(store: PgStore, studies: Sequence[TrialStudy], states: Sequence[JobState]) -> int:
    """Studies without a job of their newest revision, or with one in these states."""
    waiting = {JobState.READY, JobState.ENCODING, *states}
    past = select(func.count(func.distinct(StudyRow.id))).join(JobRow, (JobRow.study_id == StudyRow.id) & (JobRow.revision == StudyRow.revision))
    past = past.where(StudyRow.study_uid.in_([study.uid for study in studies]), JobRow.state.not_in([state.value for state in waiting]))
    with store.begin() as work:
        return len(studies) - int(work.session.execute(past).scalar_one())


def _first_strikes(seed: int, seconds: float, target: Target) -> tuple[Strike, ...]:
    left_out = refusals(target)
    return tuple(one for one in plan(seed + 1_000_003, seconds, FIRST_FAULTS, once=True) if one.fault not in left_out)


@contextmanager
def running(data: Path, run: Path) -> Iterator[StackInfo]:
    """A stack on `data` whose processes a trial can reach into; stopped when the block ends. Raises ServiceUnavailable when it does not start."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CTREPORT_")}
    env = {**kept, **SETTINGS, **_places(data)}
    up = Child([sys.executable, "-m", "workers.chaos.up", str(run)], data / "up.log", env, death_signal=signal.SIGTERM)
    try:
        yield wait_for_stack(data, data / "up.log", up.alive, READY_S)
    finally:
        if not up.stop([(signal.SIGTERM, STOP_S)]):
            logger.warning("stack_killed", after_s=STOP_S)  # what it found stands all the same


def _places(data: Path) -> dict[str, str]:
    return {
        "CTREPORT_DATA": str(data),
        "CTREPORT_ARCHIVE_ROOT": str(data / "disk" / "archive"),
        "CTREPORT_DELIVER_FOLDER": str(data / "disk" / "exported"),
        "OMP_NUM_THREADS": "1",
    }


def _ground(store: PgStore, info: StackInfo, size: Size) -> Ground:
    data = info.data
    return Ground(
        store=store,
        path_of=lambda relative: data / "disk" / "archive" / relative,
        peer=Peer("127.0.0.1", info.ports["listener"], "CTREPORT"),
        department=DEPARTMENT,
        lease_s=LEASE_S,
        patience=Patience(QUIET_S, 3.0, WAIT_S, 3600.0),
        exported=data / "disk" / "exported",
        verify=partial(_verify, data),
        phantoms=data / "phantoms.ledger",
        patience_s=size.patience_s,
        restarts=partial(_restarts, data),
    )


def _verify(data: Path) -> Mapping[str, object]:
    """`ctreport verify` as a person runs it."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CTREPORT_")}
    command = [*CTREPORT, "verify", "--json", "-", "--data", str(data)]
    ran = subprocess.run(command, capture_output=True, text=True, env={**kept, **SETTINGS, **_places(data)}, timeout=READY_S, check=False)
    if ran.returncode not in (0, 1) or not ran.stdout:
        raise ServiceUnavailable(f"`ctreport verify` ended with {ran.returncode}: {ran.stderr[-300:]}")
    answer: Mapping[str, object] = json.loads(ran.stdout)
    return answer


def _pid_of(data: Path, part: str) -> int | None:
    info = read_stack(data)
    return info.part(part).pid if info is not None else None


def _restarts(data: Path) -> dict[str, int]:
    info = read_stack(data)
    return {part.name: part.restarts for part in info.parts if part.restarts} if info is not None else {}


def _cpu_s() -> float:
    """Seconds of processor of this process and of all children that have ended and were waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)
