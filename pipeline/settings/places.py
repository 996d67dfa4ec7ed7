"""Where things are: the site, the database, the broker, the archive."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr, field_validator
from pydantic_settings import SettingsConfigDict

from pipeline.settings.room import HTTP, Room


class SiteSettings(Room):
    """What kind of installation this is."""

    model_config = SettingsConfigDict(env_prefix="CTREPORT_")
    mode: Literal["demo", "site"] | None = Field(
        None, description="demo allows phantom-only models on real CT (watermarked, never signed); unset: demo when embedded, else site"
    )
    data: Path = Field(Path(".ctreport"), description="folder of the embedded stack, the archive and the features")
    phantom_ledger: Path | None = Field(None, description="file of SOP UIDs that `ctreport phantom` wrote; unset: phantoms.ledger in the data folder")


class StoreSettings(Room):
    """PostgreSQL."""

    model_config = SettingsConfigDict(env_prefix="CTREPORT_DATABASE_")
    url: SecretStr | None = Field(None, description="postgresql://user:password@host:port/name of PostgreSQL 15 or newer; unset: embedded")
    reader_password: SecretStr | None = Field(None, description="password given to the read-only role ctreport_reader at migration; unset: no login")
    pool_size: int = Field(5, ge=1, description="connections kept open per process")
    connect_timeout_s: int = Field(5, ge=1, description="seconds until a silent database counts as down")
    statement_timeout_ms: int = Field(30_000, ge=100, description="milliseconds until a statement is cancelled")
    keep_days: float = Field(
        400.0,
        ge=0,
        description="days that rows about how work went are kept (associations, MPPS, commitments, nights, samples); the record is never removed; "
        "0: for ever",
    )


class BrokerSettings(Room):
    """Redis or Valkey: the doorbell."""

    model_config = SettingsConfigDict(env_prefix="CTREPORT_REDIS_")
    url: SecretStr | None = Field(None, description="redis://:password@host:port/0 of Redis 6 or newer; unset: embedded Valkey")
    visibility_timeout_s: int = Field(900, ge=1, description="seconds until an unacknowledged bell rings again; longer than the longest task")


class RabbitSettings(Room):
    """RabbitMQ: the doorbell instead of Redis."""

    model_config = SettingsConfigDict(env_prefix="CTREPORT_RABBITMQ_")
    url: SecretStr | None = Field(
        None, description="amqp://user:password@host:port/vhost of RabbitMQ 3.10 or newer (amqps: over TLS), used instead of Redis; unset: Redis"
    )

    @field_validator("url")
    @classmethod
    def _is_amqp(cls, url: SecretStr | None) -> SecretStr | None:
        if url is not None and not url.get_secret_value().startswith(("amqp://", "amqps://")):
            raise ValueError("CTREPORT_RABBITMQ_URL does not begin with amqp:// or amqps://; a Redis goes into CTREPORT_REDIS_URL")
        return url


class ArchiveSettings(Room):
    """Received bytes."""

    model_config = SettingsConfigDict(env_prefix="CTREPORT_ARCHIVE_")
    root: Path | None = Field(None, description="folder of received DICOM files; unset: archive in the data folder")
    free_floor_mb: int = Field(512, ge=0, description="MiB of free space below which the listener answers 0xA700")
    free_floor_percent: float = Field(1.0, ge=0, lt=100, description="the same floor as a share of the file system; the larger of the two counts")
    fsync: bool = Field(True, description="false: nothing is durable when it is acknowledged; for benchmarks only")
    url: str | None = Field(
        None,
        pattern=r"^(s3://[^/]+|file:///[^/]+)",
        description="s3://bucket/prefix, or file:///folder on a shared disk, where images and features of all machines are; "
        "each one's folder is then its cache; unset: the folder alone",
    )
    s3_endpoint: str | None = Field(None, pattern=HTTP, description="http(s)://host:port of an S3-compatible store; unset: AWS, or AWS_ENDPOINT_URL")
    s3_key: SecretStr | None = Field(None, description="access key id; unset: as AWS's own tools find it")
    s3_secret: SecretStr | None = Field(None, description="its secret")
    s3_timeout_s: float = Field(20.0, gt=0, description="seconds until an object store that does not answer counts as down")
    cache_gb: float = Field(50.0, gt=0, description="gigabytes (10^9) of copies that a machine keeps; none goes within an hour of its last use")
