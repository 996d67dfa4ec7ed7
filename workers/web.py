"""Process entry of the web page and the HTTP API."""

from __future__ import annotations

import uvicorn

from pipeline.settings import settings
from pipeline.web.app import create_app
from workers import wiring_drafts
from workers.health import readiness

GRACE_S = 4  # for streams that are open when the process is to end; the stack gives it one second more


def serve() -> None:
    """Serve the health page and the API until SIGTERM. Headers of a proxy are not believed: who calls is who has connected."""
    room = settings().web
    app = create_app(readiness, wiring_drafts.api())
    uvicorn.run(app, host=room.host, port=room.port, log_config=None, access_log=False, proxy_headers=False, timeout_graceful_shutdown=GRACE_S)
