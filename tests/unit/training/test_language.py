"""Training data, the recursive draft loss, and a run of a few steps that resumes and leaves a loadable checkpoint."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pipeline.engine.generate import Engine
from pipeline.engine.layers import MtpLayer
from pipeline.engine.seeded import seeded_model, tiny_config
from pipeline.errors import BadInput
from pipeline.model import Candidate, Side
from pipeline.training.batches import Texts
from pipeline.training.language import train_language
from pipeline.training.losses import Chain, chain_bias, distil_loss
from pipeline.training.phantom import Lesion, Truth
from pipeline.training.plan import LanguagePlan
from pipeline.training.shards import Views, read_shards, write_shard
from pipeline.training.words import make_tokenizer

TOKENIZER = make_tokenizer()


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
    plan = LanguagePlan()
    assert plan.share_at(0, 0.0) < plan.share_at(200, 0.1) > plan.share_at(900, 0.9) > 0


def test_deep_drafts_come_late_and_every_other_step() -> None:
    plan = LanguagePlan(deep_from=0.5, deep_every=2, mtp_depth=3)
    assert [plan.depth_at(step, done) for step, done in ((0, 0.1), (2, 0.4), (2, 0.5), (3, 0.9))] == [1, 1, 3, 1]


def test_the_distilled_drafts_learn_the_models_own_choice_and_leave_it_alone() -> None:
    model = seeded_model(tiny_config(TOKENIZER, 7), TOKENIZER)
    model.requires_grad_(True)
    batch = Texts(views(), TOKENIZER).batch((0, 0), 0, 2)
    distil_loss(model, batch, 3).backward()  # type: ignore[no-untyped-call]  # torch leaves backward unannotated
    assert all(parameter.grad is not None for name, parameter in model.mtp.named_parameters() if "gate" not in name)
    assert all(parameter.grad is None for layer in model.model.layers[:-1] for parameter in layer.parameters())


PLAN = LanguagePlan(steps=2, distil_steps=1, batch=2, world=1, held_out=2, save_every=1, budget_s=600, layers=2)


def log(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "out" / "language.jsonl").read_text().splitlines()]


def run(folder: Path, plan: LanguagePlan = PLAN, run_for_s: float = math.inf) -> str | None:
    return train_language(folder / "data", folder / "out", folder / "weights", plan, run_for_s)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str | None, str | None]:
    """A leg of no time, then the rest: the folder, and what both came back with."""
    folder = tmp_path_factory.mktemp("language")
    write_shard(folder / "data" / "a", views())
    first = run(folder, run_for_s=0.0)
    assert not (folder / "weights").exists()
    return folder, first, run(folder)


def test_a_leg_that_ends_early_has_no_digest_and_the_next_goes_on(trained: tuple[Path, str | None, str | None]) -> None:
    folder, first, second = trained
    assert first is None
    assert second is not None
    assert [(row["stage"], row["step"]) for row in log(folder)][:2] == [("language", 0), ("language", 1)]


def test_a_training_leaves_a_loadable_phantom_only_checkpoint(trained: tuple[Path, str | None, str | None]) -> None:
    folder, _, digest = trained
    engine = Engine.load(folder / "weights")
    assert engine.digest == digest
    assert engine.card["use"] == "phantom-only"
    assert (folder / "out" / "language.png").stat().st_size > 1_000


def test_it_leaves_typical_reports_for_the_lookup_drafter(trained: tuple[Path, str | None, str | None]) -> None:
    lines = (trained[0] / "weights" / "sentences.txt").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 24
    assert all(set(json.loads(line)) == {"检查所见", "诊断意见", "建议"} for line in lines)


def test_a_longer_plan_goes_on_with_a_run_that_was_done(trained: tuple[Path, str | None, str | None]) -> None:
    folder = trained[0]
    before = len(log(folder))
    assert run(folder, replace(PLAN, distil_steps=2)) is not None
    assert {(row["stage"], row["step"]) for row in log(folder)[before:]} == {("mtp", 2)}
