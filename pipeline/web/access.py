"""Who may use the API: callers on this machine that show the bearer token. Nobody else until the reading room brings logins."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from http import HTTPStatus
from ipaddress import IPv6Address, ip_address

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pipeline.web.problems import Refused, problem

SCHEME = "bearer"
LOCAL_NAMES = frozenset({"localhost", "localhost."})
FORWARDED = ("forwarded", "x-forwarded-for", "x-real-ip")  # a proxy on this machine would make everybody local
OPEN = frozenset({"/openapi.json"})  # the contract itself needs no token
NOT_LOCAL = "the API answers on this machine only: call it at 127.0.0.1, without a proxy"
NO_TOKEN = "the API is off: set CTREPORT_WEB_TOKEN to a secret of at least 16 characters and start the web process again"
WRONG_TOKEN = "send the header 'Authorization: Bearer TOKEN' with the token of CTREPORT_WEB_TOKEN (embedded: the file api_token in the data folder)"


class Guard:
    """ASGI middleware: 403 for callers elsewhere, 503 while no token is set, 401 without the right one."""

    def __init__(self, app: ASGIApp, token: str | None) -> None:
        self._app, self._token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the request through, or answer why not."""
        request = Request(scope)
        marked = _marking(send)
        try:
            check_local(request.client.host if request.client else "", request.headers)
            if request.url.path.removeprefix(scope.get("root_path", "")) not in OPEN:
                check_token(request.headers.get("authorization", ""), self._token)
        except Refused as error:
            await problem(error.status, error.detail, error.headers)(scope, receive, marked)
        else:
            await self._app(scope, receive, marked)


def _marking(send: Send) -> Send:
    """A `send` that keeps every answer out of caches and makes browsers take it for what it says."""

    async def marked(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers["Cache-Control"] = "no-store"
            headers["X-Content-Type-Options"] = "nosniff"
        await send(message)

    return marked


def check_local(client: str, headers: Mapping[str, str]) -> None:
    """Refuse a caller on another machine, behind a proxy, or that was led here by another site's name (DNS rebinding)."""
    host = headers.get("host", "").rsplit("@", 1)[-1]
    if not is_loopback(client) or any(name in headers for name in FORWARDED) or not is_loopback(without_port(host)):
        raise Refused(HTTPStatus.FORBIDDEN, NOT_LOCAL)


def check_token(authorization: str, token: str | None) -> None:
    """Refuse what is not `Bearer` and the token, in the same time whatever is wrong about it."""
    if not token:
        raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, NO_TOKEN)
    scheme, _, shown = authorization.partition(" ")
    same = hmac.compare_digest(shown.strip().encode("utf-8", "surrogateescape"), token.encode())
    if scheme.lower() != SCHEME or not same:
        raise Refused(HTTPStatus.UNAUTHORIZED, WRONG_TOKEN, {"WWW-Authenticate": 'Bearer realm="ctreport"'})


def is_loopback(host: str) -> bool:
    """True of a loopback address, also one that is written as IPv4 within IPv6, and of localhost."""
    if host.lower() in LOCAL_NAMES:
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback


def without_port(host: str) -> str:
    """The name or address of a Host header."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]
