"""What is different between the two brokers that carry the doorbell: Redis (or Valkey), and RabbitMQ with quorum queues."""

from __future__ import annotations

from collections.abc import Iterable

from kombu import Connection, Queue
from kombu.exceptions import OperationalError

from pipeline.errors import ServiceUnavailable

RABBIT = ("amqp://", "amqps://")
LONGEST = 1_000  # bells that wait in one queue of RabbitMQ; the oldest goes when another comes, for one is as good as many
CONNECT_S, SILENT_S = 3, 30


def is_rabbit(url: str) -> bool:
    """True for a RabbitMQ's URL."""
    return url.startswith(RABBIT)


def queues(url: str, names: Iterable[str]) -> list[Queue]:
    """One queue per step. On RabbitMQ a quorum queue: it lives as long as most of the nodes do."""
    arguments = {"x-queue-type": "quorum", "x-max-length": LONGEST} if is_rabbit(url) else None
    return [Queue(name, queue_arguments=arguments) for name in names]


def configuration(url: str, visibility_timeout_s: int) -> dict[str, object]:
    """Celery's settings that the broker asks for. A bell that a worker took with it rings again: on Redis after the visibility time-out, on RabbitMQ
    as soon as the connection is gone."""
    if is_rabbit(url):
        return {
            "broker_heartbeat": 0,  # a solo worker answers none while it works; TCP's keepalive finds a peer that is gone
            "broker_connection_timeout": CONNECT_S,
            "broker_native_delayed_delivery_queue_type": "classic",  # Celery declares them beside quorum queues; we send nothing with a delay
            "broker_transport_options": {"confirm_publish": True},
        }
    return {
        "broker_transport_options": {
            "visibility_timeout": visibility_timeout_s,
            "unacked_restore_interval": 5,
            "unacked_restore_throttle": 1,
            "socket_keepalive": True,
            "socket_connect_timeout": CONNECT_S,
            "socket_timeout": SILENT_S,
            "health_check_interval": 25,
        }
    }


def impatient(url: str, timeout_s: int) -> dict[str, object]:
    """Transport options of a process that only rings, while somebody waits for it."""
    if is_rabbit(url):
        return {"read_timeout": timeout_s, "write_timeout": timeout_s}
    return {"socket_timeout": timeout_s}


def ping(url: str, timeout_s: int = 2) -> None:
    """Ask the broker for a sign of life. Raises ServiceUnavailable without its URL, which holds a password."""
    name = "RabbitMQ" if is_rabbit(url) else "Redis"
    options = impatient(url, timeout_s) if is_rabbit(url) else impatient(url, timeout_s) | {"socket_connect_timeout": timeout_s}
    with Connection(url, connect_timeout=timeout_s, transport_options=options, heartbeat=0) as connection:
        faults: tuple[type[BaseException], ...] = (*connection.connection_errors, *connection.channel_errors, OperationalError, OSError)
        try:
            connection.ensure_connection(max_retries=1, interval_start=0, timeout=timeout_s)
            connection.default_channel  # noqa: B018  # Redis answers here, not before
        except faults as error:
            raise ServiceUnavailable(f"{name} does not answer ({type(error).__name__}); work goes on with the sweeper once it is back") from None
