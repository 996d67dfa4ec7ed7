"""Which optimizer trains what: Muon (Jordan et al. 2024) the matrices and kernels, AdamW tables, gains and biases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn
from torch.optim import AdamW, Muon, Optimizer

SMALLEST = 16  # rows of a matrix that is worth turning


@dataclass(frozen=True, slots=True)
class Rates:
    """Peaks of the learning rates, and how much weights decay."""

    adamw: float
    muon: float
    decay: float


class KernelMuon(Muon):
    """Muon on weights of any shape, each read as a matrix with one row per output."""

    def __init__(self, weights: Sequence[nn.Parameter], rate: float, decay: float) -> None:
        self._weights = list(weights)
        self._flat = [nn.Parameter(weight.data.view(weight.shape[0], -1)) for weight in weights]  # the same memory
        super().__init__(self._flat, lr=rate, weight_decay=decay, adjust_lr_fn="match_rms_adamw")

    def step(self, closure: Any = None) -> Any:
        """One step by the gradients of the weights; a weight without one stays."""
        for flat, weight in zip(self._flat, self._weights, strict=True):
            flat.grad = None if weight.grad is None else weight.grad.reshape(flat.shape)
        return super().step(closure)  # type: ignore[no-untyped-call]  # torch leaves it unannotated

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of the weights."""
        for weight in self._weights:
            weight.grad = None


class Optimizers:
    """Both as one, with one share of the peak rates."""

    def __init__(self, weights: Mapping[str, nn.Parameter], rates: Rates, tables: tuple[str, ...] = ()) -> None:
        """`tables`: beginnings of the names of weights of which only some rows are met in a step."""
        turned = {name: p for name, p in weights.items() if p.dim() > 1 and p.shape[0] >= SMALLEST and not name.startswith(tables or ("\0",))}
        rest = [p for name, p in weights.items() if name not in turned]
        groups = [
            {"params": [p for p in rest if p.dim() > 1], "weight_decay": rates.decay},
            {"params": [p for p in rest if p.dim() <= 1], "weight_decay": 0.0},
        ]
        self._both: tuple[tuple[Optimizer, float], ...] = (
            (KernelMuon(list(turned.values()), rates.muon, rates.decay), rates.muon),
            (AdamW([group for group in groups if group["params"]], lr=rates.adamw, betas=(0.9, 0.95), fused=True), rates.adamw),
        )

    def zero_grad(self) -> None:
        """Forget all gradients."""
        for optimizer, _ in self._both:
            optimizer.zero_grad(set_to_none=True)

    def step(self, share: float) -> None:
        """One step at a share of the peak rates."""
        for optimizer, peak in self._both:
            for group in optimizer.param_groups:
                group["lr"] = peak * share
            optimizer.step()

    def state(self) -> list[dict[str, Any]]:
        """What `load` takes."""
        return [optimizer.state_dict() for optimizer, _ in self._both]

    def load(self, state: Sequence[dict[str, Any]]) -> None:
        """Go on from a saved state of the same weights."""
        for (optimizer, _), saved in zip(self._both, state, strict=True):
            optimizer.load_state_dict(saved)


def named(module: nn.Module) -> dict[str, nn.Parameter]:
    """The weights of a module that are trained."""
    return {name: p for name, p in module.named_parameters() if p.requires_grad}
