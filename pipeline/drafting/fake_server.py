"""The shipped fake draft server: real HTTP on the loopback, SGLang's and vLLM's interfaces, and answers by script, among them the bad ones.

Without a script it writes the shortest valid answer for each schema. It reads no features; it only sees that they came.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from pipeline.drafting.schema import dumps
from pipeline.drafting.served_model import ServedModel

LOOPBACK = "127.0.0.1"


class Trouble(StrEnum):
    """What goes wrong with one answer."""

    HANG = "hang"  # nothing is said until the server closes
    HANG_LATER = "hang-later"  # nor after the first tokens
    DRIP = "drip"  # comments for ever, never a token
    ERROR = "error"  # 500
    BUSY = "busy"  # 503
    REFUSED = "refused"  # 400
    DIES = "dies"  # the connection breaks in mid-answer
    TRUNCATED = "truncated"  # half a text, as if it had ended
    CUT = "cut"  # half a text, cut at its length
    GARBAGE = "garbage"  # a chunk that is not JSON
    ODD = "odd"  # a chunk of another shape
    SHORT = "short"  # fewer tokens than it counts
    NO_HISTOGRAM = "no-histogram"
    OTHER_WEIGHTS = "other-weights"
    EVENT_ERROR = "event-error"  # an error inside the stream


@dataclass
class Script:
    """How a fake server behaves. `troubles` go to the next generations, one each; None lets one through."""

    k: int = 3  # tokens drafted per step; 0: no speculation
    version: str = "0.5.23"
    dtype: str = "float32"
    key: str = ""
    digest: str = ""  # empty: the model's
    any_whitespace: bool = False
    incremental: bool = False
    answers: Callable[[Mapping[str, Any], Sequence[int]], str | Sequence[int]] | None = None  # schema, prompt ids → text or its ids
    troubles: deque[Trouble | None] = field(default_factory=deque)


class FakeServer:
    """One server on a free port or a given one, from `with` to its end. `asked` are the bodies that came."""

    def __init__(self, model: ServedModel, script: Script | None = None, port: int = 0) -> None:
        self.model = model
        self.script = script or Script()
        self.asked: list[Mapping[str, Any]] = []
        self.closing = threading.Event()
        self._http = ThreadingHTTPServer((LOOPBACK, port), _handler_of(self))
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, name="fake-draft-server", daemon=True)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://{LOOPBACK}:{self._http.server_port}"

    @property
    def digest(self) -> str:
        """The weights that it says it serves."""
        return self.script.digest or self.model.digest

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.closing.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join(timeout=5)

    def next_trouble(self) -> Trouble | None:
        """What goes wrong with the next generation."""
        return self.script.troubles.popleft() if self.script.troubles else None

    def write(self, schema: Mapping[str, Any], prompt_ids: Sequence[int]) -> Sequence[int]:
        """The answer's ids."""
        answer = self.script.answers(schema, prompt_ids) if self.script.answers else dumps(shortest(schema))
        return self.model.encode(answer) if isinstance(answer, str) else answer


def shortest(schema: Mapping[str, Any]) -> Any:
    """The shortest value that a report's schema allows; texts are one full stop."""
    if "enum" in schema:
        return schema["enum"][0]
    plain: dict[str, Any] = {"array": [], "string": "。", "integer": schema.get("minimum", 0), "null": None}
    kind = schema["type"]
    if kind == "object":
        return {name: shortest(part) for name, part in schema["properties"].items()}
    return plain[kind[0] if isinstance(kind, list) else kind]


@dataclass(frozen=True, slots=True)
class _Written:
    """One answer in steps of up to k + 1 tokens."""

    ids: tuple[int, ...]
    text: str
    steps: tuple[int, ...]  # tokens of each step
    ended: bool
    prompt_tokens: int
    digest: str
    k: int
    histogram: bool

    @property
    def counts(self) -> list[int]:
        """The acceptance histogram."""
        return [sum(step == size + 1 for step in self.steps) for size in range(self.k + 1)]


def _written(
    server: FakeServer, schema: Mapping[str, Any], prompt_ids: Sequence[int], prompt_tokens: int, most: int, trouble: Trouble | None
) -> _Written:
    ids = list(server.write(schema, prompt_ids))
    if trouble in (Trouble.TRUNCATED, Trouble.CUT):
        ids = ids[: max(len(ids) // 2, 1)]
    cut = trouble is Trouble.CUT or len(ids) > most
    ids = ids[:most]
    text = str(server.model.tokenizer.decode(ids, skip_special_tokens=False))
    size = server.script.k + 1
    steps = tuple(min(size, len(ids) - start) for start in range(0, len(ids), size))
    digest = "0" * 64 if trouble is Trouble.OTHER_WEIGHTS else server.digest
    return _Written(tuple(ids), text, steps, not cut, prompt_tokens, digest, server.script.k, trouble is not Trouble.NO_HISTOGRAM)


def _sglang_chunks(made: _Written, *, incremental: bool) -> Iterator[dict[str, Any]]:
    """`/generate` as SGLang streams it: everything so far, or what is new."""
    done = 0
    for step in made.steps:
        start, done = done, done + step
        shown = made.ids[start:done] if incremental else made.ids[:done]
        last = done == len(made.ids)
        meta: dict[str, Any] = {"weight_version": made.digest, "prompt_tokens": made.prompt_tokens, "completion_tokens": done, "finish_reason": None}
        if last:
            meta["finish_reason"] = {"type": "stop" if made.ended else "length"}
            if made.k and made.histogram:
                meta |= {"spec_verify_ct": len(made.steps), "spec_correct_drafts_histogram": made.counts}
        whole = made.text if last and not incremental else ""
        yield {"text": whole or _part(made, done, incremental=incremental, last=last), "output_ids": list(shown), "meta_info": meta}


def _part(made: _Written, done: int, *, incremental: bool, last: bool) -> str:
    """Text comes in pieces of its length: the fake has no detokenizer that waits for whole characters."""
    end = len(made.text) if last else len(made.text) * done // len(made.ids)
    start = len(made.text) * (done - made.steps[_index(made, done)]) // len(made.ids) if incremental else 0
    return made.text[start:end]


def _index(made: _Written, done: int) -> int:
    """Which step ends at so many tokens."""
    total = 0
    for index, step in enumerate(made.steps):
        total += step
        if total == done:
            return index
    return len(made.steps) - 1


def _vllm_chunks(made: _Written) -> Iterator[dict[str, Any]]:
    """Chat as vLLM streams it, the usage with its figures last."""
    done = 0
    for step in made.steps:
        start, done = done, done + step
        last = done == len(made.ids)
        delta = {"content": _part(made, done, incremental=True, last=last)}
        reason = ("stop" if made.ended else "length") if last else None
        yield {"model": made.digest, "choices": [{"index": 0, "delta": delta, "token_ids": list(made.ids[start:done]), "finish_reason": reason}]}
    usage = {"prompt_tokens": made.prompt_tokens, "completion_tokens": len(made.ids)}
    spoken = {"acceptance_histogram": made.counts, "num_spec_steps": len(made.steps)}
    metrics = {"metrics": {"speculative_decoding": spoken}} if made.k and made.histogram else {}
    yield {"model": made.digest, "choices": [], "usage": usage, **metrics}


class _Dead(Exception):
    """The connection ends here."""


def _handler_of(server: FakeServer) -> type[BaseHTTPRequestHandler]:
    class Handler(_Handler):
        fake = server

    return Handler


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    fake: FakeServer

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is logged: a request holds a prompt."""

    def do_GET(self) -> None:
        """What the server says about itself."""
        if not self._known():
            return
        fake, script = self.fake, self.fake.script
        speculation = {"speculative_algorithm": "NEXTN", "speculative_num_steps": script.k, "speculative_eagle_topk": 1} if script.k else {}
        flags = {"constrained_json_disable_any_whitespace": not script.any_whitespace, "incremental_streaming_output": script.incremental}
        pages: dict[str, dict[str, Any]] = {
            "/health": {},
            "/server_info": {"version": script.version, "dtype": script.dtype, **flags, **speculation},
            "/model_info": {"weight_version": fake.digest},
            "/version": {"version": script.version},
            "/v1/models": {"data": [{"id": fake.digest}]},
        }
        self._json(200 if self.path in pages else 404, pages.get(self.path, {}))

    def do_POST(self) -> None:
        """One generation, or what goes wrong with it."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self._known():
            return
        self.fake.asked.append(body)
        trouble = self.fake.next_trouble()
        codes = {Trouble.ERROR: 500, Trouble.BUSY: 503, Trouble.REFUSED: 400}
        if trouble is Trouble.HANG:
            self._wait()
        elif trouble in codes:
            self._json(codes[trouble], {"error": "scripted"})
        else:
            self._generate(body, trouble)

    def _generate(self, body: Mapping[str, Any], trouble: Trouble | None) -> None:
        chunks = list(self._chunks(body, trouble))
        if not body["stream"]:
            self._json(200, chunks[-1])
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        try:
            for line in _spoilt(chunks, trouble):
                self.wfile.write(line)
                self.wfile.flush()
            if trouble in (Trouble.HANG_LATER, Trouble.DRIP):
                self._wait(drip=trouble is Trouble.DRIP)
        except OSError:
            pass  # the client has gone

    def _chunks(self, body: Mapping[str, Any], trouble: Trouble | None) -> Iterator[dict[str, Any]]:
        if self.path == "/generate":
            ids, sampling = body["input_ids"], body["sampling_params"]
            made = _written(self.fake, json.loads(sampling["json_schema"]), ids, len(ids), sampling["max_new_tokens"], trouble)
            return _sglang_chunks(made, incremental=self.fake.script.incremental)
        read = [self._read(message["content"]) for message in body["messages"]]
        made = _written(self.fake, body["structured_outputs"]["json"], [], sum(read), body["max_tokens"], trouble)
        return _vllm_chunks(made)

    def _read(self, content: Any) -> int:
        """Tokens of one message: of its text, or the rows of its embeddings."""
        if isinstance(content, str):
            return len(self.fake.model.encode(content))
        import base64
        import io

        import torch

        return int(torch.load(io.BytesIO(base64.b64decode(content[0]["data"])), weights_only=True).shape[0])

    def _wait(self, *, drip: bool = False) -> None:
        """Until the server closes or the client does."""
        while not self.fake.closing.wait(0.02):
            if drip:
                self.wfile.write(b": still here\n")
                self.wfile.flush()
        self.close_connection = True

    def _known(self) -> bool:
        """Answers 401 to a caller without the key."""
        key = self.fake.script.key
        if not key or self.headers.get("Authorization") == f"Bearer {key}":
            return True
        self._json(401, {"error": "Unauthorized"})
        return False

    def _json(self, code: int, value: Mapping[str, Any]) -> None:
        raw = json.dumps(value).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)


def _spoilt(chunks: Sequence[dict[str, Any]], trouble: Trouble | None) -> Iterator[bytes]:
    """The stream's lines, as far as nothing goes wrong."""
    middle = max(len(chunks) // 2, 1)
    stops = (Trouble.DIES, Trouble.GARBAGE, Trouble.ODD, Trouble.HANG_LATER, Trouble.DRIP, Trouble.EVENT_ERROR)
    for chunk in chunks[:middle] if trouble in stops else chunks:
        if trouble is Trouble.SHORT:
            chunk = _shortened(chunk)
        yield b"data: " + json.dumps(chunk, ensure_ascii=False).encode() + b"\n\n"
    extra = {
        Trouble.GARBAGE: b"data: {]\n\n",
        Trouble.ODD: b'data: {"meta_info": 5, "choices": 7}\n\n',
        Trouble.DIES: b'data: {"text": "',
        Trouble.EVENT_ERROR: b'data: {"error": {"message": "scripted", "code": 500}}\n\n',
    }
    if trouble in stops:
        yield extra.get(trouble, b"") if trouble is not None else b""
    else:
        yield b"data: [DONE]\n\n"


def _shortened(chunk: dict[str, Any]) -> dict[str, Any]:
    """One token fewer than it counts."""
    if "output_ids" in chunk:
        return chunk | {"output_ids": chunk["output_ids"][:-1]}
    return chunk | {"choices": [choice | {"token_ids": choice["token_ids"][:-1]} for choice in chunk["choices"]]}
