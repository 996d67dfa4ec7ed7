"""The embedded engine as a drafter: loaded once, one text at a time."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.drafting.prompt import render
from pipeline.drafting.schema import schema_text
from pipeline.errors import BadDraft, ModelMissing, NotAllowed
from pipeline.model import LIVE, DraftAnswer, DraftSource, Features

if TYPE_CHECKING:
    from pipeline.engine.generate import Engine

RUNG = "embedded"
DEPARTMENTS = ("radiology",)


class EmbeddedDrafter:
    """Drafts with the DeepSeek-architecture model of one checkpoint folder; `k` tokens drafted per step."""

    def __init__(self, folder: Path, k: int, max_tokens: int) -> None:
        self._folder = folder
        self._k = k
        self._max_tokens = max_tokens
        self._lock = threading.Lock()
        self._loaded: Engine | None = None

    @property
    def phantom_only(self) -> bool:
        """True unless the model's card says `live`: phantom-only, test-only and candidate models write no real study's draft."""
        with self._lock:
            return self._engine().card.get("use") != LIVE

    def draft(self, features: Features, indication: str, department: str) -> DraftAnswer:
        """Greedy JSON under the report schema. Raises ModelMissing, NotAllowed, BadInput or BadDraft (cut at max_tokens)."""
        if department not in DEPARTMENTS:
            raise NotAllowed(f"no model here writes for this department; set CTREPORT_DRAFT_DEPARTMENT to one of {', '.join(DEPARTMENTS)}")
        prompt = render(indication, features.array.shape[0])  # features.array: (N, D)
        with self._lock:
            engine = self._engine()
            _check_width(features, engine.config.ct_feature_dim, engine.config.hidden_size, self._name(engine))
            made = engine.generate(prompt, features.array, schema=schema_text(), k=self._k, max_tokens=self._max_tokens)
            source = self._source(engine)
        if made.stop == "length":
            raise BadDraft(
                f"the model's answer was cut at {self._max_tokens} tokens and is no whole report; "
                "raise CTREPORT_DRAFT_MAX_TOKENS, then `ctreport retry`"
            )
        return DraftAnswer(made.text, made.generation, source)

    def _engine(self) -> Engine:
        """The engine, loaded at the first call. The caller holds the lock."""
        if self._loaded is None:
            if not self._folder.is_dir():
                raise ModelMissing(
                    f"the model folder '{self._folder.name}' does not exist; set CTREPORT_DRAFT_WEIGHTS to a checkpoint folder "
                    "or run `ctreport train`, then `ctreport retry`"
                )
            from pipeline.engine.generate import Engine  # torch is loaded only by the process that drafts

            self._loaded = Engine.load(self._folder)
        return self._loaded

    def _source(self, engine: Engine) -> DraftSource:
        return DraftSource(RUNG, self._name(engine), engine.digest, engine.card.get("use") != LIVE)

    def _name(self, engine: Engine) -> str:
        return str(engine.card.get("name") or self._folder.name)


def _check_width(features: Features, columns: int, hidden: int, model: str) -> None:
    """Encoder, projector and language model must fit, before anything is decoded."""
    if features.array.shape[1] != columns:
        raise ModelMissing(
            f"encoder '{features.encoder}' gives features of {features.array.shape[1]} columns, the projector of model '{model}' takes {columns} and "
            f"gives {hidden} (its hidden size); set CTREPORT_ENCODER_NAME and CTREPORT_DRAFT_WEIGHTS to a pair that was trained together, "
            "then `ctreport retry`"
        )
