"""Training texts: prompt and report as ids, in batches that a seed and a step number decide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.random import Generator
from torch import Tensor

from pipeline.drafting.prompt import render
from pipeline.drafting.schema import DENSITIES, EFFUSIONS, KINDS, LOBES, LUNGS, MAX_SIZE_MM, dumps
from pipeline.engine.tokenizer import TextTokenizer
from pipeline.training.corpus import pair
from pipeline.training.phrases import INDICATIONS, SKELETON
from pipeline.training.shards import Views

FIELD_WEIGHT = 3.0
RANDOM_INDICATIONS = 0.15
FEATURE_NOISE = 0.1  # standard deviation, so that single phantoms are not learned by heart
POOL = 4  # a batch is cut from so many times its size, sorted by length, to save padding
ALPHABET = [chr(code) for code in [*range(0x4E00, 0x9FA6, 7), *range(0x30, 0x3A), *range(0x41, 0x5B), *range(0x61, 0x7B), 0x20, 0x2C, 0xFF0C]]


@dataclass(frozen=True)
class Batch:
    """Padded texts. `weights[b, t]` is the loss weight of predicting `ids[b, t]`; 0 for prompt and padding."""

    ids: Tensor  # (B, T) int64
    weights: Tensor  # (B, T)
    features: Tensor  # (B, N, D)


class Texts:
    """Every report of a data set as ids, ready to be put behind a prompt."""

    def __init__(self, views: Views, tokenizer: TextTokenizer) -> None:
        self._views = views
        self._tokenizer = tokenizer
        reports = (dumps(pair(c, t)) for c, t in zip(views.candidates, views.truths, strict=True))
        self._answers = [[*tokenizer.encode(report), tokenizer.eos_id] for report in reports]
        self._prompts: dict[str, list[int]] = {}
        self._weights = torch.ones(tokenizer.size)
        self._weights[field_tokens(tokenizer)] = FIELD_WEIGHT

    def __len__(self) -> int:
        return len(self._answers)

    def batch(self, rng: Generator, size: int) -> Batch:
        """A random batch of texts of similar length, with a little noise on the features."""
        pool = rng.choice(len(self), size=min(size * POOL, len(self)), replace=False)
        pool = pool[np.argsort([len(self._answers[index]) for index in pool], kind="stable")]
        start = size * int(rng.integers(max(1, len(pool) // size)))
        batch = self.of(pool[start : start + size].tolist(), rng)
        noise = FEATURE_NOISE * rng.standard_normal(batch.features.shape, dtype=np.float32)
        return replace(batch, features=batch.features + torch.from_numpy(noise))

    def of(self, chosen: Sequence[int], rng: Generator) -> Batch:
        """The texts of these rows behind random indications."""
        prompts = [self._prompt(indication(rng)) for _ in chosen]
        texts = [prompt + self._answers[index] for prompt, index in zip(prompts, chosen, strict=True)]
        ids = torch.full((len(texts), max(map(len, texts))), self._tokenizer.pad_id)  # (B, T)
        weights = torch.zeros(ids.shape)
        for row, (prompt, text) in enumerate(zip(prompts, texts, strict=True)):
            ids[row, : len(text)] = torch.tensor(text)
            answer = slice(len(prompt), len(text))
            weights[row, answer] = self._weights[ids[row, answer]]
        return Batch(ids, weights, torch.from_numpy(self._views.features[list(chosen)]))

    def _prompt(self, text: str) -> list[int]:
        return self._tokenizer.encode(render(text, self._views.features.shape[1]))


def indication(rng: Generator) -> str:
    """A usual indication, or random characters, so that the model learns to lean on neither."""
    if rng.random() < RANDOM_INDICATIONS:
        return "".join(rng.choice(ALPHABET, size=int(rng.integers(1, 24))))
    return "".join(INDICATIONS[int(rng.integers(len(INDICATIONS)))].split(" ")) if rng.random() < 0.6 else INDICATIONS[0]


def field_tokens(tokenizer: TextTokenizer) -> list[int]:
    """Ids that carry a fact: terms, numbers, and where a list of lesions goes on or ends."""
    terms = [*KINDS, *LUNGS, *LOBES, *DENSITIES, *EFFUSIONS, *(str(number) for number in range(1, MAX_SIZE_MM + 1)), *SKELETON]
    encoded = (tokenizer.encode(term) for term in terms)
    return sorted({ids[0] for ids in encoded if len(ids) == 1})
