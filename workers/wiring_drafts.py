"""Where the ports of drafting and of the HTTP API meet their adapters; imports inside, as in wiring."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from pipeline import log
from pipeline.errors import BadInput, ModelMissing, ServiceUnavailable
from pipeline.model import Step
from pipeline.settings import Settings, settings
from workers import wiring

if TYPE_CHECKING:
    from pipeline.drafting.generator import Generator
    from pipeline.drafting.schemas import Schemas
    from pipeline.drafting.serving import Serving
    from pipeline.drafting.whitelist import WhiteList
    from pipeline.flow.draft import Drafting
    from pipeline.web.api import Api

logger = log.get(__name__)
API_TOKEN = "api_token"  # in the data folder of an embedded stack
STREAMS, STREAM_S, LOOK_EVERY_S = 32, 600.0, 0.5  # of server-sent events: how many at once, how long at most, how often the row is looked at


def schemas() -> Schemas:
    """The report schemas of the rules in force, compiled once per version."""
    from pipeline.drafting.schemas import schemas_of

    with wiring.store().begin() as work:
        return schemas_of(work.rules.current())


def white_list() -> WhiteList | None:
    """The words that texts may name findings by under the rules in force; None where a word off the list is only flagged."""
    from pipeline.drafting.whitelist import WhiteList
    from pipeline.rules.terms import listed_terms, off_list

    tries = settings().draft.term_tries
    if not tries:
        return None
    with wiring.store().begin() as work:
        ruleset = work.rules.current()
    return WhiteList(lambda text, indication: off_list(text, ruleset, indication), listed_terms(ruleset), tries)


def serving() -> Serving:
    """The draft servers that are configured."""
    from pipeline.drafting.serving import Serving
    from pipeline.engine.checkpoint import PACKAGED

    config = settings()
    return Serving(config.sglang, config.vllm, config.served, config.served.model or config.draft.weights or PACKAGED)


@lru_cache(maxsize=1)
def generator() -> Generator:
    """What writes texts: the embedded engine alone, or the ladder of draft servers where one is configured. At a site the embedded engine is a
    rung only where its card says `live`. Raises ModelMissing."""
    from pipeline.drafting.embedded import EmbeddedDrafter
    from pipeline.drafting.ladder import Ladder
    from pipeline.drafting.preface import SchemaInPrompt
    from pipeline.drafting.serving import embedded_rung, is_live, rungs_of
    from pipeline.engine.checkpoint import PACKAGED

    config = settings()
    folder = config.draft.weights or PACKAGED
    embedded = EmbeddedDrafter(folder, config.draft.k, config.draft.max_tokens)
    if not config.draft_servers:
        return embedded

    def with_preface(served: Generator) -> Generator:
        return SchemaInPrompt(served, lambda: schemas().whole) if config.draft.schema_in_prompt else served

    last = [embedded_rung(embedded)] if config.mode == "demo" or is_live(folder) else []
    rungs = rungs_of(serving(), schemas=lambda: schemas().texts(), wrap=with_preface)
    return Ladder([*rungs, *last], again_after_s=config.served.recheck_s)


def draft_refusal() -> str | None:
    """Why nothing may be drafted now: every draft server is down or failed its self-check, and no other rung is left. None when something may."""
    from pipeline.drafting.ladder import Ladder

    if not settings().draft_servers:
        return None
    try:
        writer = generator()
    except ModelMissing as error:  # of the served model's folder
        return str(error)
    return writer.refusal() if isinstance(writer, Ladder) else None


@lru_cache(maxsize=1)
def drafting() -> Drafting:
    """What the draft task works with."""
    from pipeline.dicom.dose_headers import read_header_dose
    from pipeline.drafting.departments import asked_by
    from pipeline.drafting.sections import SectionDrafter
    from pipeline.flow.dose import Estimating
    from pipeline.flow.draft import Drafting

    room = settings().draft
    deliver_as = () if settings().deliver.folder is None else ("markdown",)
    lengths: dict[str, int] = ({} if room.k is None else {"": room.k}) | {**(room.k_by_section or {})}
    drafter = SectionDrafter(generator(), mode=room.write, max_tokens=room.max_tokens, lengths=lengths, schemas=schemas, white=white_list)
    return Drafting(
        wiring.store(),
        wiring.archive(),
        wiring.lazy_encoder(),
        drafter,
        lambda text: schemas().parse(text),
        wiring.bell(),
        wiring.site().clock,
        wiring.site().retry,
        settings().mode,
        room.department,
        deliver_as,
        Estimating(wiring.store(), wiring.archive(), read_header_dose),
        lambda service: asked_by(service, room.services),
        wiring.claims(Step.DRAFT),
    )


def api() -> Api:
    """What the HTTP API works with."""
    from contextlib import AbstractContextManager

    import anyio

    from pipeline.drafting.schema import SECTIONS
    from pipeline.export.markdown import draft_markdown
    from pipeline.model import DEPARTMENTS
    from pipeline.ports import Work
    from pipeline.web.api import Api
    from pipeline.web.asking import Choices
    from pipeline.web.events import Streams

    def begin() -> AbstractContextManager[Work]:
        return wiring.store().begin()

    async def tick() -> None:
        await anyio.sleep(LOOK_EVERY_S)

    choices = Choices(tuple(DEPARTMENTS), SECTIONS, settings().draft.department)
    streams = Streams(STREAMS, round(STREAM_S / LOOK_EVERY_S), tick)
    return Api(begin, wiring.bell, api_token(settings()), choices, draft_markdown, streams)


def api_token(config: Settings) -> str | None:
    """The bearer token: as set, else the one that an embedded stack has made in its data folder; None where there is none."""
    if config.web.token is not None:
        return config.web.token.get_secret_value()
    file = config.site.data / API_TOKEN
    return (file.read_text(encoding="ascii").strip() or None) if file.is_file() else None


def warm(kind: str) -> None:
    """Load the model, and compile the report schemas, before the first task. What is missing is logged: each job then says so itself."""
    try:
        if kind == "encode":
            wiring.image_encoder()
        elif kind == "draft":
            schemas()
            _ = drafting().drafter.phantom_only
            if (reason := draft_refusal()) is not None:
                logger.error("draft_refused", reason=reason)
    except ModelMissing as error:
        logger.error("model_missing", reason=str(error))
    except (ServiceUnavailable, BadInput) as error:  # no database yet, or words in the lexicon that no schema can hold
        logger.error("not_warmed", reason=str(error))
