"""How many studies go together by the memory that a GPU has left; the probe is injected, as CudaMemory asks the driver on a real one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.encoder.batching import CPU_PICTURES, Rung, Way, ladder, pictures_within
from pipeline.encoder.room import studies_within

PICTURE_MB = 100.0
GPU = ladder(pictures_within(3200, PICTURE_MB), accelerator=True)  # passes of 3,200, 1,600 and 800 MiB


@pytest.mark.parametrize(
    ("free_mb", "studies"), [(50_000, 4), (3_200, 4), (3_199, 1), (1_600, 1), (800, 1), (799, 0), (0, 0)], ids=lambda value: str(value)
)
def test_what_fits_goes_together_what_fits_narrowly_goes_alone_and_the_rest_waits(free_mb: float, studies: int) -> None:
    assert studies_within(free_mb, GPU, PICTURE_MB, 4) == studies


def test_once_passes_have_become_narrower_less_memory_is_enough() -> None:
    assert [studies_within(800, GPU[left:], PICTURE_MB, 4) for left in range(3)] == [1, 1, 4]


def test_on_the_processor_no_gpu_is_waited_for() -> None:
    assert studies_within(0, (Rung(Way.CPU, CPU_PICTURES),), PICTURE_MB, 1) == 1


@given(st.floats(0, 1e6), st.floats(0, 1e6), st.integers(1, 64))
def test_more_memory_never_means_fewer_studies(one: float, other: float, pictures: int) -> None:
    rungs = ladder(pictures, accelerator=True)
    low, high = sorted((one, other))
    assert studies_within(low, rungs, PICTURE_MB, 4) <= studies_within(high, rungs, PICTURE_MB, 4)
