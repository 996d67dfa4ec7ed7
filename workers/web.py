"""Process entry of the web page."""

from __future__ import annotations

import uvicorn

from pipeline.settings import settings
from pipeline.web.app import create_app
from workers.health import readiness


def serve() -> None:
    """Serve the health page until SIGTERM."""
    room = settings().web
    uvicorn.run(create_app(readiness), host=room.host, port=room.port, log_config=None, access_log=False)
