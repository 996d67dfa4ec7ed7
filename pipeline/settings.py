"""Settings: one class per room, read once from the environment, frozen. `rows()` lists every field for README and env.example."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Annotated, Literal, Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

HTTP = r"^https?://[^/\s]+"  # what a draft server's URL looks like


class _Room(BaseSettings):
    model_config = SettingsConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True, env_ignore_empty=True)


class SiteSettings(_Room):
    """What kind of installation this is."""

    model_config = SettingsConfigDict(env_prefix="CTREPORT_")
    mode: Literal["demo", "site"] | None = Field(
        None, description="demo allows phantom-only models on real CT (watermarked, never signed); unset: demo when embedded, else site"
    )
    data: Path = Field(Path(".ctreport"), description="folder of the embedded stack, the archive and the features")
    phantom_ledger: Path | None = Field(None, description="file of SOP UIDs that `ctreport phantom` wrote; unset: phantoms.ledger in the data folder")


class StoreSettings(_Room):
    """PostgreSQL."""

    model_config = SettingsConfigDict(env_prefix="CTREPORT_DATABASE_")
    url: SecretStr | None = Field(None, description="postgresql://user:password@host:port/name of PostgreSQL 15 or newer; unset: embedded")
    reader_password: SecretStr | None = Field(None, description="password given to the read-only role ctreport_reader at migration; unset: no login")
    pool_size: int = Field(5, ge=1, description="connections kept open per process")
    connect_timeout_s: int = Field(5, ge=1, description="seconds until a silent database counts as down")
    statement_timeout_ms: int = Field(30_000, ge=100, description="milliseconds until a statement is cancelled")


class BrokerSettings(_Room):
    """Redis or Valkey: the doorbell."""

    model_config = SettingsConfigDict(env_prefix="CTREPORT_REDIS_")
    url: SecretStr | None = Field(None, description="redis://:password@host:port/0 of Redis 6 or newer; unset: embedded Valkey")
    visibility_timeout_s: int = Field(900, ge=1, description="seconds until an unacknowledged bell rings again; longer than the longest task")


class RabbitSettings(_Room):
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


class ArchiveSettings(_Room):
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


class ListenerSettings(_Room):
    """The C-STORE service."""

    model_config = SettingsConfigDict(env_prefix="CTREPORT_LISTENER_")
    host: str = Field("127.0.0.1", description="address to listen on")
    port: int = Field(11112, ge=0, le=65535, description="TCP port; 0 takes a free one")
    aet: str = Field("CTREPORT", min_length=1, max_length=16, description="our AE title")
    name: str = Field("listener", description="name of this listener; no two may run under one name at the same time")
    processes: int = Field(2, ge=1, le=32, description="processes that share the port; each serves associations of its own")
    max_pdu_bytes: int = Field(131_072, ge=4096, description="largest PDU that we accept, bytes")
    max_associations: int = Field(50, ge=1, description="associations that one process serves at once; more are rejected as a passing shortage")
    max_connections: int = Field(200, ge=1, le=400, description="connections that one process holds open at once, associated or not")
    network_timeout_s: float = Field(60.0, gt=0, description="seconds of silence, or for one PDU, until an association is aborted")
    max_object_mb: int = Field(4096, ge=1, description="MiB of the largest object that is accepted")
    private_classes: tuple[str, ...] | None = Field(
        None, description="JSON list of private SOP class UIDs that are taken beside the standard ones; unset: none"
    )
    inline: bool = Field(True, description="answer C-STORE on the network thread; false: hand each image to pynetdicom's C-STORE service, slower")
    fast: bool = Field(False, description="poll more often, through a private name of pynetdicom 3.0.4; ignored on another version")


class ReportAddress(BaseModel):
    """Where a peer takes event reports; written host:port, or tls://host:port."""

    model_config = ConfigDict(frozen=True)
    host: str = Field(min_length=1)
    port: int = Field(ge=1, le=65535)
    tls: bool = False


def _report_address(value: object) -> object:
    """host:port → its parts; an IPv6 host stands in brackets."""
    if not isinstance(value, str):
        return value
    host, _, port = value.removeprefix("tls://").rpartition(":")
    return {"host": host.strip("[]"), "port": port, "tls": value.startswith("tls://")}


class Peer(BaseModel):
    """One entry of the list of peers. The entry that names the AE title goes before one for any."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    aet: str = Field("*", min_length=1, max_length=16, description="calling AE title; * is any")
    network: IPv4Network | IPv6Network = Field(description="address or network (CIDR) that it calls from")
    associations: int | None = Field(None, ge=1, description="associations open at once per host; unset: CTREPORT_ACCESS_ASSOCIATIONS_PER_HOST")
    mb_per_s: float | None = Field(None, gt=0, description="megabytes (10^6) a second that one association may send; unset: no limit")
    report_to: Annotated[ReportAddress, BeforeValidator(_report_address)] | None = Field(
        None, description="host:port or tls://host:port that takes storage commitment reports"
    )


class AccessSettings(_Room):
    """Who may associate with the listener."""

    model_config = SettingsConfigDict(env_prefix="CTREPORT_ACCESS_")
    peers: tuple[Peer, ...] | None = Field(
        None, description="JSON list of peers: aet, network, associations, mb_per_s, report_to; unset: everyone who reaches the port, []: nobody"
    )
    check_called_aet: bool = Field(False, description="refuse associations that call another AE title than CTREPORT_LISTENER_AET")
    associations_per_host: int | None = Field(None, ge=1, description="associations open at once from one host; unset: no limit of its own")


class TlsSettings(_Room):
    """DICOM over TLS (BCP 195: 1.2 with ECDHE and AEAD, or 1.3)."""

    model_config = SettingsConfigDict(env_prefix="CTREPORT_TLS_")
    certificate: Path | None = Field(None, description="PEM file of our certificate and its chain, read again when it changes; unset: plain TCP")
    key: Path | None = Field(None, description="PEM file of its key, without a password; unset: in the certificate's file")
    client_ca: Path | None = Field(None, description="PEM file of the authorities whose certificates peers show; unset: they show none")
    client_required: bool = Field(True, description="refuse peers without a certificate, where CTREPORT_TLS_CLIENT_CA is set")


class CommitSettings(_Room):
    """Storage commitment: reports to those who asked."""

    model_config = SettingsConfigDict(env_prefix="CTREPORT_COMMIT_")
    timeout_s: float = Field(30.0, gt=0, description="seconds until a peer that does not answer a report counts as gone")
    retry_delay_s: float = Field(10.0, ge=0, description="seconds until a report is tried again; doubles with each attempt, at most an hour")
    give_up_h: float = Field(72.0, gt=0, description="hours after the request at which an unheard report is given up")


class SeriesRule(BaseModel):
    """A series that studies of some scanners must have; patterns are searched without regard to case."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    name: str = Field(min_length=1)
    series: str = Field(min_length=1)
    station: str = ""
    study: str = ""
    images: int = Field(1, ge=1)

    @field_validator("series", "station", "study")
    @classmethod
    def _is_pattern(cls, pattern: str) -> str:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(f"'{pattern}' is no regular expression ({error}); mend it in CTREPORT_ASSEMBLE_REQUIRED") from None
        return pattern


class AssembleSettings(_Room):
    """When a study counts as complete."""

    model_config = SettingsConfigDict(env_prefix="CTREPORT_ASSEMBLE_")
    quiet_s: float = Field(30.0, ge=0, description="seconds without a new image until a study with no open association is complete")
    settle_s: float = Field(3.0, ge=0, description="seconds instead, once MPPS named every image and all are here")
    patience_s: float = Field(300.0, ge=0, description="seconds instead, while something is missing; then the study goes on as partial")
    force_after_s: float = Field(3600.0, gt=0, description="seconds since its first image after which a study goes on in any case, as partial")
    required: tuple[SeriesRule, ...] | None = Field(
        None, description="JSON list of series that must come: name, series pattern; optional station and study patterns, images; unset: none"
    )
    min_slices: int = Field(8, ge=8, description="fewer axial images than this are not a volume; 8 at least")


class RetryRow(BaseModel):
    """How often and how soon errors of one family are tried again."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    tries: int = Field(ge=1, le=1000)
    first_s: float = Field(ge=0)
    longest_s: float = Field(600.0, ge=0)


class UrgencyRow(BaseModel):
    """Where studies come from that have a priority; patterns are searched without regard to case."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    priority: Literal["stat", "inpatient", "routine", "night"]
    aet: str = ""
    station: str = ""
    service: str = ""

    @field_validator("aet", "station", "service")
    @classmethod
    def _is_pattern(cls, pattern: str) -> str:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(f"'{pattern}' is no regular expression ({error}); mend it in CTREPORT_WORK_URGENCY") from None
        return pattern

    @model_validator(mode="after")
    def _says_where(self) -> Self:
        if not (self.aet or self.station or self.service):
            raise ValueError("an entry of CTREPORT_WORK_URGENCY names an aet, a station or a service")
        return self


class WorkSettings(_Room):
    """Leases, retries and the sweeper."""

    model_config = SettingsConfigDict(env_prefix="CTREPORT_WORK_")
    lease_s: float = Field(60.0, gt=0, description="seconds until a claimed row without heartbeat goes back")
    batch: int = Field(4, ge=1, description="jobs claimed at once")
    max_attempts: int = Field(5, ge=1, description="claims of one step that end in a passing error, or without a word, until the job is failed")
    retry_delay_s: float = Field(5.0, ge=0, description="seconds until the first retry; doubles with each attempt, less up to half of it by chance")
    retries: dict[Literal["service", "storage", "passing"], RetryRow] | None = Field(
        None,
        description='JSON of error families that are tried otherwise, as {"service": {"tries": 40, "first_s": 5, "longest_s": 900}}; unset: service '
        "12 tries, storage 24 with pauses up to 1800 s, passing by the two settings above",
    )
    urgency: tuple[UrgencyRow, ...] | None = Field(
        None,
        description="JSON list of where studies get a priority (stat, inpatient, routine, night) from: priority and patterns for aet, station, "
        "service, the first that fits counts; unset: 急诊 and emergency in service or station are stat",
    )
    max_encoding: int | None = Field(
        None, ge=1, description="studies that all workers together encode at once, as GPU memory allows; unset: as many as each worker takes"
    )
    max_drafting: int | None = Field(
        None, ge=1, description="texts that all workers together have drafted at once, as the draft servers take; unset: as many as each worker takes"
    )
    stat_slots: int = Field(1, ge=0, description="of those at once, how many are kept free for STAT; one always stays for the others")
    stat_alarm_s: float = Field(300.0, gt=0, description="seconds that a STAT study may wait for encode or draft until that is an alarm")
    queue_alarm_s: float = Field(3600.0, gt=0, description="seconds that any other study may wait for encode or draft until that is an alarm")
    grace_s: float = Field(20.0, ge=0, description="seconds that a worker told to end has for what it works on; then it hands it back")
    deaf_s: float = Field(120.0, gt=0, description="seconds without a bell, while rows wait, after which an idle worker starts again")
    sweep_s: float = Field(10.0, gt=0, description="seconds between two rounds of the sweeper")
    deadline_s: float = Field(600.0, gt=0, description="seconds after which a step that hangs ends its process")


CLOCK = r"([01]\d|2[0-3]):[0-5]\d"


class NightSettings(_Room):
    """The night shift."""

    model_config = SettingsConfigDict(env_prefix="CTREPORT_NIGHT_")
    window: str = Field(
        "22:00-06:00",
        pattern=f"^{CLOCK}-{CLOCK}$",
        description="off-peak hours in the site's time, in which studies of the night priority are drafted; equal times: at any hour",
    )
    time_zone: str = Field("Asia/Shanghai", description="the site's time zone, as the tz database names it")
    first_reader: str = Field("08:00", pattern=f"^{CLOCK}$", description="when the first reader comes, in the site's time")
    replan_s: float = Field(300.0, gt=0, description="seconds until what has arrived meanwhile is put into the plan that is on")

    @field_validator("time_zone")
    @classmethod
    def _is_known(cls, name: str) -> str:
        try:
            ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise ValueError(f"'{name}' is no time zone of the tz database; write CTREPORT_NIGHT_TIME_ZONE as Asia/Shanghai") from None
        return name


class SampleSettings(_Room):
    """The nightly quality sample."""

    model_config = SettingsConfigDict(env_prefix="CTREPORT_SAMPLE_")
    share: float = Field(0.1, gt=0, le=1, description="share of a night's drafts that is measured; at least one of each department and scanner")
    seed: int = Field(0, description="with the night, decides which drafts those are")
    at: str = Field("06:00", pattern=f"^{CLOCK}$", description="when a night ends and is sampled, in the site's time")


class ImagingSettings(_Room):
    """From slices to a volume."""

    model_config = SettingsConfigDict(env_prefix="CTREPORT_IMAGING_")
    tilt: Literal["resample", "refuse"] = Field(
        "resample", description="what is done with a series whose slices lean against the stack (gantry tilt)"
    )
    workers: int = Field(0, ge=0, le=64, description="threads that decode the slices of a series; 0 takes the processors there are, at most 8")
    max_voxels: int = Field(
        1_000_000_000, ge=1_000_000, description="voxels of the largest series that is read; more are refused before memory is taken"
    )
    key_slices: int = Field(32, ge=0, description="slices per study that image encoders look at, chosen by content; 0 takes every slice")
    denoise: Literal["auto", "never", "always"] = Field(
        "auto",
        description="denoise a chest before it is encoded; auto: when its noise asks for it. In mode site only a denoiser registered live does so: "
        "the packaged one knows phantoms only",
    )
    denoise_above_hu: float = Field(
        25.0,
        gt=0,
        description="noise in HU above which auto denoises; 1.6 times as much at full dose (80 mAs or more), where the kernel makes the noise",
    )


class EncoderSettings(_Room):
    """Image encoder."""

    model_config = SettingsConfigDict(env_prefix="CTREPORT_ENCODER_")
    name: Literal["compact", "resnet50", "vit", "medsam"] = Field("compact", description="which network looks at the images")
    weights: str | None = Field(
        None, description="folder of the encoder's weights (safetensors), or hub:owner/name; unset: the packaged phantom-only encoder"
    )
    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="where resnet50, vit and medsam run; auto takes a GPU where there is one")
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = Field("auto", description="number format on the GPU; the processor takes float32")
    batch_mb: int = Field(8192, ge=64, description="MiB of GPU memory that one pass of pictures, of several studies, may take")
    views: Literal["slices", "regions"] = Field("slices", description="what resnet50 and vit look at: key slices, or crops around candidate regions")
    channels: Literal["windows", "neighbours"] = Field(
        "windows", description="the three colours of a picture: 肺窗, 纵隔窗 and 骨窗 of one slice, or 肺窗 of a slice between its neighbours"
    )
    rois: int = Field(
        4, ge=1, le=8, description="regions per study of medsam (196 tokens each) and of views by region; whole lungs where there are fewer"
    )


Department = Literal["radiology", "oncology", "pulmonology"]
Section = Literal["检查所见", "描述", "诊断意见", "建议"]


class DraftSettings(_Room):
    """Report drafting."""

    model_config = SettingsConfigDict(env_prefix="CTREPORT_DRAFT_")
    weights: Path | None = Field(None, description="checkpoint folder of the embedded engine; unset: the packaged phantom-only model")
    k: int | None = Field(
        None, ge=0, le=16, description="tokens drafted per step by the MTP layer; 0: none; unset: adaptive, with lookup; the text is the same"
    )
    k_by_section: dict[Section, Annotated[int, Field(ge=0, le=16)]] | None = Field(
        None,
        description='JSON of sections that draft otherwise, as {"检查所见": 7, "诊断意见": 2}; 描述 goes with 检查所见 unless named; unset: none',
    )
    write: Literal["sections", "whole"] = Field(
        "sections",
        description="sections: the findings, then each text from them, in calls of their own; whole: the site's own department in one call",
    )
    max_tokens: int = Field(600, ge=16, description="longest answer in tokens")
    term_tries: int = Field(
        2,
        ge=0,
        le=5,
        description="times that a text with a word off the lexicon is written again with a listed term in its place; then it is flagged",
    )
    department: Department = Field("radiology", description="department that every study is drafted for: radiology, oncology or pulmonology")
    services: dict[str, Department] | None = Field(
        None,
        description='JSON of how RequestingService names departments here, as {"胸外一区": "oncology"}; they get a draft of their own beside; '
        "unset: by the usual words",
    )
    schema_in_prompt: bool = Field(
        False, description="true: draft servers also read the report's JSON schema at the head of each prompt, for models that were not trained on it"
    )


class SglangSettings(_Room):
    """Draft servers that run SGLang."""

    model_config = SettingsConfigDict(env_prefix="CTREPORT_SGLANG_")
    url: str | None = Field(None, pattern=HTTP, description="http://host:port of the draft server (SGLang with MTP) or of its router; unset: none")
    text_url: str | None = Field(
        None,
        pattern=HTTP,
        description="a second server that drafts few tokens per step, for 诊断意见 and 建议; unset: the first writes them too",
    )
    plain_url: str | None = Field(
        None, pattern=HTTP, description="a server of the same model without MTP: the next rung, and whose tokens the others must write; unset: none"
    )
    api_key: SecretStr | None = Field(None, description="what the servers were started with as --api-key; unset: no key is sent")


class VllmSettings(_Room):
    """A draft server that runs vLLM: the rung behind SGLang."""

    model_config = SettingsConfigDict(env_prefix="CTREPORT_VLLM_")
    url: str | None = Field(None, pattern=HTTP, description="http://host:port of the draft server (vLLM); unset: none")
    api_key: SecretStr | None = Field(None, description="what the server was started with as --api-key; unset: no key is sent")


class ServedSettings(_Room):
    """What draft servers serve, and how long they are waited for."""

    model_config = SettingsConfigDict(env_prefix="CTREPORT_SERVED_")
    model: Path | None = Field(
        None,
        description="folder with config.json, tokenizer.json and card.json of the served checkpoint, its weights may be elsewhere; "
        "unset: CTREPORT_DRAFT_WEIGHTS",
    )
    digest: str | None = Field(
        None, pattern="^[0-9a-f]{64}$", description="digest of the served weights, as `ctreport model digest` prints it; unset: that of the folder"
    )
    connect_timeout_s: float = Field(3.0, gt=0, description="seconds until a server that takes no connection counts as down")
    first_token_timeout_s: float = Field(30.0, gt=0, description="seconds without a word from a server until it counts as down")
    timeout_s: float = Field(120.0, gt=0, description="seconds for one text, retries included")
    retries: int = Field(2, ge=0, le=10, description="further attempts after a broken connection or an answer 5xx; none after 4xx or a time-out")
    concurrency: int = Field(12, ge=1, le=256, description="studies that one worker has drafted by servers at once")
    recheck_s: float = Field(30.0, gt=0, description="seconds until a server that failed is looked at again")
    max_gap: float = Field(
        0.25,
        ge=0,
        description="log-probability between the two likeliest tokens above which a differing token refuses a server; in float32 each one does",
    )
    ca: Path | None = Field(None, description="PEM file of the authorities of https servers; unset: the system's")


class DeliverSettings(_Room):
    """Where finished reports go."""

    model_config = SettingsConfigDict(env_prefix="CTREPORT_DELIVER_")
    folder: Path | None = Field(None, description="folder that receives each report as Markdown; unset: nothing is delivered")


class WebSettings(_Room):
    """The health page and the HTTP API."""

    model_config = SettingsConfigDict(env_prefix="CTREPORT_WEB_")
    host: str = Field("127.0.0.1", description="address of the web process")
    port: int = Field(8042, ge=0, le=65535, description="TCP port of the web process")
    token: SecretStr | None = Field(
        None,
        min_length=16,
        description="bearer token of the HTTP API /api/v1, which answers on this machine only; unset: the file api_token of an embedded stack's data "
        "folder, else the API is off",
    )


class LogSettings(_Room):
    """Logs."""

    model_config = SettingsConfigDict(env_prefix="CTREPORT_LOG_")
    level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field("INFO", description="lowest level that is written")


ROOMS: dict[str, type[_Room]] = {
    "site": SiteSettings,
    "store": StoreSettings,
    "broker": BrokerSettings,
    "rabbit": RabbitSettings,
    "archive": ArchiveSettings,
    "listener": ListenerSettings,
    "access": AccessSettings,
    "tls": TlsSettings,
    "commit": CommitSettings,
    "assemble": AssembleSettings,
    "work": WorkSettings,
    "night": NightSettings,
    "sample": SampleSettings,
    "imaging": ImagingSettings,
    "encoder": EncoderSettings,
    "draft": DraftSettings,
    "sglang": SglangSettings,
    "vllm": VllmSettings,
    "served": ServedSettings,
    "deliver": DeliverSettings,
    "web": WebSettings,
    "log": LogSettings,
}


class Settings:
    """All rooms, read from the environment at construction."""

    def __init__(self) -> None:
        self.site = SiteSettings()
        self.store = StoreSettings()
        self.broker = BrokerSettings()
        self.rabbit = RabbitSettings()
        self.archive = ArchiveSettings()
        self.listener = ListenerSettings()
        self.access = AccessSettings()
        self.tls = TlsSettings()
        self.commit = CommitSettings()
        self.assemble = AssembleSettings()
        self.work = WorkSettings()
        self.night = NightSettings()
        self.sample = SampleSettings()
        self.imaging = ImagingSettings()
        self.encoder = EncoderSettings()
        self.draft = DraftSettings()
        self.sglang = SglangSettings()
        self.vllm = VllmSettings()
        self.served = ServedSettings()
        self.deliver = DeliverSettings()
        self.web = WebSettings()
        self.log = LogSettings()

    @property
    def mode(self) -> Literal["demo", "site"]:
        """Explicit mode, else site as soon as a database, broker or draft server URL is given."""
        external = self.store.url is not None or self.broker_url is not None or self.draft_servers
        return self.site.mode or ("site" if external else "demo")

    @property
    def broker_url(self) -> SecretStr | None:
        """The broker that is given: RabbitMQ before Redis; None: the embedded Valkey."""
        return self.rabbit.url or self.broker.url

    @property
    def draft_servers(self) -> bool:
        """True when a draft server is configured."""
        return any(url is not None for url in (self.sglang.url, self.sglang.text_url, self.sglang.plain_url, self.vllm.url))

    @property
    def archive_root(self) -> Path:
        """Folder of received files."""
        return self.archive.root or self.site.data / "archive"

    @property
    def phantom_ledger(self) -> Path:
        """File of phantom SOP UIDs."""
        return self.site.phantom_ledger or self.site.data / "phantoms.ledger"


@lru_cache(maxsize=1)
def settings() -> Settings:
    """The process's settings, read once."""
    return Settings()


def rows() -> Iterator[tuple[str, str, str]]:
    """(environment variable, default, description) of every field, for documents and their test."""
    for room in ROOMS.values():
        prefix = room.model_config.get("env_prefix", "")
        for name, field in room.model_fields.items():
            default = "" if field.default is None else str(field.default)
            yield f"{prefix}{name}".upper(), default, field.description or ""
