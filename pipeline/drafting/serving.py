"""Draft servers by settings: which there are, how each is proved, and the rungs that they make."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pipeline.drafting.generator import Generator
from pipeline.drafting.ladder import Rung
from pipeline.drafting.projector import projector_of
from pipeline.drafting.reference import probes, reference_of
from pipeline.drafting.schema import ADVICE, IMPRESSION, SECTIONS, schema_text, section_schema
from pipeline.drafting.selfcheck import Checkup, Peer, look_over, refuse, tokens_of
from pipeline.drafting.served import ServedGenerator
from pipeline.drafting.served_model import ServedModel
from pipeline.drafting.server import Server
from pipeline.drafting.sglang import PLAIN_RUNG, SglangServer
from pipeline.drafting.sglang import RUNG as SGLANG
from pipeline.drafting.vllm import RUNG as VLLM
from pipeline.drafting.vllm import VllmServer
from pipeline.drafting.wire import Address, Limits, Wire
from pipeline.errors import ModelMissing, ServiceUnavailable
from pipeline.model import LIVE
from pipeline.settings import ServedSettings, SglangSettings, VllmSettings

TEXT_RUNG = "sglang-text"
TEXTS = frozenset({IMPRESSION, ADVICE})  # what the second server is preferred for
Schemas = Callable[[], Iterable[str]]
Wrap = Callable[[Generator], Generator]


@dataclass(frozen=True)
class Serving:
    """All that is configured of draft servers."""

    sglang: SglangSettings
    vllm: VllmSettings
    served: ServedSettings
    folder: Path  # of the checkpoint that they serve: config, tokenizer, card


def packaged_schemas() -> tuple[str, ...]:
    """Every schema that a text is asked under, as the strings that servers cache by."""
    return (schema_text(), *(section_schema(section) for section in SECTIONS))


def served_generators(serving: Serving) -> dict[str, ServedGenerator]:
    """Each configured server under the name of its rung, best first. Nothing is asked yet. Raises ModelMissing for a folder that does not fit."""
    model = ServedModel.read(serving.folder, serving.served.digest or "")
    urls = {SGLANG: serving.sglang.url, TEXT_RUNG: serving.sglang.text_url, PLAIN_RUNG: serving.sglang.plain_url, VLLM: serving.vllm.url}
    return {name: ServedGenerator(server_of(serving, model, name, url), model) for name, url in urls.items() if url}


def server_of(serving: Serving, model: ServedModel, name: str, url: str) -> Server:
    """One server of the kind that the rung's name says."""
    room, setting = serving.served, f"CTREPORT_{name.upper().replace('-', '_')}_URL"
    key = (serving.vllm if name == VLLM else serving.sglang).api_key
    address = Address(url, key.get_secret_value() if key else "", setting, room.ca)
    wire = Wire(address, limits_of(room))
    if name == VLLM:
        return VllmServer(wire, model.eos_id, projector_of(serving.folder))
    return SglangServer(wire, model.eos_id, plain=name == PLAIN_RUNG)


def limits_of(room: ServedSettings) -> Limits:
    """The settings' times."""
    return Limits(room.connect_timeout_s, room.first_token_timeout_s, room.timeout_s, room.retries, room.concurrency)


def rungs_of(serving: Serving, *, schemas: Schemas = packaged_schemas, wrap: Wrap = lambda generator: generator) -> list[Rung]:
    """A rung for each server, best first. `schemas` are warmed up after a server was proved; `wrap` goes around each generator."""
    served = served_generators(serving)

    def rung(name: str) -> Rung:
        one = served[name]
        return Rung(name, wrap(one), lambda: prove(name, served, serving.served.max_gap, schemas), lambda: one.k, SECTIONS_OF.get(name, frozenset()))

    return [rung(name) for name in served]


SECTIONS_OF: Mapping[str, frozenset[str]] = {TEXT_RUNG: TEXTS}


def embedded_rung(generator: Generator) -> Rung:
    """The embedded engine as the last rung: there is nothing to prove."""
    return Rung("embedded", generator, lambda: None)


def prove(name: str, served: Mapping[str, ServedGenerator], max_gap: float, schemas: Schemas = tuple) -> None:
    """The self-check of one server, then one token under each schema, so that no draft waits for a grammar to be compiled. Raises
    ServiceUnavailable or ModelMissing with the sentence that says what is wrong."""
    refuse(checkup(name, served, max_gap))
    one = served[name]
    info, (words, *_) = one.info(), probes(one.model.feature_dim)
    for schema in schemas():
        one.server.ask(one.model.question(words.prompt, None, schema, 1), info)


def checkup(name: str, served: Mapping[str, ServedGenerator], max_gap: float) -> Checkup:
    """What the self-check finds of one server. Raises ServiceUnavailable when it does not answer."""
    return look_over(served[name], lambda: peer_of(name, served), max_gap, alone=name == PLAIN_RUNG)


def peer_of(name: str, served: Mapping[str, ServedGenerator]) -> Peer | None:
    """Whose tokens a server must write: those of the server without MTP, else of the reference."""
    one = served[name]
    if name != PLAIN_RUNG and PLAIN_RUNG in served:
        try:
            return "the server without MTP", tokens_of(served[PLAIN_RUNG])
        except (ServiceUnavailable, ModelMissing):
            pass  # the reference can stand in for it
    reference = reference_of(one.model.folder, one.model.digest)
    return None if reference is None else ("the reference", reference)


def is_live(folder: Path) -> bool:
    """True when the checkpoint's card says `live`; a card that cannot be read says nothing."""
    try:
        card = json.loads((folder / "card.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(card, dict) and card.get("use") == LIVE


def at(serving: Serving, name: str, url: str) -> Serving:
    """The same with one rung's URL in the place of what is configured: for looking at a server before it is configured."""
    if name == VLLM:
        return replace(serving, vllm=serving.vllm.model_copy(update={"url": url}))
    field = {SGLANG: "url", TEXT_RUNG: "text_url", PLAIN_RUNG: "plain_url"}[name]
    return replace(serving, sglang=serving.sglang.model_copy(update={field: url}))
