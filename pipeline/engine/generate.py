"""The embedded engine: one checkpoint in memory, greedy text from a prompt and CT features, alone or in batches."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from pipeline.engine.cache import Memory
from pipeline.engine.checkpoint import Card, load
from pipeline.engine.config import ModelConfig
from pipeline.engine.controller import Controller
from pipeline.engine.costs import Costs
from pipeline.engine.counts import Counts
from pipeline.engine.decode import RESERVE, capacity, costs_of, decode
from pipeline.engine.grammar import Grammar
from pipeline.engine.lookup import Lookup
from pipeline.engine.model import Model
from pipeline.engine.network import Network
from pipeline.engine.policy import Policy
from pipeline.engine.sections import SectionWatcher, opening_section
from pipeline.engine.text import Text
from pipeline.engine.tokenizer import TextTokenizer
from pipeline.errors import BadInput
from pipeline.model import Generation

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MAX_BATCH = 16
MAX_TOKENS = 600
Stop = Literal["end", "length"]


@dataclass(frozen=True)
class Decoded:
    """One generated text: its ids without the end token, how it was made, and whether it ended or was cut."""

    text: str
    ids: tuple[int, ...]
    generation: Generation
    stop: Stop


@dataclass(frozen=True, eq=False)
class Request:
    """One text to write. `prior` is the patient's prior report and `sentences` are others like it: they speed writing up and never change it."""

    prompt: str
    features: NDArray[np.float32] | None  # (N, D), one row for each placeholder of the prompt
    schema: str | None
    max_tokens: int = MAX_TOKENS
    prior: str = ""
    sentences: Sequence[str] = ()


class Engine:
    """The embedded model of one checkpoint. Calls from several threads take turns."""

    def __init__(self, model: Model, tokenizer: TextTokenizer, card: Card, digest: str, sentences: Sequence[str] = ()) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.config: ModelConfig = model.config
        self.card = card
        self.digest = digest
        self.network = Network(model)
        self._sentences = sentences
        self._lookup: Lookup | None = None
        self._controllers: dict[int, Controller] = {}  # batch size → what was learnt
        self._memory: Memory | None = None  # of one text at a time
        self._turn = threading.Lock()

    @classmethod
    def load(cls, folder: Path, *, threads: int | None = 1) -> Engine:
        """Load a checkpoint folder (ModelMissing when it does not fit). `threads` sets torch's process-wide count; None leaves it."""
        if threads is not None:
            torch.set_num_threads(threads)
        found = load(folder)
        return cls(found.model, found.tokenizer, found.card, found.digest, found.sentences)

    def generate(
        self,
        prompt: str,
        features: NDArray[np.float32] | None,
        *,
        schema: str | None,
        k: int | None = None,
        policy: Policy | None = None,
        max_tokens: int = MAX_TOKENS,
        prior: str = "",
        sentences: Sequence[str] = (),
    ) -> Decoded:
        """Continue `prompt`, whose placeholders take the rows of `features` (N, D). The text is the same under every policy.

        `k` is short for `Policy.fixed(k)`; without either the default policy. BadInput when features and placeholders do not match,
        values are not finite, or the text does not fit the model.
        """
        chosen = policy or (Policy.default() if k is None else Policy.fixed(k))
        return self.generate_many([Request(prompt, features, schema, max_tokens, prior, sentences)], batch=1, policy=chosen)[0]

    def generate_many(self, requests: Sequence[Request], *, batch: int, policy: Policy | None = None) -> list[Decoded]:
        """Write every request's text, at most `batch` (1 … 16) at a time, in the order of the requests. Texts do not depend on the batch."""
        if not 1 <= batch <= MAX_BATCH:
            raise BadInput(f"batch size {batch} is outside 1 … {MAX_BATCH}; choose one inside")
        chosen = policy or Policy.default()
        with self._turn, torch.inference_mode():
            texts = [self.begin(request, chosen) for request in requests]
            done = self._write(texts, min(batch, max(len(texts), 1)), chosen)
        return [done[id(text)] for text in texts]

    def prepared(self, prompt: str, features: NDArray[np.float32] | None, max_tokens: int, reserve: int = RESERVE) -> tuple[list[int], Tensor | None]:
        """Ids of a prompt and its features (1, N, D), after they were compared; `reserve` positions are kept free behind the text."""
        ids = self.tokenizer.encode(prompt)
        rows = self._features(ids, features)
        room = self.config.max_position_embeddings - reserve
        if not ids or max_tokens < 1 or len(ids) + max_tokens > room:
            raise BadInput(f"a prompt of {len(ids)} tokens and {max_tokens} new ones must fit into {room}; shorten the prompt or max_tokens")
        return ids, rows

    def begin(self, request: Request, policy: Policy) -> Text:
        """The state of a text of which nothing is written. BadInput as `generate` says."""
        ids, rows = self.prepared(request.prompt, request.features, request.max_tokens)
        return Text(
            tokenizer=self.tokenizer,
            prompt=ids,
            features=rows,
            grammar=Grammar(self.tokenizer, request.schema) if request.schema is not None else None,
            max_tokens=request.max_tokens,
            watcher=SectionWatcher(opening_section(request.prompt)),
            counts=Counts(policy.longest),
            jump=policy.jump,
            lookup=self._lookup_of(request, ids) if policy.lookup else None,
        )

    def _write(self, texts: Sequence[Text], batch: int, policy: Policy) -> dict[int, Decoded]:
        """Decode texts; the answers by the texts' identity."""
        measured = policy.lookup or policy.adaptive
        costs = costs_of(self.network, self.digest, batch) if measured else None
        controller = self._controller(batch, costs) if costs else None
        memory = self._room(batch, max((capacity(len(text.prompt), text.max_tokens) for text in texts), default=1))
        return {id(text): self._decoded(text) for text in decode(self.network, policy, controller, costs, memory, texts)}

    def _decoded(self, text: Text) -> Decoded:
        made = text.counts.generation(text.written, time.perf_counter() - text.started)
        return Decoded(self.tokenizer.decode(text.out), tuple(text.out), made, "end" if text.ended else "length")

    def _room(self, batch: int, positions: int) -> Memory:
        """Caches: those of a single text are kept for the next one, those of a batch are freed behind it."""
        if batch > 1:
            return self.network.memory(batch, positions)
        if self._memory is None or not self._memory.main.fits(1, positions):
            self._memory = self.network.memory(1, positions)
        return self._memory

    def _controller(self, batch: int, costs: Costs) -> Controller:
        return self._controllers.setdefault(batch, Controller(costs))

    def _lookup_of(self, request: Request, ids: Sequence[int]) -> Lookup:
        """What a text may repeat: its prompt and itself, its prior, the site's sentences, the checkpoint's."""
        if self._lookup is None:
            self._lookup = Lookup(self.tokenizer.eos_id)
            for sentence in self._sentences:
                self._lookup.add(self.tokenizer.encode(sentence))
        own = Lookup(self.tokenizer.eos_id, self._lookup)
        for text in (*request.sentences, request.prior):
            own.add(self.tokenizer.encode(text))
        own.add(ids)
        return own

    def _features(self, ids: Sequence[int], features: NDArray[np.float32] | None) -> Tensor | None:
        """Features as (1, N, D), after they were compared with the prompt."""
        places = ids.count(self.config.ct_placeholder_id)
        count = 0 if features is None else len(features)
        if places != count:
            raise BadInput(f"the prompt has {places} feature places and {count} feature rows came; render the prompt for the features")
        if features is None or not count:
            return None
        if features.ndim != 2 or features.shape[1] != self.config.ct_feature_dim:
            raise BadInput(
                f"features have shape {features.shape}, the projector takes (N, {self.config.ct_feature_dim}) and gives "
                f"{self.config.hidden_size} columns; "
                "encoder and language model were not trained for each other: encode the study again with the model's encoder"
            )
        rows = torch.from_numpy(features.astype("float32")).unsqueeze(0)  # (1, N, D)
        if not bool(torch.isfinite(rows).all()):
            raise BadInput("features hold NaN or infinite values; encode the study again")
        return rows
