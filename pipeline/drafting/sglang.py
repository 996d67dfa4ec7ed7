"""SGLang 0.5.23 as a draft server: `/generate` with our own prompt ids and the features as a data URI, for its external package (deploy/sglang).

Facts used here and found in its source: `meta_info` carries `weight_version`, `completion_tokens`, `finish_reason`, and with speculation
`spec_verify_ct` and `spec_correct_drafts_histogram` (index = drafts accepted in a step). Streamed chunks hold everything so far, or with
`--incremental-streaming-output` what is new.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pipeline.drafting.server import Answer, Question, ServerInfo
from pipeline.drafting.wire import Broken, Event, Events, Wire
from pipeline.errors import ModelMissing

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

RUNG, PLAIN_RUNG = "sglang", "sglang-plain"
TRIED = "0.5.23"  # several things here lean on what no API promises
TENSOR = "features"
MEDIA_TYPE = "application/x-safetensors"


def features_uri(features: NDArray[np.float32]) -> str:
    """Feature rows (N, D) as the string that travels in `image_data`: a data URI of a safetensors file with one float32 tensor, `features`."""
    from safetensors.numpy import save

    packed = base64.b64encode(save({TENSOR: features.astype("float32").copy()})).decode("ascii")
    return f"data:{MEDIA_TYPE};base64,{packed}"


class SglangServer:
    """One SGLang server, or a router in front of several that were started alike."""

    def __init__(self, wire: Wire, eos_id: int, *, plain: bool = False) -> None:
        self._wire = wire
        self._eos_id = eos_id
        self._plain = plain

    @property
    def rung(self) -> str:
        """sglang, or sglang-plain for the server that was started without MTP."""
        return PLAIN_RUNG if self._plain else RUNG

    @property
    def name(self) -> str:
        """Host and port."""
        return self._wire.address.name

    def info(self) -> ServerInfo:
        """What `/server_info` and `/model_info` say, with the flags that must be others."""
        raw, model = self._wire.get("/server_info"), self._wire.get("/model_info")
        version, k = str(raw.get("version", "?")), drafted_per_step(raw)
        return ServerInfo(
            server=f"sglang {version}",
            digest=str(model.get("weight_version") or ""),
            dtype=str(raw.get("dtype") or "?"),
            k=k,
            speculation=speculation_of(raw) if k else "",
            faults=tuple(_faults(raw, k, plain=self._plain)),
            notes=() if version == TRIED else (f"version {version} was not tried, {TRIED} was",),
        )

    def ask(self, question: Question, info: ServerInfo) -> Answer:
        """One greedy text under a JSON schema."""
        return self._wire.call("/generate", body_of(question), lambda events: self._answer(events, info))

    def _answer(self, events: Events, info: ServerInfo) -> Answer:
        chunks: list[tuple[str, Sequence[int]]] = []
        meta: Event = {}
        first = seconds = 0.0
        for at, event in events:
            _raise_told(event)
            meta = _mapping(event, "meta_info")
            chunks.append((str(event.get("text") or ""), _ids(event.get("output_ids"))))
            first, seconds = (first if any(ids for _, ids in chunks[:-1]) else at), at
        reason = meta.get("finish_reason")
        if not isinstance(reason, dict) or reason.get("type") not in ("stop", "length"):
            raise Broken("ended its answer without saying why")
        text, ids = _joined(chunks, int(meta.get("completion_tokens") or 0))
        histogram, verify_count = _accepted(meta, info.k, len(ids))
        return Answer(
            text=text,
            ids=tuple(ids[:-1] if ids and ids[-1] == self._eos_id else ids),
            ended=reason["type"] == "stop",
            histogram=histogram,
            verify_count=verify_count,
            prompt_tokens=int(meta.get("prompt_tokens") or 0),
            digest=str(meta.get("weight_version") or ""),
            first_token_s=first,
            seconds=seconds,
            gaps=_gaps(meta.get("output_top_logprobs")),
        )


def body_of(question: Question) -> dict[str, Any]:
    """The request: our ids, so that the server's template and tokenizer have no say. Ranked answers come whole, others streamed."""
    sampling: dict[str, Any] = {"temperature": question.temperature, "max_new_tokens": question.max_tokens}
    sampling |= {"json_schema": question.schema} if question.schema else {}
    sampling |= {"top_p": question.top_p} if question.temperature else {}
    sampling |= {"ignore_eos": True} if question.endless else {}
    ranked = {"return_logprob": True, "top_logprobs_num": 2} if question.ranked else {}
    images = {} if question.features is None else {"image_data": features_uri(question.features)}
    return {"input_ids": list(question.ids), "sampling_params": sampling, "stream": not question.ranked, **images, **ranked}


def drafted_per_step(raw: Event) -> int:
    """Tokens that a server drafts per step, at most; with top-k 1 one less than it verifies."""
    if not raw.get("speculative_algorithm"):
        return 0
    return int(raw.get("speculative_num_steps") or 0) or max(int(raw.get("speculative_num_draft_tokens") or 1) - 1, 0)


def speculation_of(raw: Event) -> str:
    """How it drafts, in a few words that are stored with each draft."""
    words = [str(raw["speculative_algorithm"]), f"steps {drafted_per_step(raw)}", f"top-k {raw.get('speculative_eagle_topk') or 1}"]
    return ", ".join([*words, *(["adaptive"] if raw.get("speculative_adaptive") else [])])


def _faults(raw: Event, k: int, *, plain: bool) -> list[str]:
    """Sentences on flags that break what is promised."""
    found = []
    if not raw.get("constrained_json_disable_any_whitespace"):
        found.append("it may write whitespace without end; start it with --constrained-json-disable-any-whitespace")
    if (topk := raw.get("speculative_eagle_topk")) and k and int(topk) != 1:
        found.append(f"it drafts trees (top-k {topk}); start it with --speculative-eagle-topk 1")
    if plain and k:
        found.append("it is the server without MTP and drafts all the same; start it without --speculative-algorithm")
    if not plain and not k:
        found.append("it drafts nothing; start it with --speculative-algorithm NEXTN")
    return found


def _raise_told(event: Event) -> None:
    """An error that came as an event. Its message may repeat a prompt: only its code is told."""
    error = event.get("error")
    if error is None:
        return
    code = error.get("code") if isinstance(error, dict) else None
    if isinstance(code, int) and 400 <= code < 500:
        raise ModelMissing(f"the draft server refused a request with code {code}; run `ctreport model check --server` to see what does not fit")
    raise Broken("broke off its answer with an error")


def _joined(chunks: Sequence[tuple[str, Sequence[int]]], tokens: int) -> tuple[str, Sequence[int]]:
    """Text and ids of a stream whose chunks hold everything so far, or only what is new. Raises Broken when tokens are missing."""
    text, ids = chunks[-1]
    if len(ids) == tokens:
        return text, ids
    every = [token for _, part in chunks for token in part]
    if len(every) != tokens:
        raise Broken("sent another number of tokens than it counts")
    return "".join(part for part, _ in chunks), every


def _accepted(meta: Event, k: int, tokens: int) -> tuple[tuple[int, ...], int]:
    """The histogram, as wide as the drafts, and how many steps verified. A server that drafts none writes one token a step."""
    if not k:
        return (tokens,), tokens
    told = meta.get("spec_correct_drafts_histogram")
    counts = [int(count) for count in told] if isinstance(told, list) else []
    steps = int(meta.get("spec_verify_ct") or sum(counts))
    return tuple(counts + [0] * (k + 1 - len(counts))) if counts else (), steps


def _gaps(told: object) -> tuple[float, ...]:
    """Entries are [[log-probability, id, text], …], the likeliest first."""
    if not isinstance(told, list):
        return ()
    pairs = [sorted((float(one[0]) for one in entry), reverse=True) for entry in told if entry]
    return tuple(pair[0] - pair[1] if len(pair) > 1 else float("inf") for pair in pairs)


def _mapping(event: Event, key: str) -> Mapping[str, Any]:
    value = event.get(key)
    if not isinstance(value, dict):
        raise Broken(f"sent an answer without {key}")
    return value


def _ids(value: object) -> Sequence[int]:
    if not isinstance(value, list) or not all(isinstance(one, int) for one in value):
        raise Broken("sent an answer without its token ids")
    return value
