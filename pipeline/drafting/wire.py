"""HTTP to one draft server: a pool of connections, one deadline per answer, and retries where the wire failed, never where the server said no."""

from __future__ import annotations

import json
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx2

from pipeline.errors import ModelMissing, ServiceUnavailable

T = TypeVar("T")
Event = Mapping[str, Any]
Events = Iterator[tuple[float, Event]]  # seconds since the call began, what came
DONE = "[DONE]"
LARGEST = 64 << 20  # bytes of one answer: servers repeat the text so far with every chunk
FIRST_PAUSE_S = 0.2


class Broken(Exception):
    """What came is no whole answer. The message names the fault and holds nothing of the answer."""


class _Fault(Exception):
    """One attempt failed; `again`: at once, another may not."""

    def __init__(self, what: str, *, again: bool) -> None:
        super().__init__(what)
        self.again = again


@dataclass(frozen=True, slots=True)
class Limits:
    """How long and how often a server is asked. `total_s` spans all attempts of one answer."""

    connect_s: float = 3.0
    first_token_s: float = 30.0
    total_s: float = 120.0
    retries: int = 2
    connections: int = 12


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server is and what it takes to be let in. `setting` names the URL's variable in sentences for people."""

    url: str
    key: str = ""
    setting: str = "CTREPORT_SGLANG_URL"
    ca: Path | None = None

    @property
    def name(self) -> str:
        """Host and port, without what else a URL may hold."""
        parts = urlsplit(self.url)
        return f"{parts.hostname}:{parts.port or (443 if parts.scheme == 'https' else 80)}"


def pauses(retries: int, rng: random.Random) -> Iterator[float]:
    """Seconds before each further attempt: doubling, each half to one and a half times as long, so that many callers do not come back at once."""
    for attempt in range(retries):
        yield FIRST_PAUSE_S * 2**attempt * rng.uniform(0.5, 1.5)


class Wire:
    """One server's connections. Calls from several threads run side by side, at most `limits.connections`."""

    def __init__(self, address: Address, limits: Limits, *, sleep: Callable[[float], None] = time.sleep, rng: random.Random | None = None) -> None:
        self.address = address
        self._limits = limits
        self._sleep = sleep
        self._rng = rng or random.Random()
        self._client = httpx2.Client(
            base_url=address.url.rstrip("/"),
            headers={"Authorization": f"Bearer {address.key}"} if address.key else {},
            limits=httpx2.Limits(max_connections=limits.connections, max_keepalive_connections=limits.connections),
            trust_env=False,  # a draft server stands in the hospital: no proxy comes between
            verify=_trusted(address.ca),
            follow_redirects=False,
        )

    def get(self, path: str) -> Event:
        """The JSON object at a path. Raises ServiceUnavailable or ModelMissing."""
        return self._until("GET", path, None, _only)

    def call(self, path: str, body: Event, read: Callable[[Events], T]) -> T:
        """POST a body and let `read` take what comes: server-sent events up to [DONE], or one JSON object. `read` raises Broken for what is no
        answer, and is called anew by the next attempt. Raises ServiceUnavailable or ModelMissing."""
        return self._until("POST", path, body, read)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _until(self, method: str, path: str, body: Event | None, read: Callable[[Events], T]) -> T:
        ends = time.monotonic() + self._limits.total_s
        waits = pauses(self._limits.retries, self._rng)
        while True:
            try:
                return self._once(method, path, body, read, ends)
            except _Fault as fault:
                pause = next(waits, None)
                if pause is None or not fault.again or time.monotonic() + pause >= ends:
                    raise ServiceUnavailable(f"draft server {self.address.name} {fault}; look whether it runs ({self.address.setting})") from None
                self._sleep(pause)

    def _once(self, method: str, path: str, body: Event | None, read: Callable[[Events], T], ends: float) -> T:
        began = time.monotonic()
        left = max(ends - began, 0.001)
        limits = self._limits
        timeout = httpx2.Timeout(connect=min(limits.connect_s, left), read=min(limits.first_token_s, left), write=left, pool=left)
        try:
            with self._client.stream(method, path, json=body, timeout=timeout) as response, _cut_at(response, ends):
                self._let_in(response, path)
                return read(_events(response, began, ends))
        except Broken as error:
            raise self._late(ends) or _Fault(str(error), again=True) from None
        except (TypeError, ValueError, KeyError, AttributeError):
            raise _Fault("sent an answer of another shape than its interface has", again=True) from None
        except httpx2.ConnectTimeout:
            raise _Fault(f"did not take the connection within {limits.connect_s:g} s", again=False) from None
        except httpx2.PoolTimeout:
            raise _Fault(f"is asked by {limits.connections} others of this process already", again=False) from None
        except httpx2.TimeoutException:
            raise _Fault(f"said nothing for {min(limits.first_token_s, left):.3g} s", again=False) from None
        except httpx2.TransportError as error:
            raise self._late(ends) or _Fault(f"cannot be reached or broke off ({type(error).__name__})", again=True) from None

    def _late(self, ends: float) -> _Fault | None:
        """What is told of a call that the deadline cut, whatever the cut looked like."""
        if time.monotonic() < ends:
            return None
        return _Fault(f"had not finished its answer after {self._limits.total_s:g} s", again=False)

    def _let_in(self, response: httpx2.Response, path: str) -> None:
        """Nothing for 200; _Fault for 5xx; ModelMissing for what will be no other tomorrow. Bodies of refusals may repeat a prompt: none is told."""
        code, who = response.status_code, f"draft server {self.address.name}"
        if code == httpx2.codes.OK:
            return
        if code >= 500:
            raise _Fault(f"answered {code}", again=True)
        if code in (401, 403):
            key = self.address.setting.rpartition("_")[0].removesuffix("_PLAIN").removesuffix("_TEXT") + "_API_KEY"
            raise ModelMissing(f"{who} answered {code}: it does not know our key; set {key} to the one it was started with")
        raise ModelMissing(
            f"{who} answered {code} to {path}: it does not understand us; start it as deploy/ says, then `ctreport model check --server`"
        )


def _trusted(ca: Path | None) -> Any:
    """What TLS trusts: the system's authorities, or those of a PEM file."""
    if ca is None:
        return True
    import ssl

    return ssl.create_default_context(cafile=str(ca))


@contextmanager
def _cut_at(response: httpx2.Response, ends: float) -> Iterator[None]:
    """Shut the connection at the deadline: a server that drips bytes would otherwise never reach a read time-out."""
    stream = response.extensions.get("network_stream")
    sock = stream.get_extra_info("socket") if stream is not None else None
    lock, over = threading.Lock(), False

    def cut() -> None:
        with lock:
            if not over and sock is not None:
                with suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(max(ends - time.monotonic(), 0.0), cut)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        with lock:
            over = True
        timer.cancel()


def _events(response: httpx2.Response, began: float, ends: float) -> Events:
    """Each event as it comes. Raises Broken when the answer ends without its end, or is not JSON."""
    if not response.headers.get("content-type", "").startswith("text/event-stream"):
        yield time.monotonic() - began, _object(b"".join(_bounded(response.iter_bytes())).decode("utf-8", errors="replace"))
        return
    for line in _lines(_bounded(response.iter_bytes())):
        if time.monotonic() >= ends:
            raise httpx2.ReadError("past the deadline")
        if line.startswith("data:"):
            data = line[5:].strip()
            if data == DONE:
                return
            yield time.monotonic() - began, _object(data)
    raise Broken("ended its answer in the middle")


def _bounded(pieces: Iterator[bytes]) -> Iterator[bytes]:
    total = 0
    for piece in pieces:
        total += len(piece)
        if total > LARGEST:
            raise Broken(f"answered with more than {LARGEST >> 20} MiB")
        yield piece


def _lines(pieces: Iterator[bytes]) -> Iterator[str]:
    """Lines ended by a line feed; what stands behind the last one was cut."""
    rest = b""
    for piece in pieces:
        *whole, rest = (rest + piece).split(b"\n")
        for line in whole:
            yield line.decode("utf-8", errors="replace")


def _object(text: str) -> Event:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise Broken("sent what is not JSON") from None
    if not isinstance(value, dict):
        raise Broken("sent JSON that is no object")
    return value


def _only(events: Events) -> Event:
    """The single object of a plain answer."""
    for _, event in events:
        return event
    raise Broken("sent nothing")
