"""Steps of work: completeness, leases and retries, the night shift, the sample."""

from __future__ import annotations

import re
from typing import Literal, Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator
from pydantic_settings import SettingsConfigDict

from pipeline.settings.room import Room


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


class AssembleSettings(Room):
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


class WorkSettings(Room):
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


class NightSettings(Room):
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


class SampleSettings(Room):
    """The nightly quality sample."""

    model_config = SettingsConfigDict(env_prefix="CTREPORT_SAMPLE_")
    share: float = Field(0.1, gt=0, le=1, description="share of a night's drafts that is measured; at least one of each department and scanner")
    seed: int = Field(0, description="with the night, decides which drafts those are")
    at: str = Field("06:00", pattern=f"^{CLOCK}$", description="when a night ends and is sampled, in the site's time")
