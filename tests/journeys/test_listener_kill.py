"""kill −9 of the listener at random moments of a send: what got Success is there, bit for bit, and in the database."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import psycopg
import pytest

from pipeline.store import schema
from tests.builders import ct_slice, part10
from tests.journeys.conftest import eventually
from tests.listener_process import ListenerProcess, listening
from tests.wire import CT, Peer

SENDERS = 4
SIDE = 64
PUBLIC, FAST = False, True
META_END = 144
GIVE_UP_S = 150.0
FULL = [pytest.mark.long, pytest.mark.timeout(1_200)]


@pytest.fixture
def listener(request: pytest.FixtureRequest, tmp_path: Path, database_url: str, redis_url: str) -> Iterator[ListenerProcess]:
    """On the public path, unless the test asks for the fast one."""
    schema.migrate(database_url)
    fast = str(getattr(request, "param", PUBLIC))
    with listening(tmp_path / "site", database_url, redis_url, CTREPORT_LOG_LEVEL="WARNING", CTREPORT_LISTENER_FAST=fast) as running:
        yield running


def images(count: int) -> dict[str, bytes]:
    """Data set by SOPInstanceUID: small slices of ten studies."""
    noise = np.random.default_rng(3)
    made = {}
    for number in range(count):
        ds = ct_slice(f"kill {number % 10}", z_mm=float(number), number=number, pixels=noise.integers(0, 4096, (SIDE, SIDE), np.int16))
        made[str(ds.SOPInstanceUID)] = data_set(part10(ds))
    return made


def data_set(whole: bytes) -> bytes:
    """What follows the file meta."""
    return whole[META_END + int.from_bytes(whole[140:144], "little") :]


class Sending:
    """Senders that connect again and send again until every image has got Success."""

    def __init__(self, port: int, wanted: dict[str, bytes]) -> None:
        self._port, self._wanted = port, wanted
        self.acknowledged: set[str] = set()
        self.other_answers: set[int] = set()
        uids = list(wanted)
        self._threads = [threading.Thread(target=self._send, args=(uids[start::SENDERS],), daemon=True) for start in range(SENDERS)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def going_on(self) -> bool:
        return any(thread.is_alive() for thread in self._threads)

    def _send(self, uids: Sequence[str]) -> None:
        left, give_up = list(uids), time.monotonic() + GIVE_UP_S * len(self._wanted) / 200
        while left and time.monotonic() < give_up:
            try:
                with Peer(self._port, timeout_s=15.0) as peer:
                    while left:
                        self._answered(left, peer.store(self._wanted[left[0]], left[0], CT))
                    peer.release()
            except OSError:  # refused, reset, ended, silent: the listener was killed
                time.sleep(0.05)

    def _answered(self, left: list[str], status: int) -> None:
        if status == 0x0000:
            self.acknowledged.add(left.pop(0))
        else:
            self.other_answers.add(status)


def lost(listener: ListenerProcess, database_url: str, acknowledged: set[str], wanted: dict[str, bytes]) -> list[str]:
    """Acknowledged images that the database does not know, or whose bytes are not in the archive as they were sent."""
    with psycopg.connect(database_url) as connection:
        rows: dict[str, str] = dict(connection.execute("SELECT sop_uid, path FROM instances").fetchall())
    root = listener.data / "archive"
    return [uid for uid in sorted(acknowledged) if uid not in rows or data_set((root / rows[uid]).read_bytes()) != wanted[uid]]


@pytest.mark.parametrize(
    ("listener", "count", "kills"),
    [(PUBLIC, 200, 3), pytest.param(PUBLIC, 2_000, 25, marks=FULL), pytest.param(FAST, 2_000, 25, marks=FULL)],
    indirect=["listener"],
)
def test_every_image_that_got_success_survives_kills_of_the_whole_listener(
    listener: ListenerProcess, database_url: str, count: int, kills: int
) -> None:
    wanted, chance = images(count), random.Random(20261130)
    sending = Sending(listener.port, wanted)
    sending.start()
    for moment in sorted(chance.sample(range(1, count - SENDERS), kills)):
        eventually(lambda moment=moment: len(sending.acknowledged) >= moment)  # type: ignore[misc]  # the default binds the number
        time.sleep(chance.uniform(0.0, 0.03))
        listener.kill()
        assert lost(listener, database_url, set(sending.acknowledged), wanted) == []
        listener.start()
    all_is_well(listener, database_url, sending, wanted)


@pytest.mark.parametrize(("count", "kills"), [(200, 3), pytest.param(2_000, 25, marks=FULL)])
def test_every_image_that_got_success_survives_kills_of_single_processes(
    listener: ListenerProcess, database_url: str, count: int, kills: int
) -> None:
    wanted, chance = images(count), random.Random(20261201)
    sending = Sending(listener.port, wanted)
    sending.start()
    for moment in sorted(chance.sample(range(1, count - SENDERS), kills)):
        eventually(lambda moment=moment: len(sending.acknowledged) >= moment)  # type: ignore[misc]  # the default binds the number
        time.sleep(chance.uniform(0.0, 0.03))
        alive = eventually(lambda: listener.processes()[1:])
        os.kill(chance.choice(alive).pid, signal.SIGKILL)
        assert lost(listener, database_url, set(sending.acknowledged), wanted) == []
    all_is_well(listener, database_url, sending, wanted)


def all_is_well(listener: ListenerProcess, database_url: str, sending: Sending, wanted: dict[str, bytes]) -> None:
    """Everything came through in the end, once each; nothing is left over; `ctreport verify` is clean."""
    eventually(lambda: not sending.going_on(), GIVE_UP_S * len(wanted) / 200)
    assert sending.acknowledged == wanted.keys()
    assert sending.other_answers <= {0xA700}
    assert lost(listener, database_url, sending.acknowledged, wanted) == []
    with psycopg.connect(database_url) as connection:
        assert connection.execute("SELECT count(*), bool_and(is_first) FROM instances").fetchall() == [(len(wanted), True)]
        assert connection.execute("SELECT sum(images) FROM studies").fetchall() == [(len(wanted),)]
        eventually(lambda: connection.execute("SELECT count(*) FROM associations WHERE closed_at IS NULL").fetchall() == [(0,)], 30.0)
    ran = listener.ctreport("verify", "--json", "-")
    report = json.loads(ran.stdout)
    assert (ran.returncode, report["clean"], report["acknowledged"]) == (0, True, len(wanted)), ran.stderr
    assert (report["missing"], report["changed"], report["duplicates"]) == ([], [], [])
    assert not list((listener.data / "archive" / "incoming").glob("*"))
