"""What every class of settings is built on."""

from __future__ import annotations

from pydantic_settings import BaseSettings, SettingsConfigDict

HTTP = r"^https?://[^/\s]+"  # what a draft server's URL looks like


class Room(BaseSettings):
    """Read once from the environment, frozen."""

    model_config = SettingsConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True, env_ignore_empty=True)
