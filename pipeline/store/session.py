"""Connections, and one transaction per `begin()`. A database that does not answer is ServiceUnavailable, never a driver's error."""

from __future__ import annotations

import select
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import cast

import psycopg
from sqlalchemy import URL, create_engine, event, make_url, text
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import ArgumentError, DataError, DBAPIError, DisconnectionError, StatementError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.orm import Session
from sqlalchemy.pool import ConnectionPoolEntry, PoolProxiedConnection

from pipeline.errors import BadInput, PipelineError, ServiceUnavailable
from pipeline.store.alerts import PgAlerts
from pipeline.store.audit import PgAudit
from pipeline.store.commitments import PgCommitments
from pipeline.store.deliveries import PgDeliveries
from pipeline.store.dosing import PgDoses
from pipeline.store.night import PgNight
from pipeline.store.performed import PgPerformed
from pipeline.store.renewals import PgRenewals
from pipeline.store.reports import PgReports
from pipeline.store.requests import PgRequests
from pipeline.store.rules import KeptRules, PgRules
from pipeline.store.samples import PgSamples
from pipeline.store.studies import PgStudies

DRIVER = "postgresql+psycopg"
NO_SCHEMA = frozenset({"42P01", "42703", "3F000"})  # undefined table, column, schema
NO_PRIVILEGE = "42501"
REFUSED = ("22", "23")  # SQLSTATE classes: data exception, integrity violation


def driver_url(url: str) -> URL:
    """postgres://, postgresql:// or postgresql+…:// → the URL for psycopg 3. Raises BadInput without repeating the URL."""
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        parsed = None
    if parsed is None or not parsed.drivername.startswith(("postgresql", "postgres")):
        raise BadInput("CTREPORT_DATABASE_URL is not a PostgreSQL URL; write postgresql://user:password@host:port/name") from None
    return parsed.set(drivername=DRIVER)


def translate(error: StatementError | PoolTimeout, url: URL) -> PipelineError:
    """The house's error for a driver's: BadInput for refused values, else ServiceUnavailable. Holds no password, value or statement."""
    where = f"the database at {url.host or 'localhost'}:{url.port or 5432}"
    if isinstance(error, PoolTimeout):
        return ServiceUnavailable(f"{where}: every connection of this process is busy; raise CTREPORT_DATABASE_POOL_SIZE or send less at once")
    orig = error.orig
    sqlstate = str(getattr(orig, "sqlstate", None) or "")
    kind = f"{type(orig or error).__name__}{f' {sqlstate}' if sqlstate else ''}"
    if sqlstate in NO_SCHEMA:
        return ServiceUnavailable(f"{where} has no such schema ({kind}); migrate it first (`alembic upgrade head`)")
    if sqlstate == NO_PRIVILEGE:
        return ServiceUnavailable(f"{where} does not let this user do this ({kind}); give the user of CTREPORT_DATABASE_URL the right")
    if sqlstate.startswith(REFUSED) or not isinstance(error, DBAPIError) or isinstance(error, DataError):
        constraint = getattr(getattr(orig, "diag", None), "constraint_name", None) or "no constraint"
        return BadInput(f"{where} refused a value ({kind}, {constraint}); the transaction was rolled back")
    return ServiceUnavailable(f"{where} does not answer ({kind}); check that PostgreSQL runs and that CTREPORT_DATABASE_URL is right")


def _check_alive(connection: DBAPIConnection, record: ConnectionPoolEntry, proxy: PoolProxiedConnection) -> None:
    """Before a pooled connection is used: where the server has said something meanwhile (that it ends the connection, as a rule), ask it; the
    pool then takes another. Not asked each time: that would cost every image a round trip. Raises DisconnectionError."""
    driver = cast("psycopg.Connection[tuple[object, ...]]", record.dbapi_connection)
    try:
        waiting = select.poll()
        waiting.register(driver.fileno(), select.POLLIN)
        if waiting.poll(0):
            driver.execute(b"SELECT 1")
            driver.rollback()
    except (psycopg.Error, ValueError) as error:  # ValueError: its descriptor is closed
        raise DisconnectionError from error


class PgWork:
    """One transaction on PostgreSQL: the repositories share its session."""

    def __init__(self, session: Session, kept_rules: KeptRules | None = None) -> None:
        self.session = session
        self._kept_rules = kept_rules

    @cached_property
    def studies(self) -> PgStudies:
        """Studies, instances and jobs."""
        return PgStudies(self.session)

    @cached_property
    def rules(self) -> PgRules:
        """Rules and doses."""
        return PgRules(self.session, self._kept_rules)

    @cached_property
    def doses(self) -> PgDoses:
        """What patients have had of radiation."""
        return PgDoses(self.session)

    @cached_property
    def reports(self) -> PgReports:
        """Reports as readers move them."""
        return PgReports(self.session)

    @cached_property
    def alerts(self) -> PgAlerts:
        """Suspected critical findings."""
        return PgAlerts(self.session)

    @cached_property
    def requests(self) -> PgRequests:
        """Drafts that somebody asked for."""
        return PgRequests(self.session)

    @cached_property
    def night(self) -> PgNight:
        """The night shift."""
        return PgNight(self.session)

    @cached_property
    def renewals(self) -> PgRenewals:
        """What changed after a draft was written."""
        return PgRenewals(self.session)

    @cached_property
    def samples(self) -> PgSamples:
        """The nightly quality samples."""
        return PgSamples(self.session)

    @cached_property
    def deliveries(self) -> PgDeliveries:
        """Who gets which draft."""
        return PgDeliveries(self.session)

    @cached_property
    def performed(self) -> PgPerformed:
        """Performed procedure steps."""
        return PgPerformed(self.session)

    @cached_property
    def commitments(self) -> PgCommitments:
        """Storage commitments."""
        return PgCommitments(self.session)

    @cached_property
    def audit(self) -> PgAudit:
        """The append-only trail."""
        return PgAudit(self.session)


class PgStore:
    """PostgreSQL behind the Store port. Thread-safe; create it after any fork."""

    def __init__(self, url: str, *, pool_size: int = 5, connect_timeout_s: int = 5, statement_timeout_ms: int = 30_000) -> None:
        self._url = driver_url(url)
        self._engine = create_engine(
            self._url,
            pool_size=pool_size,
            max_overflow=pool_size,
            pool_timeout=30,
            hide_parameters=True,  # parameters hold patient data
            connect_args={
                "connect_timeout": connect_timeout_s,
                "application_name": "ctreport",
                # a host that vanished without a word must not hold a worker for the kernel's two hours
                "keepalives_idle": 10,
                "keepalives_interval": 5,
                "keepalives_count": 3,
                "tcp_user_timeout": statement_timeout_ms,
                "options": f"-c timezone=UTC -c statement_timeout={statement_timeout_ms} "
                f"-c idle_in_transaction_session_timeout={2 * statement_timeout_ms}",
            },
        )
        event.listen(self._engine, "checkout", _check_alive)
        self._kept_rules = KeptRules()

    @contextmanager
    def begin(self) -> Iterator[PgWork]:
        """One transaction: commits when the block ends, rolls back on an exception. Raises ServiceUnavailable or BadInput for a driver's error."""
        try:
            with Session(self._engine, expire_on_commit=False) as session, session.begin():
                yield PgWork(session, self._kept_rules)
        except (StatementError, PoolTimeout) as error:
            raise translate(error, self._url) from None  # the driver's message can hold patient data

    def ping(self) -> None:
        """Ask the database for one row. Raises ServiceUnavailable."""
        with self.begin() as work:
            work.session.execute(text("SELECT 1"))

    def dispose(self) -> None:
        """Close every idle connection."""
        self._engine.dispose()
