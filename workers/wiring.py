"""The only place where ports meet adapters: one function per process, imports inside, so that the listener never loads torch."""

from __future__ import annotations

import os
import socket
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline import log, metrics
from pipeline.errors import ModelMissing, ServiceUnavailable
from pipeline.evidence import Patience, RequiredSeries
from pipeline.flow.claimed import Retry
from pipeline.model import Features, Lease, Step
from pipeline.ports import Clock, Doorbell
from pipeline.settings import Settings, settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    import celery

    from pipeline.dicom.archive import FileArchive
    from pipeline.dicom.listener import Listener
    from pipeline.encoder.series import SeriesEncoder
    from pipeline.errors import Permanent
    from pipeline.flow.assemble import Assembling
    from pipeline.flow.deliver import Delivering
    from pipeline.flow.dose import Dosing
    from pipeline.flow.draft import Drafting
    from pipeline.flow.encode import Encoding
    from pipeline.flow.sweep import Sweeping
    from pipeline.store.session import PgStore

logger = log.get(__name__)
RING_TIMEOUT_S = 3


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


@dataclass(frozen=True)
class Urls:
    """Where the services are."""

    database: str
    redis: str


def urls(config: Settings) -> Urls:
    """URLs given by settings, else those of the embedded stack that runs on the data folder. Raises ServiceUnavailable."""
    from workers.local import read_stack

    stack = None if config.store.url and config.broker.url else read_stack(config.site.data)
    database = config.store.url.get_secret_value() if config.store.url else (stack.database_url if stack else "")
    redis = config.broker.url.get_secret_value() if config.broker.url else (stack.redis_url if stack else "")
    if not database or not redis:
        raise ServiceUnavailable(
            f"no stack runs on '{config.site.data}': start `ctreport up`, give --data, or set CTREPORT_DATABASE_URL and CTREPORT_REDIS_URL"
        )
    return Urls(database, redis)


@dataclass(frozen=True)
class Site:
    """What every worker process shares."""

    settings: Settings
    clock: Clock
    owner: str

    @property
    def batch(self) -> int:
        """Jobs claimed at once."""
        return self.settings.work.batch

    @property
    def retry(self) -> Retry:
        """Retry policy of transient failures."""
        return Retry(self.settings.work.max_attempts, self.settings.work.retry_delay_s)

    def lease(self) -> Lease:
        """A lease of this process."""
        return Lease(self.owner, self.settings.work.lease_s)


@lru_cache(maxsize=1)
def site() -> Site:
    """This process's site: its owner name is new in each process."""
    return Site(settings(), SystemClock(), f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}")


@lru_cache(maxsize=1)
def store() -> PgStore:
    """This process's database connections; created after any fork."""
    from pipeline.store.session import PgStore

    room = settings().store
    return PgStore(
        urls(settings()).database,
        pool_size=room.pool_size,
        connect_timeout_s=room.connect_timeout_s,
        statement_timeout_ms=room.statement_timeout_ms,
    )


@lru_cache(maxsize=1)
def archive() -> FileArchive:
    """The file archive."""
    from pipeline.dicom.archive import FileArchive

    room = settings().archive
    return FileArchive(settings().archive_root, room.free_floor_mb << 20, room.free_floor_percent, room.fsync)


@lru_cache(maxsize=1)
def celery_app() -> celery.Celery:
    """The Celery app with its beat schedule."""
    from workers import schedule
    from workers.app import create_app

    app = create_app(urls(settings()).redis, settings().broker.visibility_timeout_s, settings().work.deadline_s)
    schedule.install(app, settings().work.sweep_s)
    return app


@lru_cache(maxsize=1)
def bell() -> Doorbell:
    """The doorbell of this process."""
    return CeleryBell(celery_app())


def listener(bound: socket.socket | None = None, name: str | None = None, gone: Sequence[str] = ()) -> Listener:
    """The DICOM services, on a bound socket or one of their own. Never loads torch. `gone`: names of listeners that run no more."""
    from pipeline.dicom.access import Access
    from pipeline.dicom.commitment import StorageCommitment
    from pipeline.dicom.headers import read_header
    from pipeline.dicom.ledger import FileLedger
    from pipeline.dicom.listener import Listener, Site
    from pipeline.dicom.mpps import PerformedProcedureSteps
    from pipeline.dicom.offered import offered
    from pipeline.dicom.rejection import read_rejection
    from pipeline.dicom.tls import Certificates
    from pipeline.flow.receive import Receiving
    from pipeline.flow.reject import Rejecting

    config = settings()
    celery_app().conf.broker_transport_options["socket_timeout"] = RING_TIMEOUT_S  # this process only rings, and a peer waits for it
    room = config.listener.model_copy(update={"name": name or config.listener.name})
    certificates = Certificates(config.tls) if config.tls.certificate else None
    access = Access(config.access, room.aet, config.archive_root / "slots", certificates.client_context if certificates else None)
    classes = frozenset(offered(room.private_classes or ()))
    services = (
        StorageCommitment(store(), archive(), config.commit, room.aet, access.report_to, classes),
        PerformedProcedureSteps(store(), bell()),
    )
    ledger = FileLedger(config.archive_root / "ledger", room.name, fsync=config.archive.fsync)
    receiving = Receiving(store(), archive(), ledger, read_header, Rejecting(store(), bell(), read_rejection))
    tls = certificates.context if certificates else None
    return Listener(room, receiving, archive(), store(), bell(), Site(services, access, tls, bound, tuple(gone)))


def assembling() -> Assembling:
    """What the assemble task works with."""
    from pipeline.dicom.phantom_ledger import FilePhantomLedger
    from pipeline.flow.assemble import Assembling

    room = settings().assemble
    required = tuple(RequiredSeries(**rule.model_dump()) for rule in room.required or ())
    return Assembling(store(), FilePhantomLedger(settings().phantom_ledger), bell(), patience(), room.min_slices, required)


def dosing() -> Dosing:
    """What the dose step works with."""
    from pipeline.dicom.dose import read_dose
    from pipeline.flow.dose import Dosing

    return Dosing(store(), archive(), bell(), read_dose, settings().work.max_attempts)


def patience() -> Patience:
    """How long a study is waited for."""
    room = settings().assemble
    return Patience(room.quiet_s, room.settle_s, room.patience_s, room.force_after_s)


@lru_cache(maxsize=1)
def image_encoder() -> SeriesEncoder:
    """The image encoder, loaded once. Raises ModelMissing."""
    from pipeline.encoder.choice import network
    from pipeline.encoder.prepare import preparing
    from pipeline.encoder.series import SeriesEncoder

    return SeriesEncoder(network(settings().encoder), preparing(settings().imaging, real=settings().mode == "site"))


class LazyEncoder:
    """The encoder, loaded when a job needs it: missing weights then fail that job with a sentence, and `ctreport retry` finds new ones."""

    @property
    def identity(self) -> str:
        """What makes the features. Raises ModelMissing."""
        return image_encoder().identity

    @property
    def batch(self) -> int:
        """Studies at once; one while the weights are missing, so that a job is claimed and says so."""
        try:
            return image_encoder().batch
        except ModelMissing:
            return 1

    def encode(self, paths: Sequence[Path]) -> Features:
        """Read one series and encode it."""
        return image_encoder().encode(paths)

    def encode_many(self, studies: Sequence[Sequence[Path]]) -> Sequence[Features | Permanent]:
        """Read several series and encode them together; one answer each."""
        return image_encoder().encode_many(studies)

    def save_features(self, features: Features, path: Path) -> None:
        """Write features; needs no weights."""
        from pipeline.encoder.features import save_features

        save_features(path, features)

    def load_features(self, path: Path) -> Features:
        """Read features; needs no weights."""
        from pipeline.encoder.features import load_features

        return load_features(path)


def encoding() -> Encoding:
    """What the encode task works with."""
    from pipeline.flow.encode import Encoding

    return Encoding(store(), archive(), LazyEncoder(), bell(), site().clock, site().retry)


@lru_cache(maxsize=1)
def drafting() -> Drafting:
    """What the draft task works with."""
    from pipeline.dicom.dose_headers import read_header_dose
    from pipeline.drafting.embedded import EmbeddedDrafter
    from pipeline.drafting.parse import parse
    from pipeline.engine.checkpoint import PACKAGED
    from pipeline.flow.dose import Estimating
    from pipeline.flow.draft import Drafting

    room = settings().draft
    deliver_as = () if settings().deliver.folder is None else ("markdown",)
    drafter = EmbeddedDrafter(room.weights or PACKAGED, room.k, room.max_tokens)
    return Drafting(
        store(),
        archive(),
        LazyEncoder(),
        drafter,
        parse,
        bell(),
        site().clock,
        site().retry,
        settings().mode,
        room.department,
        deliver_as,
        Estimating(store(), archive(), read_header_dose),
    )


def delivering() -> Delivering:
    """What the deliver task works with."""
    from pipeline.export.markdown import draft_markdown, withdrawal_markdown
    from pipeline.flow.deliver import Delivering

    return Delivering(store(), settings().deliver.folder, draft_markdown, withdrawal_markdown, site().retry)


def sweeping() -> Sweeping:
    """What the maintenance task works with."""
    from pipeline.flow.sweep import Sweeping

    return Sweeping(store(), bell(), settings().work.max_attempts, patience())


def warm(kind: str) -> None:
    """Load the model before the first task. A missing one is logged: each job then says so itself."""
    try:
        if kind == "encode":
            image_encoder()
        elif kind == "draft":
            _ = drafting().drafter.phantom_only
    except ModelMissing as error:
        logger.error("model_missing", reason=str(error))


def migrate(database_url: str, reader_password: str | None = None) -> None:
    """Bring the schema to its newest revision, let the reader role log in where it has a password, and seed rules where there are none."""
    from pipeline.rules.seed import seed_dose_factors, seed_dose_rules, seed_guidance, seed_lexicon, seed_terms
    from pipeline.store.schema import migrate as upgrade
    from pipeline.store.seed import seed_rules

    configured = settings().store.reader_password
    upgrade(database_url, reader_password=configured.get_secret_value() if configured else reader_password)
    seed_rules(database_url, seed_terms(), seed_dose_rules(), seed_dose_factors(), seed_lexicon(), seed_guidance())


def close() -> None:
    """Give this process's database connections back."""
    if store.cache_info().currsize:
        store().dispose()
        store.cache_clear()


def ring_all() -> None:
    """Ring every step: after an operator's move something may be ready."""
    for step in (Step.ASSEMBLE, Step.ENCODE, Step.DRAFT, Step.DELIVER):
        bell().ring(step)


def data_folder(given: Path | None) -> Path | None:
    """Make `--data` the folder that every later look-up uses."""
    if given is not None:
        os.environ["CTREPORT_DATA"] = str(given.resolve())
        settings.cache_clear()
    return given
