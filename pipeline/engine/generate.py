"""The embedded engine: one checkpoint in memory, greedy text from a prompt and CT features, with or without drafting."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from pipeline.engine.checkpoint import Card, load
from pipeline.engine.config import ModelConfig
from pipeline.engine.decode import Decoding
from pipeline.engine.grammar import Grammar
from pipeline.engine.model import Model
from pipeline.engine.tokenizer import TextTokenizer
from pipeline.errors import BadInput
from pipeline.model import Generation

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MAX_DRAFT = 16
Stop = Literal["end", "length"]


@dataclass(frozen=True)
class Decoded:
    """One generated text: its ids without the end token, how it was made, and whether it ended or was cut."""

    text: str
    ids: tuple[int, ...]
    generation: Generation
    stop: Stop


class Engine:
    """The embedded model of one checkpoint; one text at a time."""

    def __init__(self, model: Model, tokenizer: TextTokenizer, card: Card, digest: str) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.config: ModelConfig = model.config
        self.card = card
        self.digest = digest

    @classmethod
    def load(cls, folder: Path, *, threads: int | None = 1) -> Engine:
        """Load a checkpoint folder (ModelMissing when it does not fit). `threads` sets torch's process-wide count; None leaves it."""
        if threads is not None:
            torch.set_num_threads(threads)
        found = load(folder)
        return cls(found.model, found.tokenizer, found.card, found.digest)

    def generate(self, prompt: str, features: NDArray[np.float32] | None, *, schema: str | None, k: int, max_tokens: int = 600) -> Decoded:
        """Continue `prompt`, whose placeholders take the rows of `features` (N, D); k = 0 is plain decoding.

        BadInput when features and placeholders do not match, values are not finite, or the text does not fit the model.
        """
        started = time.perf_counter()
        ids = self.tokenizer.encode(prompt)
        rows = self._features(ids, features)
        self._check(ids, k, max_tokens)
        grammar = Grammar(self.tokenizer, schema) if schema is not None else None
        with torch.inference_mode():
            text = Decoding(self.model, self.tokenizer.eos_id, ids, rows, grammar, k, max_tokens)
            text.run()
        histogram = tuple(text.histogram)
        generation = Generation(len(text.out), sum(histogram), histogram, time.perf_counter() - started)
        return Decoded(self.tokenizer.decode(text.out), tuple(text.out), generation, "end" if text.ended else "length")

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

    def _check(self, ids: Sequence[int], k: int, max_tokens: int) -> None:
        room = self.config.max_position_embeddings - MAX_DRAFT - 1
        if not 0 <= k <= MAX_DRAFT:
            raise BadInput(f"draft length {k} is outside 0 … {MAX_DRAFT}; choose one inside")
        if not ids or max_tokens < 1 or len(ids) + max_tokens > room:
            raise BadInput(f"a prompt of {len(ids)} tokens and {max_tokens} new ones must fit into {room}; shorten the prompt or max_tokens")
