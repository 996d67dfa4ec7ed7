"""Both optimizers as one: who trains what, and that a saved state goes on as if nothing had happened."""

from __future__ import annotations

import torch
from torch import nn

from pipeline.training.optimizing import Optimizers, Rates, named


def small() -> nn.Module:
    torch.manual_seed(0)
    return nn.ModuleDict({"table": nn.Embedding(20, 8), "kernel": nn.Conv3d(3, 16, 3), "matrix": nn.Linear(8, 16), "router": nn.Linear(16, 4)})


RATES = Rates(adamw=1e-2, muon=1e-2, decay=0.0)


def gradients(module: nn.Module, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    for parameter in module.parameters():
        parameter.grad = torch.randn(parameter.shape, generator=generator)


def change(module: nn.Module, scale: float) -> dict[str, torch.Tensor]:
    """What one step moves in each weight when all gradients are scaled."""
    before = {name: p.detach().clone() for name, p in module.named_parameters()}
    optimizers = Optimizers(named(module), RATES, ("table",))
    gradients(module, 1)
    for parameter in module.parameters():
        assert parameter.grad is not None
        parameter.grad *= scale
    optimizers.step(1.0)
    return {name: p.detach() - before[name] for name, p in module.named_parameters()}


def test_matrices_and_kernels_turn_by_an_orthogonal_step_and_the_rest_does_not() -> None:
    moved = change(small(), 1.0)
    for name, rank in (("kernel.weight", 16), ("matrix.weight", 8)):
        singular = torch.linalg.svdvals(moved[name].flatten(1))[:rank]
        assert singular.max() / singular.min() < 2.5  # Newton-Schulz brings them near one value; those of noise differ far more
    for name in ("table.weight", "router.weight", "matrix.bias"):
        torch.testing.assert_close(moved[name].abs(), torch.full_like(moved[name], 1e-2), rtol=1e-3, atol=0)  # the first step of AdamW is the rate


def test_a_share_of_nothing_moves_nothing_and_a_weight_without_gradient_stays() -> None:
    module = small()
    before = {name: p.detach().clone() for name, p in module.named_parameters()}
    optimizers = Optimizers(named(module), RATES)
    gradients(module, 2)
    optimizers.step(0.0)
    assert all(torch.equal(p, before[name]) for name, p in module.named_parameters())
    optimizers.zero_grad()
    assert all(p.grad is None for p in module.parameters())
    optimizers.step(1.0)
    assert all(torch.equal(p, before[name]) for name, p in module.named_parameters())


def test_only_what_is_trained_is_named() -> None:
    module = small()
    module["table"].requires_grad_(False)  # type: ignore[index]  # a ModuleDict
    assert set(named(module)) == {f"{part}.{kind}" for part in ("kernel", "matrix", "router") for kind in ("weight", "bias")}


def test_a_saved_state_goes_on_as_if_nothing_had_happened() -> None:
    one, other = small(), small()
    first, second = Optimizers(named(one), RATES), Optimizers(named(other), RATES)
    for seed in range(3):
        gradients(one, seed)
        first.step(1.0)
        gradients(other, seed)
        second.step(1.0)
    again = Optimizers(named(other), RATES)
    again.load(second.state())
    for optimizers, module in ((first, one), (again, other)):
        gradients(module, 9)
        optimizers.step(0.5)
    for name, value in one.state_dict().items():
        assert torch.equal(value, other.state_dict()[name])
