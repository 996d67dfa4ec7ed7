"""vLLM 0.32 as a draft server: chat with a `prompt_embeds` part, which is its mixed form over HTTP and the one that works with MTP.

The three messages (text, embeddings, text) become our prompt again where the chat template puts contents behind each other, as the packaged
tokenizer_config.json and deploy/vllm's template do. The projector runs here: vLLM takes rows of its hidden size. Per-request speculation figures
need `--per-request-spec-decode-metrics summary`, the JSON's form `--structured-outputs-config` with backend guidance; the digest is the served
model's name (`--served-model-name DIGEST`).
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pipeline.drafting.server import Answer, Question, ServerInfo
from pipeline.drafting.wire import Broken, Event, Events, Wire
from pipeline.errors import ModelMissing

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Project = Callable[[NDArray[np.float32]], NDArray[np.float32]]  # (N, D) → (N, hidden)

RUNG = "vllm"
TRIED = "0.32.0"
SEPARATORS = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}


class VllmServer:
    """One vLLM server."""

    def __init__(self, wire: Wire, eos_id: int, project: Project) -> None:
        self._wire = wire
        self._eos_id = eos_id
        self._project = project

    @property
    def rung(self) -> str:
        """vllm."""
        return RUNG

    @property
    def name(self) -> str:
        """Host and port."""
        return self._wire.address.name

    def info(self) -> ServerInfo:
        """What `/version` and `/v1/models` say. How it drafts is only told with an answer; k here is −1, not known."""
        version, models = str(self._wire.get("/version").get("version", "?")), self._wire.get("/v1/models").get("data")
        served = [str(one.get("id")) for one in models if isinstance(one, dict)] if isinstance(models, list) else []
        if not served:
            raise ModelMissing(f"draft server {self.name} serves no model; start it as deploy/vllm says")
        notes = () if version.startswith(TRIED) else (f"version {version} was not tried, {TRIED} was",)
        return ServerInfo(f"vllm {version}", served[0], "?", -1, "mtp", (), notes)

    def ask(self, question: Question, info: ServerInfo) -> Answer:
        """One greedy text under a JSON schema."""
        return self._wire.call("/v1/chat/completions", self._body(question, info.digest), self._answer)

    def _body(self, question: Question, model: str) -> dict[str, Any]:
        parts: list[Any] = [question.head]
        if question.features is not None:
            parts += [[{"type": "prompt_embeds", "data": packed(self._project(question.features))}], question.tail]
        return {
            "model": model,
            "messages": [{"role": "user", "content": part} for part in parts],
            "add_generation_prompt": False,
            "temperature": question.temperature,
            "max_tokens": question.max_tokens,
            **({"structured_outputs": {"json": with_separators(question.schema)}} if question.schema else {}),
            **({"top_p": question.top_p} if question.temperature else {}),
            **({"ignore_eos": True} if question.endless else {}),
            "stream": True,
            "stream_options": {"include_usage": True},
            "return_token_ids": True,
            **({"logprobs": True, "top_logprobs": 2} if question.ranked else {}),
        }

    def _answer(self, events: Events) -> Answer:
        text, ids, gaps = [], list[int](), list[float]()
        first = seconds = 0.0
        reason, last = None, dict[str, Any]()
        for at, event in events:
            if "error" in event:
                raise Broken("broke off its answer with an error")
            seconds, last = at, dict(event)
            for choice in event.get("choices") or ():
                new = [int(token) for token in choice.get("token_ids") or ()]
                first = at if new and not ids else first
                ids += new
                text.append(str((choice.get("delta") or {}).get("content") or ""))
                gaps += _gaps(choice.get("logprobs"))
                reason = choice.get("finish_reason") or reason
        usage = last.get("usage") or {}
        if reason not in ("stop", "length") or not usage:
            raise Broken("ended its answer without saying why")
        if int(usage["completion_tokens"]) != len(ids):
            raise Broken("sent another number of tokens than it counts")
        histogram, steps = _accepted(last, len(ids))
        return Answer(
            text="".join(text),
            ids=tuple(ids[:-1] if ids and ids[-1] == self._eos_id else ids),
            ended=reason == "stop",
            histogram=histogram,
            verify_count=steps,
            prompt_tokens=int(usage["prompt_tokens"]),
            digest=str(last.get("model") or ""),
            first_token_s=first,
            seconds=seconds,
            gaps=tuple(gaps),
        )


def with_separators(schema: str) -> dict[str, Any]:
    """A schema that also says how its JSON is written: `", "` and `": "`, as models are trained to. vLLM's xgrammar back-end allows no white space at
    all once it is told to allow none at will; its llguidance back-end reads this key (`--structured-outputs-config` with backend guidance)."""
    value: dict[str, Any] = json.loads(schema)
    return {**value, "x-guidance": SEPARATORS}


def packed(rows: NDArray[np.float32]) -> str:
    """Rows (N, hidden) as `torch.save` writes them, in base64: what vLLM reads, weights only."""
    import torch

    buffer = io.BytesIO()
    torch.save(torch.from_numpy(rows.copy()), buffer)
    return base64.b64encode(buffer.getvalue()).decode("ascii")


def _accepted(last: Event, tokens: int) -> tuple[tuple[int, ...], int]:
    """The histogram of the last chunk's figures, and the steps: each writes one token beside those it accepts. vLLM's own count leaves out steps
    whose drafts the grammar had struck out. Without figures nobody told, and the steps are not known either."""
    told = (last.get("metrics") or {}).get("speculative_decoding")
    if not told:
        return (), tokens
    counts = tuple(int(count) for count in told["acceptance_histogram"])
    return counts, tokens - sum(accepted * steps for accepted, steps in enumerate(counts))


def _gaps(told: object) -> list[float]:
    if not isinstance(told, dict):
        return []
    tops = [sorted((float(one["logprob"]) for one in entry["top_logprobs"]), reverse=True) for entry in told.get("content") or ()]
    return [top[0] - top[1] if len(top) > 1 else float("inf") for top in tops]
