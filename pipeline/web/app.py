"""The web app: a health page and the HTTP API, until the reading room moves in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from html import escape

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Mount, Route

from pipeline import metrics
from pipeline.model import WATERMARK
from pipeline.web import problems
from pipeline.web.api import Api, create_api
from pipeline.web.telling import ROOT

Readiness = Callable[[], Mapping[str, str]]
OK = "ok"
PAGE = """<!doctype html>
<html lang="zh-CN"><meta charset="utf-8"><title>ctreport 状态</title>
<style>body{{font:16px/1.6 system-ui,sans-serif;margin:2rem;color:#111}}table{{border-collapse:collapse}}
td{{padding:.25rem 1rem;border-bottom:1px solid #ccc}}</style>
<h1>ctreport：{state}</h1><table>{rows}</table><p>{watermark}</p></html>"""


def create_app(readiness: Readiness, api: Api | None = None) -> Starlette:
    """`/` for people, `/healthz` (alive) and `/readyz` (each part; 503 when one is not) for machines, `/metrics` for Prometheus; `/api/v1`."""

    def page(_: Request) -> Response:
        parts = readiness()
        rows = "".join(f"<tr><td>{name}</td><td>{'✓ 正常' if state == OK else '✗ ' + escape(state)}</td></tr>" for name, state in parts.items())
        return HTMLResponse(PAGE.format(state="正常" if _ready(parts) else "有故障", rows=rows, watermark=WATERMARK))

    def ready(_: Request) -> Response:
        parts = readiness()
        return JSONResponse(dict(parts), status_code=200 if _ready(parts) else 503)

    def alive(_: Request) -> Response:
        return PlainTextResponse(OK)

    def figures(_: Request) -> Response:
        return Response(metrics.exposition(), media_type=metrics.CONTENT_TYPE)

    routes: list[BaseRoute] = [Route("/", page), Route("/healthz", alive), Route("/readyz", ready), Route("/metrics", figures)]
    # a path that no route takes, one with a line break under the API's own root among them, is answered as the API answers
    return Starlette(routes=routes if api is None else [*routes, Mount(ROOT, create_api(api))], exception_handlers={HTTPException: problems.unknown})


def _ready(parts: Mapping[str, str]) -> bool:
    return all(state == OK for state in parts.values())
