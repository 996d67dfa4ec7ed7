"""A draft server as a Generator: asks become ids, answers carry their source, and other weights than the configured are refused each time."""

from __future__ import annotations

import threading

from pipeline.drafting.generator import Ask, Generated
from pipeline.drafting.served_model import ServedModel
from pipeline.drafting.server import Answer, Server, ServerInfo
from pipeline.errors import ModelMissing
from pipeline.model import DraftSource, Features, Generation


class ServedGenerator:
    """Writes with one server. It asks how the server was started once, and again after `forget`."""

    def __init__(self, server: Server, model: ServedModel) -> None:
        self.server = server
        self.model = model
        self._lock = threading.Lock()
        self._info: ServerInfo | None = None

    @property
    def phantom_only(self) -> bool:
        """By the card of the served model's folder."""
        return self.model.phantom_only

    @property
    def k(self) -> int | None:
        """Tokens that the server drafts per step, at most; None: nobody has asked it yet, or it does not say."""
        return self._info.k if self._info is not None and self._info.k >= 0 else None

    def info(self) -> ServerInfo:
        """How the server was started. Raises ServiceUnavailable or ModelMissing."""
        with self._lock:
            if self._info is None:
                self._info = self.server.info()
            return self._info

    def forget(self) -> None:
        """Ask again next time: another server may answer at the same place."""
        with self._lock:
            self._info = None

    def generate(self, ask: Ask, features: Features) -> Generated:
        """Write one text. Raises ModelMissing, ServiceUnavailable or BadInput."""
        rows = features.array if features.array.shape[0] else None  # (N, D)
        question = self.model.question(ask.prompt, rows, ask.schema, ask.max_tokens)
        info = self.info()
        answer = self.server.ask(question, info)
        refuse_other_weights(answer.digest, self.model.digest, self.server.name)
        return Generated(answer.text, generation_of(answer, info), self._source(info), answer.ended)

    def _source(self, info: ServerInfo) -> DraftSource:
        return DraftSource(self.server.rung, self.model.name, self.model.digest, self.phantom_only, info.server, info.speculation)


def generation_of(answer: Answer, info: ServerInfo) -> Generation:
    """How an answer was made, in our words. The steps tell how much was drafted where the server does not."""
    k = info.k if info.k >= 0 else max(len(answer.histogram) - 1, 0)
    steps = (len(answer.ids), answer.verify_count, answer.histogram, answer.seconds)
    return Generation(*steps, first_token_s=answer.first_token_s, k=k)


def refuse_other_weights(told: str, wanted: str, name: str) -> None:
    """Raises ModelMissing when a server does not report the digest that is configured."""
    if told == wanted:
        return
    said = f"reports weights '{told[:12]}…'" if told else "reports no weights"
    raise ModelMissing(
        f"draft server {name} {said}, configured are '{wanted[:12]}…': start it with the digest of its folder "
        "(--weight-version, for vLLM --served-model-name), or set CTREPORT_SERVED_MODEL and CTREPORT_SERVED_DIGEST to what it serves"
    )
