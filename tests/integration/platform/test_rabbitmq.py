"""RabbitMQ as the broker: bells in quorum queues, heard by real workers, also after the node was killed."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import amqp
import psycopg
import pytest

from pipeline.errors import ServiceUnavailable
from pipeline.model import Step
from pipeline.store.session import PgStore
from tests.integration.store.rows import header, send
from tests.rabbit import Rabbit, rabbit_server
from workers import broker
from workers.adapters import CeleryBell
from workers.app import QUEUES, create_app
from workers.stack import CTREPORT

DEADLINE_S = 240.0


@pytest.fixture(scope="module")
def rabbit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rabbit]:
    with rabbit_server(tmp_path_factory.mktemp("rabbit")) as server:
        yield server


@contextmanager
def channel(rabbit: Rabbit) -> Iterator[Any]:
    with amqp.Connection(f"127.0.0.1:{rabbit.port}") as connection:
        yield connection.channel()


@contextmanager
def worker(rabbit: Rabbit, url: str, data: Path) -> Iterator[subprocess.Popen[bytes]]:
    """`ctreport worker io` on this broker; beat is somebody else's."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CTREPORT_")}
    ours = {"CTREPORT_MODE": "demo", "CTREPORT_DATA": str(data), "CTREPORT_DATABASE_URL": url, "CTREPORT_RABBITMQ_URL": rabbit.url}
    env = kept | ours | {"CTREPORT_ASSEMBLE_QUIET_S": "0", "CTREPORT_ASSEMBLE_PATIENCE_S": "0", "CTREPORT_ASSEMBLE_SETTLE_S": "0"}
    with (data / "worker.log").open("wb") as log:
        process = subprocess.Popen([*CTREPORT, "worker", "io", "--concurrency", "1"], env=env, stdout=log, stderr=log)
        try:
            yield process
        finally:
            process.terminate()
            process.wait(timeout=60)


def jobs(url: str) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT count(*) FROM jobs").fetchone()
    assert row is not None
    return int(row[0])


def test_bells_wait_in_quorum_queues_say_nothing_of_a_study_and_do_not_pile_up(rabbit: Rabbit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker, "LONGEST", 20)
    app = create_app(rabbit.url, 900)
    for _ in range(25):
        CeleryBell(app).ring(Step.DELIVER)
    app.close()
    with channel(rabbit) as opened:
        assert opened.queue_declare(Step.DELIVER.value, passive=True).message_count == 20
        bell = opened.basic_get(Step.DELIVER.value, no_ack=True)
        assert bell.body.startswith("[[], {},")
        with pytest.raises(amqp.exceptions.PreconditionFailed, match="x-queue-type"):
            opened.queue_declare(Step.DELIVER.value, durable=True, auto_delete=False, arguments={"x-queue-type": "classic", "x-max-length": 20})
    with channel(rabbit) as opened:
        opened.queue_delete(Step.DELIVER.value)  # other tests declare it with its own length


@pytest.mark.timeout(600)
def test_a_worker_hears_a_bell_and_again_after_the_node_was_killed(rabbit: Rabbit, store: PgStore, url: str, tmp_path: Path) -> None:
    app = create_app(rabbit.url, 900)
    with worker(rabbit, url, tmp_path) as process:
        send(store, *(header(number, "1.2.3") for number in range(1, 4)))
        CeleryBell(app).ring(Step.ASSEMBLE)
        _until(lambda: jobs(url) == 1, tmp_path)
        rabbit.kill()
        send(store, *(header(number, "1.2.4", patient_id="P-2") for number in range(1, 4)))
        CeleryBell(app).ring(Step.ASSEMBLE)  # nobody hears it, and nobody minds
        assert jobs(url) == 1
        rabbit.start()
        _until(lambda: _rung(app) and jobs(url) == 2, tmp_path)
        assert process.poll() is None, "the worker lived through it"
    app.close()


def _until(condition: Callable[[], bool], data: Path) -> None:
    """Wait; the worker's log says why it did not come true."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, (data / "worker.log").read_text(encoding="utf-8")
        time.sleep(0.2)


def _rung(app: Any) -> bool:
    """As the sweeper would, again and again."""
    CeleryBell(app).ring(Step.ASSEMBLE)
    return True


def test_a_node_that_is_down_is_told_without_its_password(rabbit: Rabbit, tmp_path: Path) -> None:
    broker.ping(rabbit.url)
    with pytest.raises(ServiceUnavailable, match="RabbitMQ does not answer") as told:
        broker.ping("amqp://guest:secret@127.0.0.1:1//")
    assert "secret" not in str(told.value)
    with pytest.raises(ServiceUnavailable, match="Redis does not answer"):
        broker.ping("redis://:secret@127.0.0.1:1/0")


def test_redis_answers_a_ping_and_its_queues_stay_as_they_were(redis_url: str) -> None:
    broker.ping(redis_url)
    assert [queue.queue_arguments for queue in broker.queues(redis_url, [step.value for step in QUEUES])] == [None] * len(QUEUES)
    assert "visibility_timeout" in str(broker.configuration(redis_url, 900))
