"""What leaves: deliveries, the web process, logs."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr
from pydantic_settings import SettingsConfigDict

from pipeline.settings.room import Room


class DeliverSettings(Room):
    """Where finished reports go."""

    model_config = SettingsConfigDict(env_prefix="CTREPORT_DELIVER_")
    folder: Path | None = Field(None, description="folder that receives each report as Markdown; unset: nothing is delivered")


class WebSettings(Room):
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


class LogSettings(Room):
    """Logs."""

    model_config = SettingsConfigDict(env_prefix="CTREPORT_LOG_")
    level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field("INFO", description="lowest level that is written")
