"""Settings: one class per room, read once from the environment, frozen. `rows()` lists every field for README and env.example."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Literal

from pydantic import SecretStr

from pipeline.settings.listening import AccessSettings, CommitSettings, ListenerSettings, Peer, ReportAddress, TlsSettings
from pipeline.settings.places import ArchiveSettings, BrokerSettings, RabbitSettings, SiteSettings, StoreSettings
from pipeline.settings.room import Room
from pipeline.settings.seeing import EncoderSettings, ImagingSettings
from pipeline.settings.telling import DeliverSettings, LogSettings, WebSettings
from pipeline.settings.working import AssembleSettings, NightSettings, RetryRow, SampleSettings, SeriesRule, UrgencyRow, WorkSettings
from pipeline.settings.writing import DraftSettings, ServedSettings, SglangSettings, VllmSettings

__all__ = [
    "ROOMS",
    "AccessSettings",
    "ArchiveSettings",
    "AssembleSettings",
    "BrokerSettings",
    "CommitSettings",
    "DeliverSettings",
    "DraftSettings",
    "EncoderSettings",
    "ImagingSettings",
    "ListenerSettings",
    "LogSettings",
    "NightSettings",
    "Peer",
    "RabbitSettings",
    "ReportAddress",
    "RetryRow",
    "SampleSettings",
    "SeriesRule",
    "ServedSettings",
    "Settings",
    "SglangSettings",
    "SiteSettings",
    "StoreSettings",
    "TlsSettings",
    "UrgencyRow",
    "VllmSettings",
    "WebSettings",
    "WorkSettings",
    "rows",
    "settings",
]

ROOMS: dict[str, type[Room]] = {
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
