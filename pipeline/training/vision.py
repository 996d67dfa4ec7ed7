"""Training of the compact encoder on rendered phantoms, in legs that resume where the last one stopped.

Each process is shown a new phantom and, mirrored, an older one at every step. Time is counted in processor seconds of a process, so that a
shared machine shortens no training.
"""

from __future__ import annotations

import json
import math
import time
from collections import deque
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pipeline.encoder.net import CompactNet
from pipeline.training.examples import Example, example
from pipeline.training.optimizing import Optimizers, Rates, named
from pipeline.training.progress import Bar
from pipeline.training.ranks import agreed, average_gradients, run_ranks
from pipeline.training.vision_losses import WEIGHTS, losses

RATES = Rates(adamw=2e-3, muon=2e-3, decay=1e-2)
LOWEST_SHARE = 0.01  # of the peak rate, at the end
WARM_UP_STEPS = 100
FIRST_SEED = 10_000_000  # training seeds start here; evaluation uses others
CROWDED_SHARE = 0.5  # of the phantoms: more to learn from each, mostly what is hard to find
REMEMBERED = 256  # phantoms that are shown again, mirrored
AVERAGE = 0.998  # of the weights that are kept: a running mean
LOG_EVERY, SAVE_EVERY = 20, 200
STATE = "vision.pt"


@dataclass
class _Run:
    net: CompactNet
    mean: CompactNet
    optimizers: Optimizers
    step: int = 0
    spent_s: float = 0.0
    older: deque[Example] = field(default_factory=lambda: deque(maxlen=REMEMBERED))


def train_vision(out: Path, *, budget_s: float, seed: int, world: int = 1, leg_s: float = math.inf) -> tuple[CompactNet, int, bool]:
    """Train until the first of `world` processes has spent `budget_s` processor seconds, at most `leg_s` of them now, resuming from `out/vision.pt`.

    Returns the averaged net, the steps it took and whether the budget is spent. Each process logs to `out/vision-RANK.jsonl`.
    """
    out.mkdir(parents=True, exist_ok=True)
    run_ranks(_train_rank, world, out, budget_s, seed, leg_s)
    saved = torch.load(out / STATE, weights_only=True)
    net = CompactNet()
    net.load_state_dict(saved["mean"])
    return net.eval(), int(saved["step"]), float(saved["spent"]) >= budget_s


def _train_rank(rank: int, out: Path, budget_s: float, seed: int, leg_s: float) -> None:
    torch.manual_seed(seed)
    run = _resumed(out / STATE)
    torch.manual_seed(seed * 1000 + rank * 100 + run.step)  # jitter differs between processes, weights do not
    began, before = time.process_time(), run.spent_s
    first = FIRST_SEED + (seed * 8 + rank) * 1_000_000
    with Bar("encoder", shown=rank == 0) as bar, (out / f"vision-{rank}.jsonl").open("a", encoding="utf-8") as log_file:
        while True:
            share, over = agreed(run.spent_s / budget_s, run.spent_s - before >= leg_s)
            if share >= 1 or over:
                break
            parts = _step(run, _batch(run, first + run.step), share)
            run.spent_s = before + time.process_time() - began
            if run.step % LOG_EVERY == 0:
                log_file.write(json.dumps({"step": run.step, "s": round(run.spent_s, 1), **parts}) + "\n")
                log_file.flush()
                bar.update(share, f"step {run.step}, loss {sum(parts.values()):.3f}")
            if rank == 0 and run.step % SAVE_EVERY == 0:
                _save(out / STATE, run)
    if rank == 0:
        _save(out / STATE, run)


def _batch(run: _Run, seed: int) -> list[Example]:
    """A new phantom, and an older one in the mirror."""
    new = example(seed, crowded=bool(np.random.default_rng([seed, 4]).random() < CROWDED_SHARE))
    run.older.append(new)
    chosen = run.older[int(np.random.default_rng([seed, 3]).integers(len(run.older)))]
    return [new, replace(chosen, mirrored=True)]


def _step(run: _Run, batch: list[Example], share: float) -> dict[str, float]:
    """One step of the optimizer at this share of the budget; the parts of the loss."""
    with torch.autocast("cpu", torch.bfloat16):
        parts = losses(run.net, batch)
    run.optimizers.zero_grad()
    torch.stack([WEIGHTS.get(name, 1.0) * value for name, value in parts.items()]).sum().backward()  # type: ignore[no-untyped-call]  # torch
    average_gradients(run.net)
    torch.nn.utils.clip_grad_norm_(run.net.parameters(), 5.0)
    run.optimizers.step(share_at(run.step, share))
    run.step += 1
    _average(run)
    return {name: round(float(value.detach()), 4) for name, value in parts.items()}


def share_at(step: int, share: float) -> float:
    """Of the peak rates: a short warm-up, then a cosine over the budget."""
    return min(1.0, (step + 1) / WARM_UP_STEPS) * max(LOWEST_SHARE, 0.5 * (1 + math.cos(math.pi * share)))


@torch.no_grad()
def _average(run: _Run) -> None:
    kept = min(AVERAGE, run.step / (run.step + 10))
    for mean, value in zip(run.mean.parameters(), run.net.parameters(), strict=True):
        mean.lerp_(value, 1 - kept)


def _save(path: Path, run: _Run) -> None:
    state: dict[str, Any] = {"net": run.net.state_dict(), "mean": run.mean.state_dict(), "optimizers": run.optimizers.state()}
    temporary = path.with_suffix(".new")
    torch.save(state | {"spent": run.spent_s, "step": run.step}, temporary)
    temporary.replace(path)


def _resumed(path: Path) -> _Run:
    net, mean = CompactNet(), CompactNet()
    mean.load_state_dict(net.state_dict())
    run = _Run(net, mean, Optimizers(named(net), RATES))
    if path.exists():
        saved = torch.load(path, weights_only=True)
        net.load_state_dict(saved["net"])
        mean.load_state_dict(saved["mean"])
        run.optimizers.load(saved["optimizers"])
        run.step, run.spent_s = int(saved["step"]), float(saved["spent"])
    return run
