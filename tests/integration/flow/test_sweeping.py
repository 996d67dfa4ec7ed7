"""The sweeper: two schedules do one's work, and a queue that waits too long is told."""

from __future__ import annotations

from prometheus_client import REGISTRY
from sqlalchemy import text

from pipeline.flow.sweep import Sweeping, sweep
from pipeline.model import Step
from pipeline.store.session import PgStore
from tests.integration.store import rows


class Bell:
    """Notes what is rung."""

    def __init__(self) -> None:
        self.rung: list[Step] = []

    def ring(self, step: Step) -> None:
        self.rung.append(step)


def gauge(name: str, lane: str) -> float | None:
    return REGISTRY.get_sample_value(name, {"step": "encode", "lane": lane})


def test_two_schedules_that_ring_at_any_distance_do_the_work_of_one(store: PgStore) -> None:
    rows.ready_job(store)
    bell = Bell()
    swept = [sweep(Sweeping(store, bell, 5, rows.NOW, every_s=60.0)) for _ in range(3)]
    assert [one.get(Step.ENCODE) for one in swept] == [1, None, None]
    assert bell.rung == [Step.ENCODE]
    with store.begin() as work:
        work.session.execute(text("UPDATE rounds SET at = at - interval '60 s'"))
    assert sweep(Sweeping(store, bell, 5, rows.NOW, every_s=60.0))[Step.ENCODE] == 1


def test_a_queue_that_waits_longer_than_it_may_raises_its_lanes_alarm_until_it_is_short_again(store: PgStore) -> None:
    rows.ready_job(store)
    with store.begin() as work:
        work.session.execute(text("UPDATE jobs SET due_at = now() - interval '10 minutes'"))
    sweep(Sweeping(store, Bell(), 5, rows.NOW, alarm_s={True: 300.0, False: 900.0}))
    assert 600 <= (gauge("ctreport_queue_age_seconds", "others") or 0) < 700
    assert (gauge("ctreport_queue_alarm", "others"), gauge("ctreport_queue_alarm", "stat")) == (0.0, 0.0)
    with store.begin() as work:
        work.session.execute(text("UPDATE jobs SET priority = 0"))
    sweep(Sweeping(store, Bell(), 5, rows.NOW, alarm_s={True: 300.0, False: 900.0}))
    assert (gauge("ctreport_queue_alarm", "others"), gauge("ctreport_queue_alarm", "stat")) == (0.0, 1.0)
    rows.claim(store)
    sweep(Sweeping(store, Bell(), 5, rows.NOW, alarm_s={True: 300.0, False: 900.0}))
    assert (gauge("ctreport_queue_age_seconds", "stat"), gauge("ctreport_queue_alarm", "stat")) == (0.0, 0.0)
