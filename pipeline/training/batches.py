"""Training texts: prompt and answers as ids, in batches that a seed and a step number decide, wherever a run was interrupted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.random import Generator
from numpy.typing import NDArray
from torch import Tensor

from pipeline.drafting.departments import ONCOLOGY, PULMONOLOGY, RADIOLOGY
from pipeline.drafting.prompt import mark, render
from pipeline.drafting.schema import MAX_SIZE_MM, SECTIONS, dumps
from pipeline.engine.tokenizer import TextTokenizer
from pipeline.training.corpus import answers, report
from pipeline.training.mixing import Patients, Seen
from pipeline.training.reasons import Reason, draw_indication
from pipeline.training.scene import Scene, scene_of
from pipeline.training.shards import Views
from pipeline.training.words import SKELETON, VALUES

FIELD_WEIGHT = 3.0
FEATURE_NOISE = 0.1  # standard deviation, so that single phantoms are not learned by heart
POOL = 8  # so many batches are cut from one sorted pool of texts, to save padding
MIXED_SHARE = 0.7  # of the texts: about proposals of several phantoms
WHOLE_SHARE = 0.6  # of the texts: the whole report at once; the others go on section after section
DEPARTMENTS = (RADIOLOGY, ONCOLOGY, PULMONOLOGY)
DEPARTMENT_SHARES = (0.6, 0.2, 0.2)


@dataclass(frozen=True)
class Batch:
    """Padded texts. `weights[b, t]` is the loss weight of predicting `ids[b, t]`; 0 for prompt and padding."""

    ids: Tensor  # (B, T) int64
    weights: Tensor  # (B, T)
    features: Tensor  # (B, N, D)


@dataclass(frozen=True, slots=True)
class Text:
    """One training text: what is given and what is to be learned, in turns."""

    features: NDArray[np.float32]  # (N, D)
    ids: tuple[int, ...]
    weights: tuple[float, ...]


class Texts:
    """The reports of a data set in every form that the model must write."""

    def __init__(self, views: Views, tokenizer: TextTokenizer) -> None:
        self._count, self._places = len(views), int(views.features.shape[1])
        self._patients = Patients(views)
        self._tokenizer = tokenizer
        self._weights = np.ones(tokenizer.size)
        self._weights[field_tokens(tokenizer)] = FIELD_WEIGHT
        self._pool: tuple[tuple[int, ...], list[list[Text]]] = ((), [])

    def __len__(self) -> int:
        return self._count

    def batch(self, key: Sequence[int], step: int, size: int, rank: int = 0, world: int = 1) -> Batch:
        """The batch of one step of one process; every process gets texts of about the same length at the same step."""
        place, turn = divmod(step, POOL)
        name = (*key, place, rank)
        if self._pool[0] != name:
            rows = self._rows(key, (place * world + rank) * POOL * size, min(POOL * size, len(self)))
            self._pool = (name, _buckets([self.text(row, np.random.default_rng((*name, at))) for at, row in enumerate(rows)]))
        order = np.random.default_rng((*key, place)).permutation(len(self._pool[1]))
        batch = self.padded(self._pool[1][order[turn % len(order)]])
        noise = FEATURE_NOISE * np.random.default_rng((*key, step, rank)).standard_normal(batch.features.shape, dtype=np.float32)
        return replace(batch, features=batch.features + torch.from_numpy(noise))

    def text(self, row: int, rng: Generator) -> Text:
        """The report of one row, or of one mixed on its scan, in a form, for a department and behind an indication that are drawn."""
        patient = self._patients.mixed(row, rng) if rng.random() < MIXED_SHARE else self._patients.own(row)
        asked, reason = draw_indication(rng)
        department = DEPARTMENTS[int(rng.choice(len(DEPARTMENTS), p=DEPARTMENT_SHARES))]
        return (self.whole if rng.random() < WHOLE_SHARE else self.in_sections)(patient, asked, reason, department)

    def own(self, row: int) -> Seen:
        """One row as it is."""
        return self._patients.own(row)

    def whole(self, patient: Seen, asked: str, reason: Reason, department: str) -> Text:
        """The whole report behind its prompt, and the end."""
        seen = _scene(patient, reason)
        return self._made(patient, [render(asked, self._places, department)], [dumps(report(seen, department))])

    def in_sections(self, patient: Seen, asked: str, reason: Reason, department: str) -> Text:
        """The findings, then each section behind its mark, as one text; what is learned of it are the answers."""
        seen = _scene(patient, reason)
        head = render(asked, self._places, department).partition("[科室]")[0]
        marks = [mark(section, department) for section in SECTIONS]
        return self._made(patient, [f"{head}{marks[0]}", *marks[1:]], answers(seen, department))

    def padded(self, texts: Sequence[Text]) -> Batch:
        """Texts side by side, filled up at their ends."""
        longest = max(len(text.ids) for text in texts)
        ids = torch.full((len(texts), longest), self._tokenizer.pad_id)  # (B, T)
        weights = torch.zeros(ids.shape)
        for place, text in enumerate(texts):
            ids[place, : len(text.ids)] = torch.tensor(text.ids)
            weights[place, : len(text.ids)] = torch.tensor(text.weights)
        return Batch(ids, weights, torch.from_numpy(np.stack([text.features for text in texts])))

    def _rows(self, key: Sequence[int], first: int, count: int) -> list[int]:
        """Rows `first` … of an endless list that holds every row once per round, each round in an order of its own."""
        rounds = {
            number: np.random.default_rng((*key, 1, number)).permutation(len(self)) for number in {at // len(self) for at in (first, first + count)}
        }
        return [int(rounds[at // len(self)][at % len(self)]) for at in range(first, first + count)]

    def _made(self, patient: Seen, given: Sequence[str], learned: Sequence[str]) -> Text:
        ids: list[int] = []
        weights: list[float] = []
        for prompt, answer in zip(given, learned, strict=True):
            before, behind = self._tokenizer.encode(prompt), self._tokenizer.encode(answer)
            ids += before + behind
            weights += [0.0] * len(before) + self._weights[behind].tolist()
        return Text(patient.features, (*ids, self._tokenizer.eos_id), (*weights, 1.0))


def _scene(patient: Seen, reason: Reason) -> Scene:
    return scene_of(patient.candidates, patient.found, patient.truth, reason)


def _buckets(texts: list[Text]) -> list[list[Text]]:
    """At most POOL batches of texts of similar length."""
    ordered = sorted(texts, key=lambda text: len(text.ids))
    size = -(-len(ordered) // POOL)
    return [ordered[first : first + size] for first in range(0, len(ordered), size)]


def field_tokens(tokenizer: TextTokenizer) -> list[int]:
    """Ids that carry a fact: terms, numbers, and where a list goes on or ends."""
    encoded = (tokenizer.encode(term) for term in (*VALUES, *(str(number) for number in range(1, MAX_SIZE_MM + 1)), *SKELETON))
    return sorted({ids[0] for ids in encoded if len(ids) == 1})
