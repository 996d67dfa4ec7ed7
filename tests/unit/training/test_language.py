"""Training data, the recursive draft loss, and a run of a few steps that resumes and leaves a loadable checkpoint."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from pipeline.engine.generate import Engine
from pipeline.engine.layers import MtpLayer
from pipeline.engine.seeded import seeded_model, tiny_config
from pipeline.engine.tokenizer import TextTokenizer, build
from pipeline.errors import BadInput
from pipeline.model import Candidate, Side
from pipeline.training.batches import FIELD_WEIGHT, Texts
from pipeline.training.language import LanguagePlan, learning_rate, train_language
from pipeline.training.losses import Chain, chain_bias
from pipeline.training.phantom import Lesion, Truth
from pipeline.training.phrases import words
from pipeline.training.shards import Views, read_shards, write_shard

TOKENIZER = TextTokenizer(build(words()))


def views(count: int = 24) -> Views:
    rng = np.random.default_rng(0)
    lesion = Lesion("结节", Side.LEFT, "下叶", "磨玻璃", 9.0, (50.0, 0.0, -20.0))
    truths = tuple(Truth((lesion,) * (i % 2), frozenset(), False, i, 120.0, 100.0, "B30f") for i in range(count))
    candidate = Candidate(1, "结节", lesion.center_mm, Side.LEFT, "下叶", "磨玻璃", 9.0, 0.8)
    return Views(rng.normal(size=(count, 5, 7)).astype(np.float32), truths, ((candidate,),) * count)


def test_shards_come_back_as_they_were_written(tmp_path: Path) -> None:
    written = views()
    write_shard(tmp_path / "a", written)
    read = read_shards(tmp_path)
    assert (read.truths, read.candidates) == (written.truths, written.candidates)
    assert np.allclose(read.features, written.features, atol=1e-2)


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no shard"):
        read_shards(tmp_path)


def test_only_the_answer_is_learned_and_facts_weigh_more() -> None:
    batch = Texts(views(), TOKENIZER).of([1], np.random.default_rng(1))
    learned = batch.ids[batch.weights > 0].tolist()
    text = TOKENIZER.decode(learned)
    assert learned[-1] == TOKENIZER.eos_id
    assert json.loads(text)["检查所见"]["病灶"][0]["侧别"] == "左肺"
    assert batch.weights[0][batch.ids[0] == TOKENIZER.encode("磨玻璃")[0]].tolist()[0] == FIELD_WEIGHT


def test_a_batch_depends_on_its_seed_alone() -> None:
    texts = Texts(views(), TOKENIZER)
    first, second = (texts.batch(np.random.default_rng(5), 4) for _ in range(2))
    assert torch.equal(first.ids, second.ids)


def test_the_training_recursion_drafts_exactly_what_decoding_drafts() -> None:
    model = seeded_model(tiny_config(TOKENIZER, 7), TOKENIZER)
    ids = torch.randint(4, TOKENIZER.size, (1, 12), generator=torch.Generator().manual_seed(0))
    hidden, count, at = model(ids), 11, 5
    chain, state, trained = Chain(), hidden[:, :-1], []
    turn, _ = model.positions(0, count)
    for depth in (1, 2, 3):
        state = model.mtp.step(model.model.embed_tokens(ids[:, 1:]), state, turn, chain_bias(depth, count), chain)
        trained.append(state[0, at + depth - 1])
        state = torch.nn.functional.pad(state[:, :-1], (0, 0, 1, 0))
    cache = model.new_mtp_cache(12)
    decoded = [model.draft(ids[:, 1 : at + 2], hidden[:, : at + 1], cache)[:, -1:]]
    for depth in (1, 2):
        decoded.append(model.draft(ids[:, at + 1 + depth : at + 2 + depth], decoded[-1], cache))
    assert isinstance(model.mtp, MtpLayer)
    assert all(torch.allclose(ours, theirs[0, 0], atol=1e-4) for ours, theirs in zip(trained, decoded, strict=True))


def test_the_rate_warms_up_and_falls() -> None:
    assert learning_rate(1.0, 0, 0.0) < learning_rate(1.0, 200, 0.1) > learning_rate(1.0, 900, 0.9) > 0


def test_a_short_training_resumes_and_leaves_a_loadable_phantom_only_checkpoint(tmp_path: Path) -> None:
    write_shard(tmp_path / "data" / "a", views())
    plan = LanguagePlan(steps=2, distil_steps=1, batch=2, world=1, held_out=2, save_every=1, budget_s=600)
    digest = train_language(tmp_path / "data", tmp_path / "out", tmp_path / "weights", plan)
    engine = Engine.load(tmp_path / "weights")
    assert engine.digest == digest
    assert engine.card["use"] == "phantom-only"
    steps = [json.loads(line)["step"] for line in (tmp_path / "out" / "language.jsonl").read_text().splitlines()]
    longer = LanguagePlan(steps=2, distil_steps=2, batch=2, world=1, held_out=2, save_every=1, budget_s=600)
    train_language(tmp_path / "data", tmp_path / "out", tmp_path / "weights", longer)
    rows = [json.loads(line) for line in (tmp_path / "out" / "language.jsonl").read_text().splitlines()][len(steps) :]
    assert {(row["stage"], row["step"]) for row in rows} == {("mtp", 2)}
