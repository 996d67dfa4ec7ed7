"""The web process's application on a real database, served by uvicorn on a loopback port."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import anyio
import uvicorn
from starlette.applications import Starlette

from pipeline.export.markdown import draft_markdown
from pipeline.store.session import PgStore
from pipeline.web.api import Api
from pipeline.web.app import create_app
from pipeline.web.events import Streams
from tests.builders import Bell
from tests.unit.web.fakes import CHOICES, TOKEN

LOOK_EVERY_S = 0.02


def app_on(store: PgStore, *, looks: int = 250) -> Starlette:
    """As `workers.wiring_drafts.api` builds it, looking more often."""

    async def tick() -> None:
        await anyio.sleep(LOOK_EVERY_S)

    return create_app(dict, Api(store.begin, Bell, TOKEN, CHOICES, draft_markdown, Streams(16, looks, tick)))


@contextmanager
def served(app: Starlette) -> Iterator[str]:
    """The base URL of the running application, as `workers.web` runs it."""
    bound = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False, proxy_headers=False, timeout_graceful_shutdown=3))
    thread = threading.Thread(target=server.run, args=([bound],), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(timeout=10)
        bound.close()
    assert not thread.is_alive(), "uvicorn did not end within its grace"
