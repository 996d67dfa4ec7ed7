"""Training of one small net within a budget of processor time, resumable; and the file and card that the package holds of it."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from pipeline.imaging.packaged import CARD
from pipeline.training.progress import Bar

SAVE_EVERY_S = 30.0
WARM_UP_STEPS = 50
LOWEST_RATE = 0.01  # of the peak


def fit(title: str, net: nn.Module, loss_of: Callable[[int], Tensor], state: Path, *, budget_s: float, peak_rate: float) -> tuple[int, float]:
    """Train for `budget_s` seconds of processor time in all, resuming from the file `state`; returns steps and the mean loss of the last hundred.

    `loss_of(step)` draws the batch of a step and gives its loss: what a step sees depends on its number only. The rate falls as a cosine over the
    budget.
    """
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    state.parent.mkdir(parents=True, exist_ok=True)
    optimizer = torch.optim.AdamW(net.parameters(), lr=peak_rate, weight_decay=1e-4)
    spent, step, mean = _resume(state, net, optimizer)
    net.train()
    began, saved = time.process_time() - spent, spent
    with Bar(title) as bar:
        while spent < budget_s:
            loss = _step(net, optimizer, loss_of(step), peak_rate * _share(step, spent / budget_s))
            step, spent = step + 1, time.process_time() - began
            mean = loss if step == 1 else mean + (loss - mean) * max(0.01, 1 / step)
            bar.update(spent / budget_s, f"step {step}, loss {mean:.4f}")
            if spent - saved > SAVE_EVERY_S:
                _save(state, net, optimizer, spent, step, mean)
                saved = spent
    _save(state, net, optimizer, spent, step, mean)
    net.eval()
    return step, mean


def put(net: nn.Module, folder: Path, name: str, entry: Mapping[str, Any]) -> None:
    """`NAME.safetensors` in half precision, and its entry of the folder's card: what `entry` says, its digest and its size."""
    folder.mkdir(parents=True, exist_ok=True)
    path, card = folder / f"{name}.safetensors", folder / CARD
    halves = {key: tensor.half() if tensor.is_floating_point() else tensor for key, tensor in net.state_dict().items()}
    save_file({key: tensor.contiguous() for key, tensor in halves.items()}, path)
    path.chmod(0o644)  # safetensors writes 0600; the package is for every user
    known = json.loads(card.read_text(encoding="utf-8")) if card.exists() else {}
    known[name] = {
        "use": "phantom-only",
        **entry,
        "parameters": sum(p.numel() for p in net.parameters()),
        "precision": "half",
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
    }
    card.write_text(json.dumps(dict(sorted(known.items())), ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


def _share(step: int, done: float) -> float:
    return min(1.0, (step + 1) / WARM_UP_STEPS) * max(LOWEST_RATE, 0.5 * (1 + math.cos(math.pi * min(1.0, done))))


def _step(net: nn.Module, optimizer: torch.optim.Optimizer, loss: Tensor, rate: float) -> float:
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]  # torch
    torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    optimizer.step()
    return float(loss.detach())


def _save(state: Path, net: nn.Module, optimizer: torch.optim.Optimizer, spent: float, step: int, mean: float) -> None:
    temporary = state.with_suffix(".new")
    torch.save({"net": net.state_dict(), "optimizer": optimizer.state_dict(), "spent": spent, "step": step, "mean": mean}, temporary)
    temporary.replace(state)


def _resume(state: Path, net: nn.Module, optimizer: torch.optim.Optimizer) -> tuple[float, int, float]:
    if not state.exists():
        return 0.0, 0, 0.0
    saved = torch.load(state, weights_only=True)
    net.load_state_dict(saved["net"])
    optimizer.load_state_dict(saved["optimizer"])
    return float(saved["spent"]), int(saved["step"]), float(saved["mean"])
