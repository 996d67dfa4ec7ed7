"""The only place where ports meet adapters: one function per process, imports inside, so that the listener never loads torch."""

from __future__ import annotations

import os
import socket
import uuid
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pipeline import log
from pipeline.errors import ServiceUnavailable
from pipeline.evidence import Patience, RequiredSeries
from pipeline.flow.claimed import Claims
from pipeline.model import Lease, Step
from pipeline.ports import Clock, Doorbell
from pipeline.retrying import Retry
from pipeline.settings import Settings, settings
from workers import policy
from workers.adapters import CeleryBell, LazyEncoder, SystemClock

if TYPE_CHECKING:
    from collections.abc import Sequence

    import celery

    from pipeline.dicom.archive import FileArchive
    from pipeline.dicom.listener import Listener
    from pipeline.dicom.object_archive import ObjectArchive
    from pipeline.encoder.series import SeriesEncoder
    from pipeline.flow.assemble import Assembling
    from pipeline.flow.deliver import Delivering
    from pipeline.flow.dose import Dosing
    from pipeline.flow.encode import Encoding
    from pipeline.flow.night import Shift
    from pipeline.flow.renew import Renewing
    from pipeline.flow.retain import Retaining
    from pipeline.flow.sample import Sampling
    from pipeline.flow.sweep import Sweeping
    from pipeline.nightly import OffPeak
    from pipeline.store.session import PgStore

logger = log.get(__name__)
RING_TIMEOUT_S = 3


@dataclass(frozen=True)
class Urls:
    """Where the services are."""

    database: str
    broker: str


def urls(config: Settings) -> Urls:
    """URLs given by settings, else those of the embedded stack that runs on the data folder. Raises ServiceUnavailable."""
    from workers.local import read_stack

    given = config.broker_url
    stack = None if config.store.url and given else read_stack(config.site.data)
    database = config.store.url.get_secret_value() if config.store.url else (stack.database_url if stack else "")
    broker = given.get_secret_value() if given else (stack.redis_url if stack else "")
    if not database or not broker:
        raise ServiceUnavailable(
            f"no stack runs on '{config.site.data}': start `ctreport up`, give --data, or set CTREPORT_DATABASE_URL and CTREPORT_REDIS_URL"
        )
    return Urls(database, broker)


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
        return policy.retry(self.settings.work)

    @property
    def drafting_width(self) -> int:
        """Jobs drafted at the same time."""
        return policy.drafting_width(self.settings)

    def lease(self) -> Lease:
        """A lease of this process."""
        return Lease(self.owner, self.settings.work.lease_s)


@lru_cache(maxsize=1)
def site() -> Site:
    """This process's site: its owner name is new in each process."""
    return Site(settings(), SystemClock(), f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}")


@lru_cache
def claims(step: Step) -> Claims:
    """How this process claims jobs of a step."""
    from workers.ending import stopping

    return Claims(policy.slots(settings().work, step), stopping=stopping)


@lru_cache(maxsize=1)
def store() -> PgStore:
    """This process's database connections; created after any fork."""
    from pipeline.store.session import PgStore

    room = settings().store
    return PgStore(
        urls(settings()).database,
        pool_size=max(room.pool_size, policy.drafting_width(settings())),
        connect_timeout_s=room.connect_timeout_s,
        statement_timeout_ms=room.statement_timeout_ms,
    )


@lru_cache(maxsize=1)
def archive() -> FileArchive | ObjectArchive:
    """The archive: a folder, or an object store with this machine's folder in front of it. Raises BadInput for an address that is none."""
    from pipeline.dicom.archive import FileArchive
    from pipeline.dicom.bucket import s3_bucket
    from pipeline.dicom.object_archive import ObjectArchive

    room = settings().archive
    shared = room.url or ""
    root = Path(urlsplit(shared).path) if shared.startswith("file://") else settings().archive_root
    near = FileArchive(root, room.free_floor_mb << 20, room.free_floor_percent, room.fsync)
    return ObjectArchive(near, s3_bucket(shared, room), round(room.cache_gb * 1e9)) if shared.startswith("s3://") else near


@lru_cache(maxsize=1)
def celery_app() -> celery.Celery:
    """The Celery app with its beat schedule."""
    from workers import schedule
    from workers.app import create_app

    app = create_app(urls(settings()).broker, settings().broker.visibility_timeout_s, settings().work.deadline_s)
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
    from workers.broker import impatient

    config = settings()
    celery_app().conf.broker_transport_options.update(impatient(urls(config).broker, RING_TIMEOUT_S))  # it only rings, and a peer waits for it
    room = config.listener.model_copy(update={"name": name or config.listener.name})
    certificates = Certificates(config.tls) if config.tls.certificate else None
    access = Access(config.access, room.aet, config.archive_root / "slots", certificates.client_context if certificates else None)
    classes = frozenset(offered(room.private_classes or ()))
    services = (
        StorageCommitment(store(), archive(), config.commit, room.aet, access.report_to, classes),
        PerformedProcedureSteps(store(), bell()),
    )
    ledger = FileLedger(config.archive_root / "ledger", room.name, fsync=config.archive.fsync)
    receiving = Receiving(store(), archive(), ledger, read_header, Rejecting(store(), bell(), read_rejection), policy.urgency(config.work))
    tls = certificates.context if certificates else None
    return Listener(room, receiving, archive(), store(), bell(), Site(services, access, tls, bound, tuple(gone)))


def assembling() -> Assembling:
    """What the assemble task works with."""
    from pipeline.dicom.phantom_ledger import FilePhantomLedger
    from pipeline.flow.assemble import Assembling

    room = settings().assemble
    required = tuple(RequiredSeries(**rule.model_dump()) for rule in room.required or ())
    return Assembling(store(), FilePhantomLedger(settings().phantom_ledger), bell(), patience(), room.min_slices, required, off_peak())


def off_peak() -> OffPeak:
    """The site's off-peak hours."""
    from datetime import time
    from zoneinfo import ZoneInfo

    from pipeline.nightly import OffPeak

    room = settings().night
    start, end = map(time.fromisoformat, room.window.split("-"))
    return OffPeak(start, end, ZoneInfo(room.time_zone), time.fromisoformat(room.first_reader))


def night_shift() -> Shift:
    """What the night shift's planning works with."""
    from pipeline.flow.night import Shift

    return Shift(store(), bell(), off_peak(), draft_slots=policy.drafting_width(settings()), replan_s=settings().night.replan_s)


def renewing() -> Renewing:
    """What looking again at drafts works with."""
    from pipeline.flow.renew import Renewing

    return Renewing(store(), archive(), lazy_encoder(), bell())


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


def lazy_encoder() -> LazyEncoder:
    """The image encoder, loaded when it is first needed."""
    return LazyEncoder(image_encoder)


def encoding() -> Encoding:
    """What the encode task works with."""
    from pipeline.flow.encode import Encoding

    return Encoding(store(), archive(), lazy_encoder(), bell(), site().clock, site().retry, claims(Step.ENCODE))


def delivering() -> Delivering:
    """What the deliver task works with."""
    from pipeline.export.markdown import draft_markdown, withdrawal_markdown
    from pipeline.flow.deliver import Delivering

    return Delivering(store(), settings().deliver.folder, draft_markdown, withdrawal_markdown, site().retry)


def sweeping() -> Sweeping:
    """What the maintenance task works with."""
    from pipeline.flow.sweep import Sweeping

    room = settings().work
    return Sweeping(store(), bell(), room.max_attempts, patience(), policy.SWEEP_SHARE * room.sweep_s, policy.alarms(room))


def sampling() -> Sampling:
    """What the nightly sample works with."""
    from datetime import time
    from zoneinfo import ZoneInfo

    from pipeline.flow.sample import Sampling

    room = settings().sample
    return Sampling(store(), site().clock, room.share, room.seed, time.fromisoformat(room.at), ZoneInfo(settings().night.time_zone))


def retaining() -> Retaining:
    """What removing old rows works with."""
    from pipeline.flow.retain import Retaining

    return Retaining(store(), settings().store.keep_days or None)


def migrate(database_url: str, reader_password: str | None = None) -> None:
    """Bring the schema to its newest revision, let the reader role log in where it has a password, and seed rules where there are none."""
    from pipeline.rules.seed import seed_dose_factors, seed_dose_rules, seed_guidance, seed_lexicon, seed_terms
    from pipeline.store.schema import migrate as upgrade
    from pipeline.store.seed import seed_rules

    configured = settings().store.reader_password
    upgrade(database_url, reader_password=configured.get_secret_value() if configured else reader_password)
    seed_rules(database_url, seed_terms(), seed_dose_rules(), seed_dose_factors(), seed_lexicon(), seed_guidance())


def hand_back() -> int:
    """Hand back what this process holds, because it has to end, and ring for it. Returns how many rows."""
    with store().begin() as work:
        rows = work.studies.hand_back(site().owner)
    if rows:
        ring_all()
    return rows


def waiting(steps: Sequence[Step]) -> int:
    """Rows that these steps could claim now."""
    with store().begin() as work:
        return sum(work.studies.waiting(step, patience()) for step in steps)


def broker_answers() -> bool:
    """True when the broker takes a connection now."""
    from kombu.exceptions import OperationalError

    try:
        with celery_app().connection_for_read() as connection:
            connection.ensure_connection(max_retries=1, timeout=RING_TIMEOUT_S)
    except (OperationalError, OSError):
        return False
    return True


def close() -> None:
    """Give this process's database connections back, and forget where its services are: the settings may name others next."""
    if store.cache_info().currsize:
        store().dispose()
    for known in (site, claims, store, archive, celery_app, bell, image_encoder):
        known.cache_clear()


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
