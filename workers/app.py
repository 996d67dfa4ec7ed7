"""The Celery app: queues named after steps, and the base task that owns log ids, deadline and the last broad except."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from datetime import timedelta

import celery
import structlog
from celery import signals

from pipeline import log, metrics
from pipeline.errors import Transient
from pipeline.model import Step
from pipeline.settings import settings
from workers import broker

QUEUES = (Step.ASSEMBLE, Step.ENCODE, Step.DRAFT, Step.DELIVER, Step.MAINTENANCE)
EXIT_DEADLINE = 75  # EX_TEMPFAIL: the supervisor starts the process again
logger = log.get(__name__)


def create_app(broker_url: str, visibility_timeout_s: int, deadline_s: float = 600.0) -> celery.Celery:
    """An app that carries JSON bells only. Waiting is a row and a sweeper, never an eta.

    `visibility_timeout_s` should exceed `deadline_s`; where it does not, a bell may ring twice, which changes nothing.
    """
    app = celery.Celery("ctreport", broker=broker_url, task_cls="workers.app:StepTask", include=["workers.tasks"])
    app.conf.update(
        task_serializer="json",
        accept_content=["json"],
        task_ignore_result=True,
        task_acks_late=True,
        task_reject_on_worker_lost=True,
        task_create_missing_queues=False,
        task_queues=broker.queues(broker_url, [step.value for step in QUEUES]),
        task_default_queue=Step.MAINTENANCE.value,
        task_routes={step.value: {"queue": step.value} for step in QUEUES},
        task_time_limit=deadline_s,  # prefork only: solo and thread pools ignore both (the watchdog of StepTask covers those)
        task_soft_time_limit=0.9 * deadline_s,
        worker_prefetch_multiplier=1,
        worker_hijack_root_logger=False,
        worker_soft_shutdown_timeout=30.0,
        worker_enable_soft_shutdown_on_idle=False,
        worker_send_task_events=False,
        broker_connection_retry_on_startup=True,
        **broker.configuration(broker_url, visibility_timeout_s),
    )
    return app


class StepTask(celery.Task):  # type: ignore[type-arg]  # generic in the stubs only
    """Base of every task: binds log ids, ends the process past its deadline, and lets no exception loop a message."""

    abstract = True

    def __call__(self, *args: object, **kwargs: object) -> None:
        """Run the body. A failure is logged and counted; the row's lease, not the message, brings the work back."""
        structlog.contextvars.bind_contextvars(step=self.name, task_id=self.request.id)
        watchdog = threading.Timer(settings().work.deadline_s, _exit_hung, args=(self.name,))
        watchdog.daemon = True
        watchdog.start()
        try:
            self.run(*args, **kwargs)
        except Transient as error:
            metrics.STEPS.labels(self.name, "transient").inc()
            logger.warning("step_transient", reason=str(error))
        except Exception:  # the one place for it (DESIGN 5.8): a bug must not take the worker down
            metrics.STEPS.labels(self.name, "error").inc()
            logger.exception("step_error")
        finally:
            watchdog.cancel()
            structlog.contextvars.clear_contextvars()


def _exit_hung(step: str) -> None:
    logger.error("step_hung", step=step, deadline=str(timedelta(seconds=settings().work.deadline_s)))
    os._exit(EXIT_DEADLINE)


def on_worker_ready(callback: Callable[[], None]) -> None:
    """Run `callback` once the worker takes messages."""
    signals.worker_ready.connect(lambda **_: callback(), weak=False)
