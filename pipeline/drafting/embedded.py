"""The embedded engine as a generator of texts and as a drafter of whole reports: loaded once, one text at a time."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.drafting.generator import Ask, Generated
from pipeline.drafting.prompt import render
from pipeline.drafting.schema import schema_text
from pipeline.engine.policy import Policy
from pipeline.errors import BadDraft, ModelMissing
from pipeline.model import LIVE, DraftAnswer, DraftSource, Features, Generation

if TYPE_CHECKING:
    from pipeline.engine.generate import Engine

RUNG = "embedded"


class EmbeddedDrafter:
    """Drafts with the DeepSeek-architecture model of one checkpoint folder.

    `k` tokens are drafted per step (None: as many as pay, by MTP or lookup); `plain`: no drafts and no jumps. The text is the same.
    """

    def __init__(self, folder: Path, k: int | None, max_tokens: int, *, plain: bool = False) -> None:
        self._folder = folder
        self._policy = Policy.plain() if plain else Policy.default() if k is None else Policy.fixed(k)
        self._k = 0 if plain else k
        self._max_tokens = max_tokens
        self._lock = threading.Lock()
        self._loaded: Engine | None = None

    @property
    def phantom_only(self) -> bool:
        """True unless the model's card says `live`: phantom-only, test-only and candidate models write no real study's draft."""
        with self._lock:
            return self._engine().card.get("use") != LIVE

    def generate(self, ask: Ask, features: Features) -> Generated:
        """Greedy text of one ask; the draft length changes how fast it comes, never what it says. Raises ModelMissing or BadInput."""
        with self._lock:
            engine = self._fitting(features)
            policy = self._policy if ask.k is None else _policy(ask.k)
            made = engine.generate(ask.prompt, features.array, schema=ask.schema, policy=policy, max_tokens=ask.max_tokens, prior=ask.prior)
            source = self._source(engine)
        lengths = dict(ask.k) if isinstance(ask.k, Mapping) else {}
        generation = replace(made.generation, k=ask.k if isinstance(ask.k, int) else self._k, lengths=lengths)
        return Generated(made.text, generation, source, made.stop != "length")

    def draft(self, features: Features, indication: str, department: str) -> DraftAnswer:
        """A whole report in one call: greedy JSON under the report schema. Raises ModelMissing, NotAllowed, BadInput or BadDraft (cut at
        max_tokens)."""
        with self._lock:
            engine, prompt = self._ready(features, indication, department)
            made = engine.generate(prompt, features.array, schema=schema_text(), policy=self._policy, max_tokens=self._max_tokens)
            source = self._source(engine)
        self._whole(made.stop)
        return DraftAnswer(made.text, made.generation, source)

    def search(self, features: Features, indication: str, department: str, width: int) -> tuple[DraftAnswer, float]:
        """The best report that a beam search of `width` branches finds, and its log-probability per token. Raises as `draft`."""
        from pipeline.engine.beam import beam_search

        with self._lock:
            engine, prompt = self._ready(features, indication, department)
            made = beam_search(engine, prompt, features.array, schema_text(), width, max_tokens=self._max_tokens)
            source = self._source(engine)
        self._whole(made.stop)
        return DraftAnswer(made.text, Generation(len(made.ids), made.forwards, (), made.seconds), source), made.score

    def _ready(self, features: Features, indication: str, department: str) -> tuple[Engine, str]:
        """The engine and the prompt, after they were found to fit the features. The caller holds the lock."""
        prompt = render(indication, features.array.shape[0], department)  # features.array: (N, D)
        return self._fitting(features), prompt

    def _fitting(self, features: Features) -> Engine:
        """The engine, after it was found to fit the features. The caller holds the lock."""
        engine = self._engine()
        _check_width(features, engine.config.ct_feature_dim, engine.config.hidden_size, self._name(engine))
        return engine

    def _whole(self, stop: str) -> None:
        """BadDraft when the answer was cut."""
        if stop == "length":
            raise BadDraft(
                f"the model's answer was cut at {self._max_tokens} tokens and is no whole report; "
                "raise CTREPORT_DRAFT_MAX_TOKENS, then `ctreport retry`"
            )

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


def _policy(k: int | Mapping[str, int]) -> Policy:
    """MTP alone with the asked length, everywhere or by section."""
    return Policy.fixed(k) if isinstance(k, int) else Policy(k=k)


def _check_width(features: Features, columns: int, hidden: int, model: str) -> None:
    """Encoder, projector and language model must fit, before anything is decoded."""
    if features.array.shape[1] != columns:
        raise ModelMissing(
            f"encoder '{features.encoder}' gives features of {features.array.shape[1]} columns, the projector of model '{model}' takes {columns} and "
            f"gives {hidden} (its hidden size); set CTREPORT_ENCODER_NAME and CTREPORT_DRAFT_WEIGHTS to a pair that was trained together, "
            "then `ctreport retry`"
        )
