"""Night: what to pre-generate in the off-peak window, and in which order. Runs inside the maintenance task, after the sweeper.

A plan is a row: whoever comes next goes on with it. It gives waiting jobs their places in the claim's lanes (STAT has its own); every few minutes
what has come meanwhile is put in. Studies of the night priority wait for the window and, left over at its end, for the next one; what readers will
want goes on at any hour.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from pipeline import log, metrics
from pipeline.model import JobState, Priority, Step
from pipeline.nightly import Kind, NightShift, OffPeak, Pace, Plan, Planned, Waiting, Window
from pipeline.ports import Doorbell, Store, Work

logger = log.get(__name__)
UNMEASURED = Pace(encode_s=20.0, draft_s=40.0, studies=0)  # until a study was drafted
FIRST = ("CT",)  # modalities of a study that is read from CT alone; combined ones (CT and PET) come behind it
FORGOTTEN = timedelta(days=3)
HORIZON = timedelta(hours=24)  # appointments count that lie at most so long after the first reader


@dataclass(frozen=True)
class Shift:
    """What the step works with."""

    store: Store
    bell: Doorbell
    off_peak: OffPeak
    encode_slots: int = 1
    draft_slots: int = 1
    replan_s: float = 300.0
    measured_days: float = 14.0


@dataclass(frozen=True, slots=True)
class Preview:
    """A plan that nobody has made yet."""

    window: Window
    first_reader_at: datetime
    pace: Pace
    items: tuple[Planned, ...]


def night(ports: Shift) -> Plan | None:
    """Plan in the window, put night work off outside it; returns the plan that is on. Called at any time, any number of times, by anybody."""
    with ports.store.begin() as work:
        if not work.night.take_turn():
            return None
        now = work.night.now()
        _end(work)
        window = ports.off_peak.current(now)
        if window is None:
            _defer(work, ports.off_peak.following(now).opens)
            return None
        plan = work.night.plan(window, ports.off_peak.read_from(window))
        due = plan.planned_at is None or now - plan.planned_at >= timedelta(seconds=ports.replan_s)
        planned = _plan(ports, work, plan, now) if due else 0
    if planned:
        for step in (Step.ENCODE, Step.DRAFT):
            ports.bell.ring(step)
    return plan


def preview(ports: Shift) -> Preview:
    """What would be planned now, or at the next opening. Nothing is changed."""
    with ports.store.begin() as work:
        now = work.night.now()
        window = ports.off_peak.current(now) or ports.off_peak.following(now)
        first_reader_at = ports.off_peak.read_from(window)
        return Preview(window, first_reader_at, *_items(ports, work.night, max(now, window.opens), first_reader_at))


def _plan(ports: Shift, work: Work, plan: Plan, now: datetime) -> int:
    pace, items = _items(ports, work.night, now, plan.first_reader_at)
    work.night.keep(plan, items, pace)
    late = sum(item.expected_at > plan.window.closes for item in items)
    metrics.NIGHT.labels("planned").set(len(items))
    metrics.NIGHT.labels("beyond").set(late)
    if plan.planned_at is None:
        work.audit.append("night_planned", plan_id=str(plan.id), studies=str(len(items)), beyond=str(late), measured=str(pace.studies))
    logger.info("night_planned", plan_id=str(plan.id), studies=len(items), beyond=late, measured=pace.studies)
    return len(items)


def _items(ports: Shift, shift: NightShift, now: datetime, first_reader_at: datetime) -> tuple[Pace, tuple[Planned, ...]]:
    pace = measured(shift.pace(ports.measured_days), ports.encode_slots, ports.draft_slots)
    waiting = shift.waiting(first_reader_at + HORIZON)
    return pace, planned(waiting, pace, now, first_reader_at)


def _end(work: Work) -> None:
    for plan_id in work.night.end_plans():
        work.audit.append("night_ended", plan_id=str(plan_id))
        metrics.NIGHT.labels("planned").set(0)
        metrics.NIGHT.labels("beyond").set(0)


def _defer(work: Work, to: datetime) -> None:
    count = work.night.defer(to)
    if count:
        logger.info("night_deferred", jobs=count, until=to.isoformat())


def measured(pace: Pace | None, encode_slots: int, draft_slots: int) -> Pace:
    """With so many studies at once; a guess where nothing was measured."""
    known = pace or UNMEASURED
    return Pace(known.encode_s, known.draft_s, known.studies, max(1, encode_slots), max(1, draft_slots))


def planned(waiting: Sequence[Waiting], pace: Pace, start: datetime, first_reader_at: datetime) -> tuple[Planned, ...]:
    """The studies in the order in which they are to be drafted, each with the time at which its draft should be there."""
    ordered = sorted(waiting, key=lambda one: order_key(one, first_reader_at))
    times = expected(ordered, pace, start)
    return tuple(
        Planned(one.study_id, kind_of(one), one.priority, reads_at(one, first_reader_at), at) for one, at in zip(ordered, times, strict=True)
    )


def order_key(one: Waiting, first_reader_at: datetime) -> tuple[bool, bool, datetime, int, datetime, int, str]:
    """STAT, then who is read first, the more urgent, who has waited longest, what is read from CT alone; always the same order. What has waited for
    nights counts as wanted, so that the backlog moves however much comes."""
    wanted = reads_at(one, first_reader_at)
    if wanted is None and first_reader_at - one.received >= FORGOTTEN:
        wanted = first_reader_at
    combined = sum(modality not in FIRST for modality in one.modalities)
    urgent = one.priority is Priority.STAT
    return not urgent, wanted is None, wanted or one.received, one.priority, one.received, combined, str(one.study_id)


def kind_of(one: Waiting) -> Kind:
    """A prior where something newer of its patient will be read; what the scanner sent at another priority than night is unread."""
    if one.priority is not Priority.NIGHT or one.reads_at is not None:
        return Kind.UNREAD
    return Kind.PRIOR if one.wanted_by is not None else Kind.BACKLOG


def reads_at(one: Waiting, first_reader_at: datetime) -> datetime | None:
    """Its appointment; for a prior that of the newer examination; the first reader for what is unread; None for the backlog."""
    if one.reads_at is not None:
        return one.reads_at
    if one.wanted_by is not None:
        return max(one.wanted_by, first_reader_at) if one.priority is Priority.NIGHT else first_reader_at
    return None if one.priority is Priority.NIGHT else first_reader_at


def expected(ordered: Sequence[Waiting], pace: Pace, start: datetime) -> list[datetime]:
    """When each draft should be there: encoders, then drafters, take the studies in this order as they become free."""
    encoders, drafters = [0.0] * pace.encode_slots, [0.0] * pace.draft_slots
    ends = []
    for one in ordered:
        encoded = 0.0
        if one.state in (JobState.READY, JobState.ENCODING):
            encoded = heapq.heappop(encoders) + pace.encode_s
            heapq.heappush(encoders, encoded)
        drafted = max(heapq.heappop(drafters), encoded) + pace.draft_s
        heapq.heappush(drafters, drafted)
        ends.append(start + timedelta(seconds=drafted))
    return ends
