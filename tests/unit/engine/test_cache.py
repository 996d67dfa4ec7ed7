"""Caches are pooled for single texts and freed after batches: memory is flat over many reports."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest
import torch

from pipeline.drafting.prompt import render
from pipeline.drafting.schema import schema_text
from pipeline.engine.cache import Memory, Slots
from pipeline.engine.generate import Engine, Request
from pipeline.engine.policy import Policy
from tests.unit.engine.conftest import features

POLICIES = (Policy.default(), Policy.fixed(4), Policy.plain())


def held_bytes() -> int:
    """Bytes of all living tensors."""
    gc.collect()
    stores = {each.untyped_storage().data_ptr(): each.untyped_storage().nbytes() for each in gc.get_objects() if type(each) is torch.Tensor}
    return sum(stores.values())


def resident_mb() -> float:
    """Resident memory of this process in 10^6 bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 1e6


def write(engine: Engine, seed: int, batch: int) -> None:
    """Reports of mixed lengths under one of the policies."""
    wanted = [Request(render("咳嗽", 4), features(seed + index), schema_text(), 20 + 40 * (index % 3)) for index in range(batch)]
    engine.generate_many(wanted, batch=batch, policy=POLICIES[seed % len(POLICIES)])


def test_no_tensor_outlives_its_report(engines: tuple[Engine, ...]) -> None:
    engine = engines[0]
    for seed in range(3):
        write(engine, seed, 1)
    before = held_bytes()
    for seed in range(3, 12):
        write(engine, seed, 1 + 3 * (seed % 2))
    assert held_bytes() == before


@pytest.mark.long
def test_resident_memory_is_flat_over_a_thousand_reports(engines: tuple[Engine, ...]) -> None:
    engine = engines[0]
    for seed in range(60):
        write(engine, seed, 1 + 3 * (seed % 2))
    before = resident_mb()
    for seed in range(400):
        write(engine, seed, 1 + 3 * (seed % 2))
    assert resident_mb() - before < 5.0


def test_a_slot_moves_with_all_its_layers(engines: tuple[Engine, ...]) -> None:
    memory = Memory(engines[0].config, 1, 3, 200)
    for number, rows in enumerate((*memory.main.rows, *memory.mtp.rows)):
        rows[2] = float(number + 1)
    memory.move(2, 0, 150)
    for number, rows in enumerate((*memory.main.rows, *memory.mtp.rows)):
        assert bool((rows[0, :150] == number + 1).all())
        assert bool((rows[0, 150:] == 0).all())


def test_capacity_is_rounded_up_so_that_texts_of_like_length_share_caches(engines: tuple[Engine, ...]) -> None:
    slots = Slots(engines[0].config, 2, 4, 130)
    assert slots.capacity == 256
    assert slots.fits(4, 256)
    assert not slots.fits(5, 10)
    assert not slots.fits(1, 257)
