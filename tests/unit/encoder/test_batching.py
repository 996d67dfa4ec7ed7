from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs
from torch import Tensor

from pipeline.encoder.batching import Batcher, Rung, Way, ladder, passes, pictures_within

WIDE = ladder(8, accelerator=True)


def pictures(*counts: int) -> list[Tensor]:
    return [torch.rand(count, 3, 2, 2, generator=torch.Generator().manual_seed(count)) for count in counts]


def sums(batch: Tensor) -> Tensor:
    return batch.sum(dim=(1, 2, 3), keepdim=False)[:, None]


class Gpu:
    """Adds up pictures, has memory for a few of them at once, and keeps a record."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.seen: list[tuple[Way, int]] = []

    def __call__(self, batch: Tensor, way: Way) -> Tensor:
        self.seen.append((way, len(batch)))
        if way is not Way.CPU and len(batch) > self.room:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return sums(batch)


def test_the_ladder_goes_from_together_to_the_processor() -> None:
    assert ladder(8, accelerator=True) == (Rung(Way.TOGETHER, 8), Rung(Way.HALVED, 4), Rung(Way.PER_STUDY, 2), Rung(Way.CPU, 1))
    assert ladder(1, accelerator=True) == (Rung(Way.TOGETHER, 1), Rung(Way.CPU, 1))
    assert ladder(64, accelerator=False) == (Rung(Way.CPU, 1),)


@pytest.mark.parametrize(("budget", "picture", "count"), [(8192, 40, 64), (1024, 40, 25), (64, 3000, 1), (8192, 3000, 2)])
def test_a_budget_says_how_many_pictures_pass_at_once(budget: int, picture: float, count: int) -> None:
    assert pictures_within(budget, picture) == count


@pytest.mark.parametrize(
    ("room", "way", "kept"),
    [(8, Way.TOGETHER, Way.TOGETHER), (5, Way.HALVED, Way.HALVED), (2, Way.PER_STUDY, Way.PER_STUDY), (1, Way.CPU, Way.PER_STUDY)],
)
def test_a_gpu_without_memory_gets_less_until_it_is_enough(room: int, way: Way, kept: Way) -> None:
    studies, gpu, batcher = pictures(5, 3, 7), Gpu(room), Batcher(WIDE)
    made = batcher.run(studies, gpu)
    for study, found in zip(studies, made, strict=True):
        assert torch.equal(found, sums(study))
    assert gpu.seen[-1][0] is way
    assert batcher.rung.way is kept  # the processor is for one study, not for ever
    again = Gpu(room)
    batcher.run(studies, again)
    assert again.seen[0][0] is kept


def test_each_step_down_is_logged() -> None:
    with capture_logs() as lines:
        Batcher(WIDE).run(pictures(5), Gpu(0))
    assert [(line["way"], line["next_way"], line["next_pictures"]) for line in lines] == [
        ("together", "halved", 4),
        ("halved", "per study", 2),
        ("per study", "cpu", 1),
    ]


def test_memory_that_even_the_processor_lacks_is_an_error() -> None:
    def never(batch: Tensor, way: Way) -> Tensor:
        raise torch.OutOfMemoryError

    with pytest.raises(torch.OutOfMemoryError):
        Batcher(WIDE).run(pictures(2), never)


def test_another_error_is_not_taken_for_a_lack_of_memory() -> None:
    def broken(batch: Tensor, way: Way) -> Tensor:
        raise RuntimeError("a kernel is missing")

    with pytest.raises(RuntimeError, match="kernel"):
        Batcher(WIDE).run(pictures(2), broken)


def test_every_pass_has_the_same_size() -> None:
    gpu = Gpu(8)
    Batcher(WIDE).run(pictures(5, 3, 7), gpu)
    assert gpu.seen == [(Way.TOGETHER, 8), (Way.TOGETHER, 8)]


def test_no_studies_are_no_passes() -> None:
    assert Batcher(WIDE).run([], Gpu(8)) == []


@given(st.lists(st.integers(1, 9), min_size=1, max_size=5), st.integers(1, 8), st.integers(0, 9))
def test_outputs_come_back_to_their_study_in_order(counts: list[int], limit: int, room: int) -> None:
    studies = pictures(*counts)
    made = Batcher(ladder(limit, accelerator=True)).run(studies, Gpu(room))
    assert all(torch.equal(found, sums(study)) for study, found in zip(studies, made, strict=True))


def test_the_last_pass_is_filled_up_and_its_filling_forgotten() -> None:
    gpu = Gpu(8)
    assert passes(pictures(5)[0], Rung(Way.TOGETHER, 4), gpu).shape == (5, 1)
    assert gpu.seen == [(Way.TOGETHER, 4), (Way.TOGETHER, 4)]
