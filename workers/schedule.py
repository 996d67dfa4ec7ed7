"""Beat: when the sweeper runs."""

from __future__ import annotations

import celery

from pipeline.model import Step


def install(app: celery.Celery, sweep_s: float) -> None:
    """Ring `maintenance` every `sweep_s` seconds; a ring that waits longer than three rounds is dropped."""
    app.conf.beat_schedule = {
        "sweep": {"task": Step.MAINTENANCE.value, "schedule": sweep_s, "options": {"expires": sweep_s * 3, "queue": Step.MAINTENANCE.value}}
    }
    app.conf.beat_max_loop_interval = min(5.0, sweep_s)
