"""Receiving: the listener, who may call it, TLS and storage commitment."""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_settings import SettingsConfigDict

from pipeline.settings.room import Room


class ListenerSettings(Room):
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


class AccessSettings(Room):
    """Who may associate with the listener."""

    model_config = SettingsConfigDict(env_prefix="CTREPORT_ACCESS_")
    peers: tuple[Peer, ...] | None = Field(
        None, description="JSON list of peers: aet, network, associations, mb_per_s, report_to; unset: everyone who reaches the port, []: nobody"
    )
    check_called_aet: bool = Field(False, description="refuse associations that call another AE title than CTREPORT_LISTENER_AET")
    associations_per_host: int | None = Field(None, ge=1, description="associations open at once from one host; unset: no limit of its own")


class TlsSettings(Room):
    """DICOM over TLS (BCP 195: 1.2 with ECDHE and AEAD, or 1.3)."""

    model_config = SettingsConfigDict(env_prefix="CTREPORT_TLS_")
    certificate: Path | None = Field(None, description="PEM file of our certificate and its chain, read again when it changes; unset: plain TCP")
    key: Path | None = Field(None, description="PEM file of its key, without a password; unset: in the certificate's file")
    client_ca: Path | None = Field(None, description="PEM file of the authorities whose certificates peers show; unset: they show none")
    client_required: bool = Field(True, description="refuse peers without a certificate, where CTREPORT_TLS_CLIENT_CA is set")


class CommitSettings(Room):
    """Storage commitment: reports to those who asked."""

    model_config = SettingsConfigDict(env_prefix="CTREPORT_COMMIT_")
    timeout_s: float = Field(30.0, gt=0, description="seconds until a peer that does not answer a report counts as gone")
    retry_delay_s: float = Field(10.0, ge=0, description="seconds until a report is tried again; doubles with each attempt, at most an hour")
    give_up_h: float = Field(72.0, gt=0, description="hours after the request at which an unheard report is given up")
