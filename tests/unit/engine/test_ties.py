"""Near ties of tokens and of experts are decided alike in every block shape; without the guards they would not be."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from pipeline.drafting.prompt import render
from pipeline.drafting.schema import schema_text
from pipeline.engine import ties
from pipeline.engine.checkpoint import Checkpoint, load
from pipeline.engine.folded import FoldedMoe, Routing
from pipeline.engine.generate import Engine, Request
from pipeline.engine.layers import Moe
from pipeline.engine.network import Network
from pipeline.engine.policy import Policy
from pipeline.engine.seeded import write_seeded_checkpoint
from tests.unit.engine.conftest import FEATURE_DIM, features

NOISE = 2e-6  # larger than what two block shapes differ by
WAYS = ((1, Policy.plain()), (1, Policy.fixed(1)), (1, Policy.fixed(4)), (3, Policy.fixed(3)), (4, Policy(k=2, jump=False)))


def texts(engine: Engine, batch: int, policy: Policy, schema: str | None) -> list[tuple[int, ...]]:
    """Ids of a few texts."""
    wanted = [Request(render("", 4), features(image), schema, 12 + 4 * image) for image in range(3)]
    return [made.ids for made in engine.generate_many(wanted, batch=batch, policy=policy)]


def outcomes(engine: Engine, schema: str | None = None) -> set[tuple[tuple[int, ...], ...]]:
    """The different answers of several policies and batch sizes."""
    return {tuple(texts(engine, batch, policy, schema)) for batch, policy in WAYS}


@pytest.fixture
def found(tmp_path: Path) -> Checkpoint:
    """A checkpoint that a test may change in memory."""
    write_seeded_checkpoint(tmp_path, feature_dim=FEATURE_DIM, seed=1)
    return load(tmp_path)


def engine_of(found: Checkpoint) -> Engine:
    torch.set_num_threads(1)
    return Engine(found.model, found.tokenizer, found.card, found.digest)


def noisy_logits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Logits that depend a little on how many rows a block has, as real products do."""
    exact = Network.logits

    def logits(self: Network, hidden: Tensor) -> Tensor:
        out = exact(self, hidden)
        return out + NOISE * torch.randn(out.shape[-1], generator=torch.Generator().manual_seed(len(hidden)))

    monkeypatch.setattr(Network, "logits", logits)


def noisy_routers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Router biases that depend a little on how many rows a block has."""
    exact = FoldedMoe.__call__

    def route(self: FoldedMoe, x: Tensor, pinned: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Routing]:
        noise = NOISE * torch.randn(self.bias.shape, generator=torch.Generator().manual_seed(len(x)))
        self.bias.add_(noise)
        out = exact(self, x, pinned)
        self.bias.sub_(noise)
        return out

    monkeypatch.setattr(FoldedMoe, "__call__", route)


def twin_tokens(found: Checkpoint) -> None:
    """Give many pairs of tokens equal logits."""
    head = found.model.lm_head.weight
    half = (len(head) - 4) // 2
    with torch.no_grad():
        head[4 + half : 4 + 2 * half] = head[4 : 4 + half]


def twin_experts(found: Checkpoint) -> None:
    """Let all experts but the first always get equal scores, so that the last place is always tied."""
    with torch.no_grad():
        for module in found.model.modules():
            if isinstance(module, Moe):
                module.gate.weight[1:] = module.gate.weight[1]


def test_equal_logits_are_decided_alike_and_would_not_be_without_the_guard(found: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    twin_tokens(found)
    noisy_logits(monkeypatch)
    assert len(outcomes(engine_of(found))) == 1
    monkeypatch.setattr(ties, "NEAR_TIE", -1.0)
    assert len(outcomes(engine_of(found))) > 1


def test_equal_experts_are_decided_alike_and_would_not_be_without_the_guard(found: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    twin_experts(found)
    noisy_routers(monkeypatch)
    assert len(outcomes(engine_of(found))) == 1
    monkeypatch.setattr(ties, "ROUTE_TIE", -1.0)
    assert len(outcomes(engine_of(found))) > 1


def test_both_ties_at_once_under_a_grammar(found: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    twin_experts(found)
    twin_tokens(found)
    noisy_routers(monkeypatch)
    noisy_logits(monkeypatch)
    assert len(outcomes(engine_of(found), schema_text())) == 1


@pytest.mark.parametrize("guard", ["NEAR_TIE", "ROUTE_TIE"])
def test_taking_the_careful_way_at_every_token_writes_the_same_text(engines: tuple[Engine, ...], guard: str, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = texts(engines[0], 1, Policy.plain(), schema_text())
    monkeypatch.setattr(ties, guard, float("inf"))
    for batch, policy in WAYS:
        assert texts(engines[0], batch, policy, schema_text()) == usual


def test_a_settled_row_replaces_what_was_cached_and_pins_its_experts(engines: tuple[Engine, ...]) -> None:
    engine = engines[0]
    with torch.inference_mode():
        text = engine.begin(Request(render("", 4), features(1), None, 8), Policy.plain())
        memory = engine.network.memory(1, 200)
        referee = ties.Referee(engine.network, memory)
        read = referee.read(text)
        before = [rows.clone() for rows in memory.main.rows]
        place = len(text.prompt) - 3
        for rows in memory.main.rows:
            rows[0, place] = 7.0
        hidden = referee.settle(text, place)
    assert torch.allclose(hidden, read[place], atol=1e-5)
    assert all(torch.allclose(now, then, atol=1e-5) for now, then in zip(memory.main.rows, before, strict=True))
    assert text.pins[place].shape == (1, engine.config.num_experts_per_tok)
