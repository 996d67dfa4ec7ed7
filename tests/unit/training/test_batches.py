"""Batches: what is learned, in which forms, and that a step always sees the same whatever came before."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch

from pipeline.drafting.departments import NAMES
from pipeline.drafting.prompt import SECTIONS
from pipeline.training.batches import FIELD_WEIGHT, POOL, Text, Texts
from pipeline.training.reasons import Reason
from pipeline.training.words import make_tokenizer
from tests.unit.training.fake_views import PROPOSALS, fake_views

TOKENIZER = make_tokenizer()
VIEWS = fake_views(96)
TEXTS = Texts(VIEWS, TOKENIZER)


def learned(text: Text) -> str:
    return TOKENIZER.decode([token for token, weight in zip(text.ids, text.weights, strict=True) if weight > 0])


def test_of_a_whole_report_only_the_answer_and_the_end_are_learned() -> None:
    text = TEXTS.whole(TEXTS.own(3), "咳嗽", Reason.INFECTION, "radiology")
    assert set(json.loads(learned(text))) == {"检查所见", "诊断意见", "建议"}
    assert text.ids[-1] == TOKENIZER.eos_id
    assert text.weights[-1] == 1.0
    assert text.ids.count(TOKENIZER.ct_id) == VIEWS.features.shape[1]


def test_of_sections_each_answer_is_learned_and_no_mark_between_them() -> None:
    text = TEXTS.in_sections(TEXTS.own(3), "咳嗽", Reason.INFECTION, "oncology")
    decoder, rest, found = json.JSONDecoder(), learned(text), []
    while rest:
        value, end = decoder.raw_decode(rest)
        found.append(value)
        rest = rest[end:]
    assert [next(iter(value)) for value in found] == ["病灶", *SECTIONS[1:]]
    assert "科室" not in learned(text)
    assert "[科室]肿瘤科[描述]" in TOKENIZER.decode(text.ids)


def test_facts_weigh_more_than_words() -> None:
    text = TEXTS.whole(TEXTS.own(3), "咳嗽", Reason.INFECTION, "radiology")
    weights = {TOKENIZER.decode([token]): weight for token, weight in zip(text.ids, text.weights, strict=True) if weight > 0}
    assert weights["纵隔"] == weights["结节"] == weights['"}'] == FIELD_WEIGHT
    assert weights["。"] == weights["建议"] == 1.0


def test_forms_and_departments_come_in_their_shares() -> None:
    drawn = [TOKENIZER.decode(TEXTS.text(row % 96, np.random.default_rng(row)).ids) for row in range(600)]
    departments = Counter(next(name for name, word in NAMES.items() if f"[科室]{word}" in text) for text in drawn)
    assert 0.5 < sum("[科室]" in text and "[检查所见][诊断意见]" in text for text in drawn) / 600 < 0.7
    assert departments["radiology"] / 600 == pytest.approx(0.6, abs=0.07)
    assert departments["oncology"] / 600 == pytest.approx(0.2, abs=0.06)


def test_a_step_sees_the_same_whatever_was_asked_before() -> None:
    fresh, used = Texts(VIEWS, TOKENIZER), Texts(VIEWS, TOKENIZER)
    for step in range(11):
        used.batch((0, 0), step, 2, 1, 2)
    one, other = fresh.batch((0, 0), 11, 2, 1, 2), used.batch((0, 0), 11, 2, 1, 2)
    assert torch.equal(one.ids, other.ids)
    assert torch.equal(one.features, other.features)


def test_seeds_steps_and_processes_see_different_texts() -> None:
    turns = (((0, 0), 0, 0), ((1, 0), 0, 0), ((0, 1), 0, 0), ((0, 0), 1, 0), ((0, 0), 0, 1))
    batches = [TEXTS.batch(key, step, 4, rank, 2).ids for key, step, rank in turns]
    assert len({tuple(ids.flatten().tolist()) for ids in batches}) == len(batches)


def test_texts_of_a_batch_are_about_as_long() -> None:
    batches = [TEXTS.batch((0, 0), step, 8) for step in range(POOL)]
    filled = sum(int((batch.weights.sum(1) > 0).sum()) for batch in batches)
    padding = [float((batch.ids == TOKENIZER.pad_id).float().mean()) for batch in batches]
    assert filled == 8 * POOL
    assert np.mean(padding) < 0.12


def test_every_row_comes_once_in_a_round() -> None:
    """Two pools of two processes are 128 texts of 96 rows; the row is written into a token that is mixed with no others."""
    features = VIEWS.features.copy()
    features[:, PROPOSALS, -1] = np.arange(96)
    texts, seen = Texts(replace(VIEWS, features=features), TOKENIZER), Counter[int]()
    for step, rank in product(range(2 * POOL), (0, 1)):
        for one in texts.batch((0, 0), step, 4, rank, 2).features.numpy():
            seen[round(float(one[PROPOSALS, -1]))] += 1
    assert sorted(seen) == list(range(96))
    assert Counter(seen.values()) == {1: 64, 2: 32}
