from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pipeline.encoder.structured import FILE, KERNELS, MISSING, TOKENS, Structured, bucket, scaled
from pipeline.errors import ModelMissing
from pipeline.imaging.volume import Acquisition
from pipeline.model import Side

CHEST = Acquisition(kvp=120.0, mas=90.0, kernel="Br40", thickness_mm=1.25, age_years=63.0, sex="F", contrast=False)
NOTHING = Acquisition(kvp=None, mas=None, kernel="", thickness_mm=None)
ROWS = {"kvp": 1, "mas": 2, "kernel": 3, "thickness_mm": 4, "age_years": 5, "sex": 6, "contrast": 7}


@pytest.fixture(scope="module")
def channel() -> Structured:
    return Structured.seeded(16)


def changed(channel: Structured, other: Acquisition) -> set[int]:
    before, after = channel.acquisition(CHEST), channel.acquisition(other)
    return {row for row in range(TOKENS) if not torch.equal(before[row], after[row])}


@pytest.mark.parametrize(
    ("field", "value"),
    [("kvp", 100.0), ("mas", 20.0), ("kernel", "Br60"), ("thickness_mm", 5.0), ("age_years", 30.0), ("sex", "M"), ("contrast", True)],
)
def test_each_fact_has_a_token_of_its_own(channel: Structured, field: str, value: Any) -> None:
    changes: dict[str, Any] = {field: value}
    assert changed(channel, replace(CHEST, **changes)) == {ROWS[field]}


@pytest.mark.parametrize("field", ["kvp", "mas", "thickness_mm", "age_years"])
def test_what_the_header_does_not_say_has_an_embedding_of_its_own(channel: Structured, field: str) -> None:
    changes: dict[str, Any] = {field: None}
    told = channel.acquisition(replace(CHEST, **changes))[ROWS[field]]
    assert any(torch.equal(told, row) for row in channel.missing)


def test_nothing_known_is_cls_and_seven_times_missing(channel: Structured) -> None:
    tokens = channel.acquisition(NOTHING)
    assert torch.equal(tokens[0], channel.cls[0])
    assert torch.equal(tokens[1:], channel.missing)
    assert len(MISSING) == TOKENS - 1


def test_the_first_four_are_those_of_the_article() -> None:
    assert MISSING[:3] == ("kvp", "mas", "kernel")


def test_left_right_and_both_are_three_tokens(channel: Structured) -> None:
    tokens = channel.regions([Side.LEFT, Side.RIGHT, None, Side.LEFT])
    assert tokens.shape == (4, 16)
    assert torch.equal(tokens[0], tokens[3])
    assert len({tuple(row.tolist()) for row in tokens}) == 3
    assert channel.regions([]).shape == (0, 16)


@given(st.one_of(st.none(), st.floats()), st.one_of(st.none(), st.floats()))
def test_any_header_value_gives_finite_numbers(kvp: float | None, age: float | None) -> None:
    numbers = scaled(replace(CHEST, kvp=kvp, mas=kvp, thickness_mm=kvp, age_years=age))
    assert all(value is None or abs(value) <= 4.0 for value in numbers.values())


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
def test_impossible_values_are_missing(value: float) -> None:
    assert scaled(replace(CHEST, kvp=value))["kvp"] is None


def test_a_newborn_has_an_age() -> None:
    assert scaled(replace(CHEST, age_years=0.0))["age"] == -2.0


@given(st.text(max_size=16))
def test_a_kernel_name_has_one_row_in_any_letter_case(name: str) -> None:
    assert 0 <= bucket(name) < KERNELS
    assert bucket(f" {name.upper()}") == bucket(name.upper())


def test_letter_case_and_width_make_no_kernel() -> None:
    assert bucket("Br40d") == bucket("BR40D") == bucket("ＢＲ４０Ｄ") != bucket("Br60d")


def test_seeded_tokens_are_the_same_everywhere_and_say_that_they_are_untrained() -> None:
    first, second = Structured.seeded(16), Structured.seeded(16)
    assert not first.trained
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))


def test_tokens_survive_the_disk(tmp_path: Path, channel: Structured) -> None:
    channel.save(tmp_path)
    found = Structured.load(tmp_path, 16)
    assert found.trained
    assert torch.equal(found.acquisition(CHEST), channel.acquisition(CHEST))
    assert not Structured.load(tmp_path / "none", 16).trained
    assert not Structured.load(None, 16).trained


@pytest.mark.parametrize("damage", ["another width", "cut"])
def test_tokens_of_another_encoder_are_refused(tmp_path: Path, damage: str) -> None:
    Structured.seeded(8 if damage == "another width" else 16).save(tmp_path)
    if damage == "cut":
        (tmp_path / FILE).write_bytes((tmp_path / FILE).read_bytes()[:100])
    with pytest.raises(ModelMissing, match="an encoder of 16 columns"):
        Structured.load(tmp_path, 16)
