"""One trial on a stack that runs: send, strike, wait until everything is at rest, and prove what must hold."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pipeline import log
from pipeline.dicom.phantom_ledger import append_ledger
from pipeline.errors import ServiceUnavailable
from pipeline.evidence import Patience
from pipeline.store.session import PgStore
from workers.chaos import proof
from workers.chaos.blows import Target, refusals
from workers.chaos.mark import refuse_unmarked
from workers.chaos.plan import Strike, plan
from workers.chaos.report import TrialReport
from workers.chaos.senders import Peer, Sending
from workers.chaos.storm import Storm, Struck
from workers.chaos.studies import TrialStudy, sop_uids

LOOK_S = 0.5
VERIFIED = ("missing", "changed", "duplicates", "stuck")
SENT_BY = 0.9  # share of the storm in which studies are sent
logger = log.get(__name__)


@dataclass(frozen=True)
class Ground:
    """Where a trial is held. `verify` is `ctreport verify`'s answer; `patience_s`: how long everything may take to come to rest after the storm."""

    store: PgStore
    path_of: proof.PathOf
    peer: Peer
    department: str
    lease_s: float
    patience: Patience
    exported: Path | None
    verify: Callable[[], Mapping[str, object]]
    phantoms: Path  # the ledger
    patience_s: float = 120.0
    restarts: Callable[[], Mapping[str, int]] = dict


def hold(ground: Ground, target: Target, studies: Sequence[TrialStudy], seed: int, seconds: float) -> TrialReport:
    """Send the studies over `seconds` while the plan of the seed strikes; then prove. Raises NotAllowed for a stack that is not marked."""
    refuse_unmarked(target.database_url)
    began, left_out = time.monotonic(), refusals(target)
    append_ledger(ground.phantoms, sop_uids(list(studies)))
    storm = Storm(target, strikes_of(seed, seconds, target))
    sending = Sending(ground.peer, studies, SENT_BY * seconds / max(1, len(studies)))
    try:
        sending.start()
        storm.start()
        storm.wait()
        all_sent = sending.wait(ground.patience_s)
    finally:
        storm.stop()
    broken = at_rest(ground, studies, sending.acknowledged, all_sent)
    return TrialReport(
        seed=seed,
        studies=len(studies),
        images=len(sending.acknowledged),
        refused=sending.refused,
        struck=storm.struck,
        left_out=left_out,
        disk=target.disk.what if target.disk else "left alone",
        clock="an hour ahead and back, by libfaketime" if target.clock else target.no_clock,
        outcomes=proof.outcomes(ground.store, [study.uid for study in studies]),
        restarts=ground.restarts(),
        broken=broken,
        seconds=round(time.monotonic() - began, 1),
    )


def strikes_of(seed: int, seconds: float, target: Target) -> tuple[Strike, ...]:
    """The plan of a seed without what cannot be made here."""
    left_out = refusals(target)
    return tuple(one for one in plan(seed, seconds) if one.fault not in left_out)


def at_rest(ground: Ground, studies: Sequence[TrialStudy], acknowledged: Collection[Path], all_sent: bool) -> dict[str, list[str]]:
    """Wait until nothing moves any more, then every check: its name → what does not hold."""
    rested = settle(ground, [study.uid for study in studies])
    store = ground.store
    report = ground.verify()
    said = {
        "sent": [] if all_sent else ["not every image was accepted in the time there was"],
        "rest": [] if rested else [f"{proof.unfinished(store, [study.uid for study in studies])} rows still move after {ground.patience_s:.0f} s"],
        "images": proof.images(store, acknowledged, ground.path_of),
        "drafts": proof.drafts(store, studies, ground.department),
        "doubles": proof.doubles(store, studies, ground.exported),
        "leases": proof.leases(store),
        "overdue": proof.overdue(store, ground.lease_s, ground.patience),
        "verify": [] if report["clean"] else [f"{name}: {report[name]}" for name in VERIFIED if report[name]],
    }
    return proof.shortened(said)


def settle(ground: Ground, uids: Sequence[str]) -> bool:
    """True once these studies need nothing more and nobody holds a lease; False when the time is over first."""
    deadline = time.monotonic() + ground.patience_s
    while time.monotonic() < deadline:
        try:
            if not proof.unfinished(ground.store, uids) and not proof.leases(ground.store):
                return True
        except ServiceUnavailable as error:
            logger.warning("trial_waits", reason=str(error))
        time.sleep(LOOK_S)
    return False


def joined(first: Sequence[Struck], second: Sequence[Struck], after_s: float) -> list[Struck]:
    """The strikes of two storms on one clock."""
    return [*first, *(Struck(one.strike, round(one.at_s + after_s, 2), one.missed) for one in second)]
