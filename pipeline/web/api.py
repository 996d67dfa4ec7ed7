"""The HTTP API: ask for a department's draft of a study, see how it stands, read it. openapi.json is its contract."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from importlib.resources import files
from uuid import UUID

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from pipeline import metrics
from pipeline.asking import Asked
from pipeline.errors import PipelineError, ServiceUnavailable
from pipeline.model import RequestState, Step
from pipeline.ports import Doorbell, Work
from pipeline.web import problems
from pipeline.web.access import Guard
from pipeline.web.asking import HEADER, MAX_BODY, Choices, Wanted, read_limit, read_wanted
from pipeline.web.events import Streams
from pipeline.web.problems import Refused
from pipeline.web.telling import JSON, MARKDOWN, Shown, form_for, link, request_json

ACTOR = "api"
LISTED, MOST_LISTED = 20, 100
CONTRACT = "openapi.json"


@dataclass(frozen=True)
class Api:
    """What the API works with. `begin` gives a transaction, `bell` a doorbell; both may raise ServiceUnavailable. `token`: None turns it off."""

    begin: Callable[[], AbstractContextManager[Work]]
    bell: Callable[[], Doorbell]
    token: str | None
    choices: Choices
    markdown: Callable[[Shown], str]
    streams: Streams


def create_api(api: Api) -> Starlette:
    """The application that is mounted at /api/v1."""

    async def drafts(request: Request) -> Response:
        return await _ask(api, request) if request.method == "POST" else await _listed(api, request)

    async def one(request: Request) -> Response:
        asked, shown = await run_in_threadpool(_look, api, request.path_params["request_id"])
        return JSONResponse(request_json(asked, shown))

    async def report(request: Request) -> Response:
        return await _report(api, request)

    async def events(request: Request) -> Response:
        request_id: UUID = request.path_params["request_id"]
        return await api.streams.response(lambda: _look(api, request_id))

    async def contract(_: Request) -> Response:
        return Response(files("pipeline.web").joinpath(CONTRACT).read_bytes(), media_type=JSON)

    return Starlette(
        routes=[
            Route(f"/{CONTRACT}", contract),
            Route("/drafts", drafts, methods=["GET", "POST"]),
            Route("/drafts/{request_id:uuid}", one),
            Route("/drafts/{request_id:uuid}/report", report),
            Route("/drafts/{request_id:uuid}/events", events),
        ],
        middleware=[Middleware(Guard, token=api.token)],
        exception_handlers={
            Refused: problems.refused,
            PipelineError: problems.failed,
            HTTPException: problems.unknown,
            Exception: problems.broken,
        },
    )


async def _ask(api: Api, request: Request) -> Response:
    """202 and a link, whether the draft was asked for before, is being written or stands already."""
    body = await _body(request)
    wanted = read_wanted(request.headers.get("content-type", ""), body, request.headers.get(HEADER), api.choices)
    asked = await run_in_threadpool(_asked, api, wanted)
    return JSONResponse(request_json(asked), HTTPStatus.ACCEPTED, {"Location": link(asked.id)})


def _asked(api: Api, wanted: Wanted) -> Asked:
    """The request's row; who writes is rung for once it is committed."""
    with api.begin() as work:
        asked, new = work.requests.ask_for(wanted.study, wanted.department, wanted.lengths, ACTOR)
    if new:
        metrics.ASKED.labels(wanted.department).inc()
        with suppress(ServiceUnavailable):  # the sweeper rings for what was asked while there is no bell
            api.bell().ring(Step.DRAFT)
    return asked


async def _listed(api: Api, request: Request) -> Response:
    limit = read_limit(request.query_params.multi_items(), LISTED, MOST_LISTED)

    def recent() -> list[dict[str, object]]:
        with api.begin() as work:
            return [request_json(asked) for asked in work.requests.recent(limit)]

    return JSONResponse({"drafts": await run_in_threadpool(recent)})


async def _report(api: Api, request: Request) -> Response:
    """The report as JSON or Markdown: 409 while it is not written, 410 once it may be read no more, 406 for another form."""
    form = form_for(request.headers.get("accept", ""))
    if form is None:
        raise Refused(HTTPStatus.NOT_ACCEPTABLE, f"a report is given as {JSON} or {MARKDOWN}; name one of them in Accept")
    asked, shown = await run_in_threadpool(_look, api, request.path_params["request_id"])
    if asked.barred:
        raise Refused(HTTPStatus.GONE, asked.barred)
    if shown is None:
        why = f" ({asked.reason})" if asked.reason else ""
        raise Refused(HTTPStatus.CONFLICT, f"there is no report yet: the request is '{asked.state}'{why}; {link(asked.id)} tells when there is")
    return JSONResponse(shown) if form == JSON else Response(api.markdown(shown), media_type=f"{MARKDOWN}; charset=utf-8")


def _look(api: Api, request_id: UUID) -> tuple[Asked, Shown | None]:
    """How a request stands, and its draft where one may be read. Raises NotFound."""
    with api.begin() as work:
        asked = work.requests.get(request_id)
        readable = asked.state is RequestState.DRAFTED and asked.draft_id is not None and not asked.barred
        return asked, work.reports.shown(asked.draft_id) if readable and asked.draft_id else None


async def _body(request: Request) -> bytes:
    """The whole body. Raises Refused (413) as soon as it is too large."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY:
            raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body is larger than {MAX_BODY} bytes; a request is one small JSON object")
    return body
