"""A request as server-sent events: how it stands, each time that changes, and at the end its report."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from http import HTTPStatus

import anyio
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.concurrency import run_in_threadpool

from pipeline.asking import Asked
from pipeline.errors import ServiceUnavailable
from pipeline.web.problems import Refused
from pipeline.web.telling import Shown, request_json

PING_S = 15
ENDING_S = 2.0  # until a stream is cut, less than what the process has to end
RECONNECT_MS = 3000
Look = Callable[[], tuple[Asked, Shown | None]]
Tick = Callable[[], Awaitable[None]]


class Streams:
    """Open streams of this process: at most `most`, each at most `looks` long; a client then connects anew."""

    def __init__(self, most: int, looks: int, tick: Tick) -> None:
        self.open = 0
        self._most, self._looks, self._tick = most, looks, tick

    async def response(self, look: Look) -> EventSourceResponse:
        """The stream that `look` feeds. Raises Refused (503) when there are too many, and what the first look raises."""
        if self.open >= self._most:
            raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, f"{self._most} streams are open already; read the request itself, or try again later")
        first = await run_in_threadpool(look)
        ending = anyio.Event()
        return EventSourceResponse(self._events(first, look, ending), ping=PING_S, shutdown_event=ending, shutdown_grace_period=ENDING_S)

    async def _events(self, seen: tuple[Asked, Shown | None], look: Look, ending: anyio.Event) -> AsyncIterator[ServerSentEvent]:
        """`ending` is set when the process is asked to end: the stream then ends whole."""
        self.open += 1
        try:
            told = ""
            for _ in range(self._looks):
                asked, shown = seen
                state = _dumps(request_json(asked, shown))
                if state != told:
                    yield ServerSentEvent(state, event="state", retry=RECONNECT_MS)
                    told = state
                if asked.over:
                    if shown:
                        yield ServerSentEvent(_dumps(shown), event="report")
                    return
                await self._tick()
                if ending.is_set():
                    return
                seen = await _looked(look, seen)
        finally:
            self.open -= 1


async def _looked(look: Look, before: tuple[Asked, Shown | None]) -> tuple[Asked, Shown | None]:
    """What is seen now; what was seen before while the database is away."""
    try:
        return await run_in_threadpool(look)
    except ServiceUnavailable:
        return before


def _dumps(value: Shown) -> str:
    return json.dumps(value, ensure_ascii=False)
