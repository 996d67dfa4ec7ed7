"""Beat: when the sweeper runs."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import celery
from celery.schedules import schedule

from pipeline.model import Step

OLDEST_RING_S = 86_400.0  # hosts whose clocks differ by less (a time zone, as a rule) still hear each other's rings
_BEGAN, _BEGAN_S = datetime.now(UTC), time.monotonic()


def install(app: celery.Celery, sweep_s: float) -> None:
    """Ring `maintenance` every `sweep_s` seconds; a ring that nobody took for a day is dropped."""
    app.conf.beat_schedule = {
        "sweep": {
            "task": Step.MAINTENANCE.value,
            "schedule": schedule(sweep_s, nowfun=steady_now),
            "options": {"expires": OLDEST_RING_S, "queue": Step.MAINTENANCE.value},
        }
    }
    app.conf.beat_max_loop_interval = min(5.0, sweep_s)


def steady_now() -> datetime:
    """A time that runs on evenly when somebody sets the clock: by the wall clock, beat would wait for as long as it was set back."""
    return _BEGAN + timedelta(seconds=time.monotonic() - _BEGAN_S)
