"""Small adapters of ports that are the workers' own: the clock, the doorbell on Celery, the encoder that loads late."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pipeline import log, metrics
from pipeline.errors import ModelMissing
from pipeline.model import Features, Step

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    import celery

    from pipeline.encoder.series import SeriesEncoder
    from pipeline.errors import Permanent

logger = log.get(__name__)


class SystemClock:
    """Wall time in UTC."""

    def now(self) -> datetime:
        """The current time."""
        return datetime.now(UTC)


class CeleryBell:
    """Rings a queue. A broker that is down costs a log line, never an exception: the sweeper rings again."""

    def __init__(self, app: celery.Celery) -> None:
        self._app = app

    def ring(self, step: Step) -> None:
        """Send one message that carries no study."""
        from kombu.exceptions import OperationalError

        try:
            self._app.send_task(step.value, queue=step.value, retry=False, ignore_result=True)
        except (OperationalError, OSError) as error:
            metrics.RINGS.labels(step, "failed").inc()
            logger.warning("bell_failed", step=step.value, reason=type(error).__name__)
        else:
            metrics.RINGS.labels(step, "rung").inc()


class LazyEncoder:
    """The encoder, loaded when a job needs it: missing weights then fail that job with a sentence, and `ctreport retry` finds new ones."""

    def __init__(self, load: Callable[[], SeriesEncoder]) -> None:
        self._load = load

    @property
    def identity(self) -> str:
        """What makes the features. Raises ModelMissing."""
        return self._load().identity

    @property
    def batch(self) -> int:
        """Studies at once; one while the weights are missing, so that a job is claimed and says so."""
        try:
            return self._load().batch
        except ModelMissing:
            return 1

    def encode(self, paths: Sequence[Path]) -> Features:
        """Read one series and encode it."""
        return self._load().encode(paths)

    def encode_many(self, studies: Sequence[Sequence[Path]]) -> Sequence[Features | Permanent]:
        """Read several series and encode them together; one answer each."""
        return self._load().encode_many(studies)

    def save_features(self, features: Features, path: Path) -> None:
        """Write features; needs no weights."""
        from pipeline.encoder.features import save_features

        save_features(path, features)

    def load_features(self, path: Path) -> Features:
        """Read features; needs no weights."""
        from pipeline.encoder.features import load_features

        return load_features(path)
