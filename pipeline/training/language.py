"""Train the language model on encoder features: first everything together, then the MTP layer alone on the model's own choices."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor
from torch.optim import AdamW

from pipeline.engine.checkpoint import save
from pipeline.engine.config import ModelConfig
from pipeline.engine.layers import Moe
from pipeline.engine.model import Model
from pipeline.engine.tokenizer import TextTokenizer, build
from pipeline.training.batches import Batch, Texts
from pipeline.training.card import card, model_card
from pipeline.training.losses import agreement, main_loss, mtp_losses
from pipeline.training.phrases import words
from pipeline.training.progress import Bar
from pipeline.training.ranks import average_gradients, run_ranks
from pipeline.training.shards import Views, read_shards

STAGES = ("language", "mtp", "done")


@dataclass(frozen=True, slots=True)
class LanguagePlan:
    """How long and how to train; a stage ends at its steps or at its share of the time, whichever comes first."""

    steps: int = 2400
    distil_steps: int = 400
    budget_s: float = 900.0
    distil_share: float = 0.12  # of the time
    batch: int = 8  # texts per process and step
    world: int = 2  # single-threaded processes
    rate: float = 2e-3
    mtp_weight: float = 0.3
    mtp_depth: int = 3
    distil_depth: int = 6
    deep_from: float = 0.65  # before this share of the stage only one token is drafted
    balance_rate: float = 1e-3
    save_every: int = 100
    held_out: int = 64
    bf16: bool = True  # matrix products in bfloat16, weights in float32
    seed: int = 0


@dataclass
class Run:
    """A training in progress: what is saved every few steps and read back after an interruption."""

    model: Model
    optimizer: AdamW
    stage: str = "language"
    step: int = 0
    elapsed_s: float = 0.0


def train_language(shards: Path, out_dir: Path, weights_dir: Path, plan: LanguagePlan) -> str:
    """Train on the shards of a folder and write the checkpoint to `weights_dir`; returns its digest.

    `out_dir` keeps the state (an interrupted run goes on from it) and `language.jsonl`, one line of figures per save.
    """
    views = read_shards(shards)  # refuses a bad data set before any process starts
    out_dir.mkdir(parents=True, exist_ok=True)
    run_ranks(_train_rank, plan.world, shards, out_dir, plan)
    tokenizer = TextTokenizer(build(words()))
    state = torch.load(out_dir / "language.pt", weights_only=True)
    model = Model(config_for(tokenizer, views.features.shape[2]))
    model.load_state_dict(state["model"])
    facts = card(model, {"plan": asdict(plan), "taken": steps_taken(out_dir), "phantoms": len(views), "held_out": state["figures"]})
    return save(weights_dir, model.eval(), tokenizer, facts, model_card(facts))


def steps_taken(out_dir: Path) -> dict[str, int]:
    """Steps of each stage, from the log: how far a run came within its time depends on the machine."""
    rows = [json.loads(line) for line in (out_dir / "language.jsonl").read_text(encoding="utf-8").splitlines()]
    return {stage: max(row["step"] for row in rows if row["stage"] == stage) for stage in STAGES[:-1]}


def split(views: Views, tokenizer: TextTokenizer, held_out: int) -> tuple[Texts, Texts]:
    """Training texts, and the last `held_out` rows (at most a tenth) that are never trained on."""
    cut = len(views) - min(held_out, max(1, len(views) // 10))
    parts = (slice(None, cut), slice(cut, None))
    train, test = (Texts(Views(views.features[part], views.truths[part], views.candidates[part]), tokenizer) for part in parts)
    return train, test


def config_for(tokenizer: TextTokenizer, feature_dim: int) -> ModelConfig:
    """The shape of the packaged model for a vocabulary and an encoder."""
    return ModelConfig(
        vocab_size=tokenizer.size,
        ct_feature_dim=feature_dim,
        ct_placeholder_id=tokenizer.ct_id,
        eos_token_id=tokenizer.eos_id,
        bos_token_id=tokenizer.bos_id,
        pad_token_id=tokenizer.pad_id,
    )


def _train_rank(rank: int, shards: Path, out_dir: Path, plan: LanguagePlan) -> None:
    """One process of the training; every process holds the same weights, process 0 saves and shows."""
    torch.manual_seed(plan.seed)
    tokenizer = TextTokenizer(build(words()))
    views = read_shards(shards)
    texts, held_out = split(views, tokenizer, plan.held_out)
    run = _resume(out_dir, Model(config_for(tokenizer, views.features.shape[2])), plan)
    while run.stage != STAGES[-1]:
        with Bar(f"training {run.stage}", shown=rank == 0) as bar:
            _stage(rank, run, texts, held_out, out_dir, plan, bar)
        run = _next_stage(run, plan)


def _stage(rank: int, run: Run, texts: Texts, held_out: Texts, out_dir: Path, plan: LanguagePlan, bar: Bar) -> None:
    """Run one stage to its end."""
    losses: list[float] = []
    mark = time.monotonic()
    while (done := agreed(share_done(run, plan))) < 1:
        losses.append(_train_step(rank, run, texts, plan, done))
        run.step += 1
        run.elapsed_s += time.monotonic() - mark
        mark = time.monotonic()
        bar.update(done, f"step {run.step} loss {losses[-1]:.3f}")
        if run.step % plan.save_every == 0:
            if rank == 0:
                _record(run, held_out, out_dir, plan, losses)
            losses = []
    if rank == 0:
        _record(run, held_out, out_dir, plan, losses)


def share_done(run: Run, plan: LanguagePlan) -> float:
    """How far the stage is, 0..1, by steps or by time."""
    distil = run.stage == "mtp"
    budget_s = plan.budget_s * (plan.distil_share if distil else 1 - plan.distil_share)
    return max(run.step / (plan.distil_steps if distil else plan.steps), run.elapsed_s / budget_s)


def agreed(value: float) -> float:
    """Process 0's value, so that all processes decide alike."""
    told = torch.tensor([value], dtype=torch.float64)
    dist.broadcast(told, 0)
    return float(told)


def _train_step(rank: int, run: Run, texts: Texts, plan: LanguagePlan, done: float) -> float:
    """One optimizer step; returns this process's loss. The batch depends on seed, stage, step and process alone."""
    model, distil = run.model.train(), run.stage == "mtp"
    batch = texts.batch(np.random.default_rng((plan.seed, int(distil), run.step, rank)), plan.batch)
    for group in run.optimizer.param_groups:
        group["lr"] = learning_rate(plan.rate, run.step, done)
    run.optimizer.zero_grad()
    with torch.autocast("cpu", torch.bfloat16, enabled=plan.bf16):
        loss = distil_loss(model, batch, plan) if distil else joint_loss(model, batch, plan, done)
    loss.backward()  # type: ignore[no-untyped-call]  # torch leaves backward unannotated
    average_gradients(model, stop=False)
    torch.nn.utils.clip_grad_norm_([p for p in model.parameters() if p.requires_grad], 1.0)
    run.optimizer.step()
    if not distil:
        balance(model, plan.balance_rate)
    return float(loss.detach())


def joint_loss(model: Model, batch: Batch, plan: LanguagePlan, done: float) -> Tensor:
    """Next-token loss and the mean loss of the recursive drafts."""
    loss, hidden = main_loss(model, batch)
    depth = plan.mtp_depth if done >= plan.deep_from else 1
    drafts = mtp_losses(model, hidden, batch.ids, batch.ids, batch.weights, depth)
    return loss + plan.mtp_weight * torch.stack(drafts).mean()


def distil_loss(model: Model, batch: Batch, plan: LanguagePlan) -> Tensor:
    """Mean loss of deep drafts against what the main model itself would say."""
    with torch.no_grad():
        _, hidden = main_loss(model, batch)
        chosen = model.logits(hidden).argmax(dim=-1)  # (B, T), of the token after each place
    targets = torch.cat([batch.ids[:, :1], chosen[:, :-1]], dim=1)  # (B, T)
    drafts = mtp_losses(model, hidden, batch.ids, targets, batch.weights.clamp(max=1.0), plan.distil_depth)
    return torch.stack(drafts).mean()


def learning_rate(peak: float, step: int, done: float) -> float:
    """A short warm-up, then a cosine down to a fiftieth of the peak."""
    return peak * min(1.0, (step + 1) / 100) * (0.02 + 0.98 * 0.5 * (1 + float(np.cos(np.pi * min(1.0, done)))))


def balance(model: Model, rate: float) -> None:
    """Move each router's bias towards experts that had less than their share, summed over the processes."""
    gates = [module.gate for module in model.modules() if isinstance(module, Moe)]
    loads = torch.stack([gate.load if gate.load is not None else torch.zeros_like(gate.e_score_correction_bias) for gate in gates])
    dist.all_reduce(loads)  # (gates, E)
    for gate, load in zip(gates, loads, strict=True):
        gate.e_score_correction_bias += rate * torch.sign(load.mean() - load)


def _optimizer(model: Model, stage: str, plan: LanguagePlan) -> AdamW:
    """All weights in the first stage, those of the MTP layer alone in the second."""
    own = set(model.mtp.parameters())
    for parameter in model.parameters():
        parameter.requires_grad_(stage == "language" or parameter in own)
    kept = [p for p in model.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in kept if p.dim() > 1], "weight_decay": 0.05},
        {"params": [p for p in kept if p.dim() <= 1], "weight_decay": 0.0},
    ]
    return AdamW(groups, lr=plan.rate, betas=(0.9, 0.95), fused=True)


def _next_stage(run: Run, plan: LanguagePlan) -> Run:
    stage = STAGES[STAGES.index(run.stage) + 1]
    return Run(run.model, _optimizer(run.model, stage, plan), stage)


def _record(run: Run, held_out: Texts, out_dir: Path, plan: LanguagePlan, losses: list[float]) -> None:
    """Append held-out figures of this moment to the log, and save the state."""
    batch = held_out.of(range(len(held_out)), np.random.default_rng(plan.seed))
    figures = agreement(run.model.eval(), batch, plan.distil_depth)
    figures["train_loss"] = float(np.mean(losses)) if losses else figures["loss"]
    row: dict[str, Any] = {"stage": run.stage, "step": run.step, "elapsed_s": run.elapsed_s}
    with (out_dir / "language.jsonl").open("a", encoding="utf-8") as log:
        log.write(json.dumps({name: round(value, 5) if isinstance(value, float) else value for name, value in (row | figures).items()}) + "\n")
    partial = out_dir / "language.pt.part"
    torch.save({"model": run.model.state_dict(), "optimizer": run.optimizer.state_dict(), "figures": figures, **row}, partial)
    partial.replace(out_dir / "language.pt")


def _resume(out_dir: Path, model: Model, plan: LanguagePlan) -> Run:
    """The saved run, or a fresh one."""
    path = out_dir / "language.pt"
    if not path.exists():
        return Run(model, _optimizer(model, "language", plan))
    state = torch.load(path, weights_only=True)
    model.load_state_dict(state["model"])
    optimizer = _optimizer(model, state["stage"], plan)
    optimizer.load_state_dict(state["optimizer"])
    return Run(model, optimizer, state["stage"], state["step"], state["elapsed_s"])
