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
from urllib.parse import urlsplit

from pipeline import log, metrics
from pipeline.errors import BadInput, ModelMissing, ServiceUnavailable
from pipeline.evidence import Patience, RequiredSeries
from pipeline.flow.claimed import Claims
from pipeline.model import Features, Lease, Step
from pipeline.ports import Clock, Doorbell
from pipeline.retrying import Retry
from pipeline.settings import Settings, settings
from workers import policy

if TYPE_CHECKING:
    from collections.abc import Sequence

    import celery

    from pipeline.dicom.archive import FileArchive
    from pipeline.dicom.listener import Listener
    from pipeline.dicom.object_archive import ObjectArchive
    from pipeline.drafting.generator import Generator
    from pipeline.drafting.schemas import Schemas
    from pipeline.drafting.serving import Serving
    from pipeline.drafting.whitelist import WhiteList
    from pipeline.encoder.series import SeriesEncoder
    from pipeline.errors import Permanent
    from pipeline.flow.assemble import Assembling
    from pipeline.flow.deliver import Delivering
    from pipeline.flow.dose import Dosing
    from pipeline.flow.draft import Drafting
    from pipeline.flow.encode import Encoding
    from pipeline.flow.night import Shift
    from pipeline.flow.renew import Renewing
    from pipeline.flow.sample import Sampling
    from pipeline.flow.sweep import Sweeping
    from pipeline.nightly import OffPeak
    from pipeline.store.session import PgStore
    from pipeline.web.api import Api

logger = log.get(__name__)
RING_TIMEOUT_S = 3
API_TOKEN = "api_token"  # in the data folder of an embedded stack
STREAMS, STREAM_S, LOOK_EVERY_S = 32, 600.0, 0.5  # of server-sent events: how many at once, how long at most, how often the row is looked at


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
        pool_size=max(room.pool_size, drafting_width()),
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

    return Shift(store(), bell(), off_peak(), draft_slots=drafting_width(), replan_s=settings().night.replan_s)


def renewing() -> Renewing:
    """What looking again at drafts works with."""
    from pipeline.flow.renew import Renewing

    return Renewing(store(), archive(), LazyEncoder(), bell())


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

    return Encoding(store(), archive(), LazyEncoder(), bell(), site().clock, site().retry, claims(Step.ENCODE))


def schemas() -> Schemas:
    """The report schemas of the rules in force, compiled once per version."""
    from pipeline.drafting.schemas import schemas_of

    with store().begin() as work:
        return schemas_of(work.rules.current())


def white_list() -> WhiteList | None:
    """The words that texts may name findings by under the rules in force; None where a word off the list is only flagged."""
    from pipeline.drafting.whitelist import WhiteList
    from pipeline.rules.terms import listed_terms, off_list

    tries = settings().draft.term_tries
    if not tries:
        return None
    with store().begin() as work:
        ruleset = work.rules.current()
    return WhiteList(lambda text, indication: off_list(text, ruleset, indication), listed_terms(ruleset), tries)


def serving() -> Serving:
    """The draft servers that are configured."""
    from pipeline.drafting.serving import Serving
    from pipeline.engine.checkpoint import PACKAGED

    config = settings()
    return Serving(config.sglang, config.vllm, config.served, config.served.model or config.draft.weights or PACKAGED)


@lru_cache(maxsize=1)
def generator() -> Generator:
    """What writes texts: the embedded engine alone, or the ladder of draft servers where one is configured. At a site the embedded engine is a
    rung only where its card says `live`. Raises ModelMissing."""
    from pipeline.drafting.embedded import EmbeddedDrafter
    from pipeline.drafting.ladder import Ladder
    from pipeline.drafting.preface import SchemaInPrompt
    from pipeline.drafting.serving import embedded_rung, is_live, rungs_of
    from pipeline.engine.checkpoint import PACKAGED

    config = settings()
    folder = config.draft.weights or PACKAGED
    embedded = EmbeddedDrafter(folder, config.draft.k, config.draft.max_tokens)
    if not config.draft_servers:
        return embedded

    def with_preface(served: Generator) -> Generator:
        return SchemaInPrompt(served, lambda: schemas().whole) if config.draft.schema_in_prompt else served

    last = [embedded_rung(embedded)] if config.mode == "demo" or is_live(folder) else []
    rungs = rungs_of(serving(), schemas=lambda: schemas().texts(), wrap=with_preface)
    return Ladder([*rungs, *last], again_after_s=config.served.recheck_s)


def draft_refusal() -> str | None:
    """Why nothing may be drafted now: every draft server is down or failed its self-check, and no other rung is left. None when something may."""
    from pipeline.drafting.ladder import Ladder

    if not settings().draft_servers:
        return None
    try:
        writer = generator()
    except ModelMissing as error:  # of the served model's folder
        return str(error)
    return writer.refusal() if isinstance(writer, Ladder) else None


def drafting_width() -> int:
    """Jobs that this process drafts at the same time: servers take many texts at once, the embedded engine one."""
    return settings().served.concurrency if settings().draft_servers else 1


@lru_cache(maxsize=1)
def drafting() -> Drafting:
    """What the draft task works with."""
    from pipeline.dicom.dose_headers import read_header_dose
    from pipeline.drafting.departments import asked_by
    from pipeline.drafting.sections import SectionDrafter
    from pipeline.flow.dose import Estimating
    from pipeline.flow.draft import Drafting

    room = settings().draft
    deliver_as = () if settings().deliver.folder is None else ("markdown",)
    lengths: dict[str, int] = ({} if room.k is None else {"": room.k}) | {**(room.k_by_section or {})}
    drafter = SectionDrafter(generator(), mode=room.write, max_tokens=room.max_tokens, lengths=lengths, schemas=schemas, white=white_list)
    return Drafting(
        store(),
        archive(),
        LazyEncoder(),
        drafter,
        lambda text: schemas().parse(text),
        bell(),
        site().clock,
        site().retry,
        settings().mode,
        room.department,
        deliver_as,
        Estimating(store(), archive(), read_header_dose),
        lambda service: asked_by(service, room.services),
        claims(Step.DRAFT),
    )


def api() -> Api:
    """What the HTTP API works with."""
    from contextlib import AbstractContextManager

    import anyio

    from pipeline.drafting.schema import SECTIONS
    from pipeline.export.markdown import draft_markdown
    from pipeline.model import DEPARTMENTS
    from pipeline.ports import Work
    from pipeline.web.api import Api
    from pipeline.web.asking import Choices
    from pipeline.web.events import Streams

    def begin() -> AbstractContextManager[Work]:
        return store().begin()

    async def tick() -> None:
        await anyio.sleep(LOOK_EVERY_S)

    choices = Choices(tuple(DEPARTMENTS), SECTIONS, settings().draft.department)
    streams = Streams(STREAMS, round(STREAM_S / LOOK_EVERY_S), tick)
    return Api(begin, bell, api_token(settings()), choices, draft_markdown, streams)


def api_token(config: Settings) -> str | None:
    """The bearer token: as set, else the one that an embedded stack has made in its data folder; None where there is none."""
    if config.web.token is not None:
        return config.web.token.get_secret_value()
    file = config.site.data / API_TOKEN
    return (file.read_text(encoding="ascii").strip() or None) if file.is_file() else None


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


def warm(kind: str) -> None:
    """Load the model, and compile the report schemas, before the first task. What is missing is logged: each job then says so itself."""
    try:
        if kind == "encode":
            image_encoder()
        elif kind == "draft":
            schemas()
            _ = drafting().drafter.phantom_only
            if (reason := draft_refusal()) is not None:
                logger.error("draft_refused", reason=reason)
    except ModelMissing as error:
        logger.error("model_missing", reason=str(error))
    except (ServiceUnavailable, BadInput) as error:  # no database yet, or words in the lexicon that no schema can hold
        logger.error("not_warmed", reason=str(error))


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
