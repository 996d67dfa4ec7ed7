"""The Celery settings that PLATFORM's observations ask for, and a base task that no exception escapes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
import time_machine
from celery import Celery
from celery.beat import ScheduleEntry

from pipeline.errors import ServiceUnavailable
from pipeline.model import Step
from workers import schedule
from workers.app import QUEUES, StepTask, create_app


@pytest.fixture
def app() -> Celery:
    return create_app("redis://:secret@127.0.0.1:1/0", visibility_timeout_s=900)


def test_queues_are_named_after_the_steps_that_have_one(app: Celery) -> None:
    assert [queue.name for queue in app.conf.task_queues] == ["assemble", "encode", "draft", "deliver", "maintenance"]
    assert app.conf.task_routes == {step.value: {"queue": step.value} for step in QUEUES}


def test_messages_are_json_late_acknowledged_and_taken_one_at_a_time(app: Celery) -> None:
    conf = app.conf
    assert (conf.task_serializer, conf.accept_content, conf.task_ignore_result) == ("json", ["json"], True)
    assert (conf.task_acks_late, conf.task_reject_on_worker_lost, conf.worker_prefetch_multiplier) == (True, True, 1)
    assert conf.broker_transport_options["visibility_timeout"] > conf.task_time_limit > conf.task_soft_time_limit


def test_the_sweeper_is_rung_by_beat_and_only_rings_of_yesterday_expire(app: Celery) -> None:
    """A ring that is dropped after some seconds is never heard on a host whose clock is some seconds ahead."""
    schedule.install(app, sweep_s=10.0)
    entry = app.conf.beat_schedule["sweep"]
    assert (entry["task"], entry["schedule"].seconds, entry["options"]["expires"]) == (Step.MAINTENANCE.value, 10.0, 86_400.0)


@pytest.mark.parametrize("hours", [-1, 1])
def test_beat_goes_on_ringing_when_somebody_sets_the_clock(app: Celery, hours: int) -> None:
    schedule.install(app, sweep_s=10.0)
    entry = ScheduleEntry("sweep", app=app, **app.conf.beat_schedule["sweep"])
    with time_machine.travel(datetime.now(UTC) + timedelta(hours=hours)):
        assert 0 < entry.is_due()[1] <= 10.0
        assert 0 < entry.next().is_due()[1] <= 10.0


@pytest.mark.parametrize("error", [ServiceUnavailable("the database does not answer"), ValueError("a bug")])
def test_no_exception_leaves_the_base_task(app: Celery, error: Exception) -> None:
    ran: list[str] = []

    def body() -> None:
        ran.append("once")
        raise error

    task = app.task(name="test", base=StepTask)(body)
    task()
    assert ran == ["once"]
