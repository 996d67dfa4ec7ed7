"""How each fault is made. A blow answers with what ends it; a fault that cannot be made in this stack says why before the trial begins."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import psycopg
import redis

from pipeline.errors import ServiceUnavailable
from workers.chaos.clock import ABSENT, HOUR_S, FalseClock
from workers.chaos.disk import Disk
from workers.chaos.drafts import FakeDrafts
from workers.chaos.plan import DRAFTER, PROCESSES, Fault, Strike

CUT = """SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
    WHERE datname = current_database() AND usename = current_user AND pid <> pg_backend_pid()"""
CONNECT_S = 5
COMMAND_S = 60.0
Undo = Callable[[], None]
HIT = (psycopg.Error, redis.RedisError, OSError, ServiceUnavailable)  # what a blow may raise when its target is down already


def nothing() -> None:
    """A fault that is over as soon as it is made."""


@dataclass(frozen=True)
class Target:
    """A stack under fire. `pid_of`: a part of the stack as it runs now, None where this trial cannot see processes; `commands`: what a site runs for
    a fault in the place of what we do; `no_clock`: why `clock` is None."""

    database_url: str = field(repr=False)
    broker_url: str = field(repr=False)
    pid_of: Callable[[str], int | None] | None = None
    commands: Mapping[Fault, str] = field(default_factory=dict)
    clock: FalseClock | None = None
    disk: Disk | None = None
    drafts: FakeDrafts | None = None
    no_clock: str = ABSENT


def refusals(target: Target) -> dict[Fault, str]:
    """Why a fault cannot be made in this stack, for those that cannot."""
    said: dict[Fault, str] = {}
    if target.pid_of is None:
        unseen = "its process is not one of an embedded stack here; give a command with --on"
        said |= dict.fromkeys((*PROCESSES, Fault.DATABASE_RESTARTED), unseen)
    if target.clock is None:
        said[Fault.CLOCK_JUMPS] = target.no_clock
    if target.disk is None:
        said[Fault.DISK_FULL] = "its disk is not ours to fill; give a command with --on"
    if target.drafts is None:
        said |= dict.fromkeys(DRAFTER, "its draft server is not ours; give --draft-port and let CTREPORT_SGLANG_URL point to it")
    if not target.broker_url.startswith(("redis://", "rediss://")):
        said |= dict.fromkeys((Fault.BROKER_STOPPED, Fault.BROKER_EMPTIED, Fault.BROKER_PAUSED), "its broker is no Redis; give a command with --on")
    return {fault: why for fault, why in said.items() if fault not in target.commands}


def strike(target: Target, one: Strike) -> Undo:
    """Make one fault; returns what ends it. Raises one of HIT where the target is down already."""
    if one.fault in target.commands:
        return _command(target.commands[one.fault])
    if one.fault in PROCESSES:
        return _kill(target, PROCESSES[one.fault], signal.SIGKILL)
    if one.fault in DRAFTER:
        return _trouble(target, one.fault)
    return BLOWS[one.fault](target, one)


def _command(line: str) -> Undo:
    """A site's own way to make a fault; it lasts as long as the command does."""
    done = subprocess.run(line, shell=True, check=False, capture_output=True, timeout=COMMAND_S)  # the operator's own line
    if done.returncode != 0:
        raise ServiceUnavailable(f"the command for a fault ended with {done.returncode}: {line}")
    return nothing


def _kill(target: Target, part: str, how: signal.Signals) -> Undo:
    """Its supervisor starts it again."""
    pid = target.pid_of(part) if target.pid_of is not None else None
    if pid is None:
        raise ServiceUnavailable(f"{part} does not run just now")
    os.kill(pid, how)
    return nothing


def _trouble(target: Target, fault: Fault) -> Undo:
    assert target.drafts is not None, "refusals() leaves this out"
    target.drafts.trouble(fault)
    return target.drafts.well


def _stop_broker(target: Target, one: Strike) -> Undo:
    if one.hard and target.pid_of is not None:
        return _kill(target, "valkey", signal.SIGKILL)
    with _broker(target) as client:
        client.shutdown(nosave=True)
    return nothing


def _empty_broker(target: Target, one: Strike) -> Undo:
    with _broker(target) as client:
        client.flushall()
    return nothing


def _pause_broker(target: Target, one: Strike) -> Undo:
    """It ends by itself."""
    with _broker(target) as client:
        client.client_pause(round(one.for_s * 1000), all=True)
    return nothing


def _restart_database(target: Target, one: Strike) -> Undo:
    """A fast stop, or the death of the whole server; its supervisor starts it again."""
    return _kill(target, "postgres", signal.SIGKILL if one.hard else signal.SIGINT)


def _cut_database(target: Target, one: Strike) -> Undo:
    with psycopg.connect(target.database_url, autocommit=True, connect_timeout=CONNECT_S) as connection:
        connection.execute(CUT)
    return nothing


def _fill_disk(target: Target, one: Strike) -> Undo:
    assert target.disk is not None, "refusals() leaves this out"
    target.disk.fill()
    return target.disk.free


def _jump(target: Target, one: Strike) -> Undo:
    clock = target.clock
    assert clock is not None, "refusals() leaves this out"
    clock.set(HOUR_S)
    return lambda: clock.set(0)


def _broker(target: Target) -> redis.Redis:
    return redis.Redis.from_url(target.broker_url, socket_timeout=CONNECT_S, socket_connect_timeout=CONNECT_S)


BLOWS: Mapping[Fault, Callable[[Target, Strike], Undo]] = {
    Fault.BROKER_STOPPED: _stop_broker,
    Fault.BROKER_EMPTIED: _empty_broker,
    Fault.BROKER_PAUSED: _pause_broker,
    Fault.DATABASE_RESTARTED: _restart_database,
    Fault.DATABASE_CUT: _cut_database,
    Fault.DISK_FULL: _fill_disk,
    Fault.CLOCK_JUMPS: _jump,
}
