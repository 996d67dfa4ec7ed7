"""Pictures of several studies through one network, in passes of a fixed size; a GPU that runs out of memory gets less and less.

Every pass has the same number of pictures (the last one is filled up with zeros), so that a study's features do not depend on its company.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import torch
from torch import Tensor

from pipeline import log

logger = log.get(__name__)
MAX_PICTURES = 64  # more gain nothing
CPU_PICTURES = 1


class Way(StrEnum):
    """How pictures pass."""

    TOGETHER = "together"
    HALVED = "halved"
    PER_STUDY = "per study"
    CPU = "cpu"


SHARED = (Way.TOGETHER, Way.HALVED)  # pictures of several studies in one pass


@dataclass(frozen=True, slots=True)
class Rung:
    """One way, and how many pictures go through at once."""

    way: Way
    pictures: int


def pictures_within(budget_mb: int, picture_mb: float) -> int:
    """How many pictures fit a memory budget; one at least."""
    return max(1, min(MAX_PICTURES, int(budget_mb / picture_mb)))


def ladder(pictures: int, accelerator: bool) -> tuple[Rung, ...]:
    """From the widest rung down: together, half as many, each study alone with a quarter, the processor. Without a GPU there is only the last."""
    last = Rung(Way.CPU, CPU_PICTURES)
    if not accelerator:
        return (last,)
    down = [(Way.HALVED, pictures // 2), (Way.PER_STUDY, pictures // 4)]
    return (Rung(Way.TOGETHER, pictures), *(Rung(way, count) for way, count in down if count), last)


Forward = Callable[[Tensor, Way], Tensor]  # (P, 3, S, S) pictures → (P, …) float32 on the processor


class Batcher:
    """Runs passes, and remembers how far it had to climb down: the next batch starts there."""

    def __init__(self, rungs: Sequence[Rung]) -> None:
        self._rungs = tuple(rungs)
        self.rung = self._rungs[0]

    @property
    def left(self) -> tuple[Rung, ...]:
        """The present rung and those below it."""
        return self._rungs[self._rungs.index(self.rung) :]

    def run(self, studies: Sequence[Tensor], forward: Forward) -> list[Tensor]:
        """Each study's pictures (n, 3, S, S) → its outputs (n, …), in order. Raises torch.OutOfMemoryError where even the last rung fails."""
        while studies and self.rung.way in SHARED:
            made = tried(torch.cat(list(studies)), self.rung, forward)
            if made is not None:
                return list(torch.split(made, [len(study) for study in studies]))
            self.rung = self._below(self.rung)
        return [self._alone(study, forward) for study in studies]

    def _alone(self, study: Tensor, forward: Forward) -> Tensor:
        """One study from the present rung down. That it needs the processor says nothing about the next one."""
        rung = self.rung
        while rung != self._rungs[-1]:
            made = tried(study, rung, forward)
            if made is not None:
                return made
            rung = self._below(rung)
        return passes(study, rung, forward)

    def _below(self, rung: Rung) -> Rung:
        below = self._rungs[self._rungs.index(rung) + 1]
        logger.warning("encoder_out_of_memory", way=rung.way.value, pictures=rung.pictures, next_way=below.way.value, next_pictures=below.pictures)
        return below


def tried(pictures: Tensor, rung: Rung, forward: Forward) -> Tensor | None:
    """The outputs, or None when the device has no memory for them; what the attempt held is free again."""
    try:
        return passes(pictures, rung, forward)
    except torch.OutOfMemoryError:
        pass
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return None


def passes(pictures: Tensor, rung: Rung, forward: Forward) -> Tensor:
    """(n, 3, S, S) → (n, …), `rung.pictures` at a time."""
    made = []
    for piece in torch.split(pictures, rung.pictures):
        short = rung.pictures - len(piece)
        filled = torch.cat([piece, piece.new_zeros(short, *piece.shape[1:])]) if short else piece  # (P, 3, S, S)
        made.append(forward(filled, rung.way)[: len(piece)])
    return torch.cat(made)
