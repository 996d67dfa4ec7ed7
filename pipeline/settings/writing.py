"""Drafts: how they are written, and by which servers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, SecretStr
from pydantic_settings import SettingsConfigDict

from pipeline.settings.room import HTTP, Room

Department = Literal["radiology", "oncology", "pulmonology"]
Section = Literal["检查所见", "描述", "诊断意见", "建议"]


class DraftSettings(Room):
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


class SglangSettings(Room):
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


class VllmSettings(Room):
    """A draft server that runs vLLM: the rung behind SGLang."""

    model_config = SettingsConfigDict(env_prefix="CTREPORT_VLLM_")
    url: str | None = Field(None, pattern=HTTP, description="http://host:port of the draft server (vLLM); unset: none")
    api_key: SecretStr | None = Field(None, description="what the server was started with as --api-key; unset: no key is sent")


class ServedSettings(Room):
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
