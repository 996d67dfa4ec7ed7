"""What the API answers when it cannot do what was asked: application/problem+json (RFC 9457), and which error is which status."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from pipeline import log
from pipeline.errors import BadInput, NotAllowed, NotFound, PipelineError, Transient

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_S = 5
# the first that fits
STATUS: Mapping[type[PipelineError], HTTPStatus] = {
    NotFound: HTTPStatus.NOT_FOUND,
    BadInput: HTTPStatus.UNPROCESSABLE_ENTITY,
    NotAllowed: HTTPStatus.CONFLICT,
    Transient: HTTPStatus.SERVICE_UNAVAILABLE,
}
logger = log.get(__name__)


class Refused(Exception):
    """A request that is refused before anything is done: its status, and a sentence with the next step."""

    def __init__(self, status: HTTPStatus, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status, self.detail, self.headers = status, detail, headers


def problem(status: HTTPStatus, detail: str, headers: Mapping[str, str] | None = None) -> Response:
    """One problem document; `detail` holds no patient data."""
    body = {"type": "about:blank", "title": status.phrase, "status": status.value, "detail": detail}
    more = {"Retry-After": str(RETRY_AFTER_S)} if status is HTTPStatus.SERVICE_UNAVAILABLE else {}
    return JSONResponse(body, status.value, {**more, **(headers or {})}, MEDIA_TYPE)


def refused(_: Request, error: Exception) -> Response:
    """The answer to a Refused."""
    assert isinstance(error, Refused)
    return problem(error.status, error.detail, error.headers)


def failed(_: Request, error: Exception) -> Response:
    """The answer to one of the house's errors; one that has no status of its own is a conflict."""
    status = next((status for kind, status in STATUS.items() if isinstance(error, kind)), HTTPStatus.CONFLICT)
    return problem(status, str(error))


def unknown(_: Request, error: Exception) -> Response:
    """The answer to a path or a method that is not there."""
    assert isinstance(error, HTTPException)
    return problem(HTTPStatus(error.status_code), f"{error.detail}: /api/v1/openapi.json lists what there is", error.headers)


def broken(_: Request, error: Exception) -> Response:
    """The answer to an error that nobody expected: it is in the log, without its words."""
    logger.error("api_error", kind=type(error).__name__)
    return problem(HTTPStatus.INTERNAL_SERVER_ERROR, f"something unexpected happened ({type(error).__name__}); the web process's log tells where")
