"""Train the language model on encoder features: first everything together, then the MTP layer alone on the model's own choices."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from pipeline.engine.checkpoint import save
from pipeline.engine.layers import Moe
from pipeline.engine.model import Model
from pipeline.engine.tokenizer import TextTokenizer
from pipeline.training.batches import Batch, Texts
from pipeline.training.card import card, model_card
from pipeline.training.curves import draw_curves
from pipeline.training.losses import agreement, distil_loss, joint_loss
from pipeline.training.optimizing import Optimizers, Rates, named
from pipeline.training.plan import LanguagePlan, config_for
from pipeline.training.progress import Bar
from pipeline.training.ranks import agreed, average_gradients, run_ranks
from pipeline.training.sentences import typical_reports
from pipeline.training.shards import Views, read_shards
from pipeline.training.words import make_tokenizer

__all__ = ["STAGES", "LanguagePlan", "train_language"]

STAGES = ("language", "mtp")
STATE, LOG, CURVES = "language.pt", "language.jsonl", "language.png"
TABLES = ("model.embed_tokens", "lm_head", "ct_projector")  # rows of which only some are met in a step
DECAY = 0.05
HELD_OUT_AT_ONCE = 8


@dataclass
class Run:
    """A training in progress: what is saved every few steps and read back after an interruption."""

    model: Model
    optimizers: Optimizers
    stage: str = "language"
    step: int = 0
    elapsed_s: float = 0.0  # processor seconds in this stage


def train_language(shards: Path, out_dir: Path, weights_dir: Path, plan: LanguagePlan, run_for_s: float = math.inf) -> str | None:
    """Train on the shards of a folder and write the checkpoint to `weights_dir`; returns its digest, None where `run_for_s` ended before the plan.

    `run_for_s` are processor seconds of one process. `out_dir` keeps the state (the next call goes on from it), `language.jsonl` with one line of
    figures per save, and their curves.
    """
    views = read_shards(shards)  # refuses a bad data set before any process starts
    out_dir.mkdir(parents=True, exist_ok=True)
    run_ranks(_train_rank, plan.world, shards, out_dir, plan, run_for_s)
    rows = _log(out_dir)
    draw_curves(_in_a_row(rows), out_dir / CURVES)
    state = torch.load(out_dir / STATE, weights_only=True)
    if state["stage"] != STAGES[-1] or share_done(state["stage"], state["step"], state["elapsed_s"], plan) < 1:
        return None
    tokenizer = make_tokenizer()
    model = Model(config_for(tokenizer, views.features.shape[2], plan.layers))
    model.load_state_dict(state["model"])
    facts = card(model, {"plan": asdict(plan), "taken": steps_taken(rows), "phantoms": len(views), "held_out": state["figures"]})
    return save(weights_dir, model.eval(), tokenizer, facts, model_card(facts), sentences=typical_reports(views))


def steps_taken(rows: list[dict[str, Any]]) -> dict[str, int]:
    """Steps of each stage, from the log: how far a run came within its time depends on the machine."""
    return {stage: max(row["step"] for row in rows if row["stage"] == stage) for stage in STAGES}


def split(views: Views, tokenizer: TextTokenizer, held_out: int) -> tuple[Texts, Texts]:
    """Training texts, and the last `held_out` rows (at most a tenth) that are never trained on."""
    cut = len(views) - min(held_out, max(1, len(views) // 10))
    parts = (slice(None, cut), slice(cut, None))
    train, test = (Texts(Views(views.features[part], views.truths[part], views.candidates[part]), tokenizer) for part in parts)
    return train, test


def _train_rank(rank: int, shards: Path, out_dir: Path, plan: LanguagePlan, run_for_s: float) -> None:
    """One process of the training; every process holds the same weights, process 0 saves and shows."""
    torch.manual_seed(plan.seed)
    tokenizer = make_tokenizer()
    views = read_shards(shards)
    texts, held_out = split(views, tokenizer, plan.held_out)
    run = _resume(out_dir, Model(config_for(tokenizer, views.features.shape[2], plan.layers)), plan)
    leg = Leg(run_for_s)
    recorder = Recorder(held_out, out_dir, plan) if rank == 0 else None
    for stage in STAGES[STAGES.index(run.stage) :]:
        if run.stage != stage:
            run = Run(run.model, _optimizers(run.model, stage, plan), stage)
        with Bar(f"training {stage}", shown=rank == 0) as bar:
            if not _stage(rank, run, texts, bar, leg, recorder, plan):
                return


class Leg:
    """How long this call may go on: processor seconds of this process since it began."""

    def __init__(self, run_for_s: float) -> None:
        self._began, self._run_for_s = time.process_time(), run_for_s

    @property
    def over(self) -> bool:
        """True once the time is spent."""
        return time.process_time() - self._began >= self._run_for_s


class Recorder:
    """Writes the log and the state."""

    def __init__(self, held_out: Texts, out_dir: Path, plan: LanguagePlan) -> None:
        self._out_dir, self._depth = out_dir, plan.distil_depth
        self._texts, self._seed = held_out, plan.seed

    def record(self, run: Run, losses: list[float]) -> None:
        """Append held-out figures of this moment to the log, and save the state, under its name only when it is whole."""
        figures = averaged([agreement(run.model.eval(), batch, self._depth) for batch in self._batches()])
        figures["train_loss"] = float(np.mean(losses)) if losses else figures["loss"]
        row: dict[str, Any] = {"stage": run.stage, "step": run.step, "elapsed_s": run.elapsed_s}
        with (self._out_dir / LOG).open("a", encoding="utf-8") as log:
            log.write(json.dumps({name: round(value, 5) if isinstance(value, float) else value for name, value in (row | figures).items()}) + "\n")
        partial = self._out_dir / f"{STATE}.part"
        torch.save({"model": run.model.state_dict(), "optimizers": run.optimizers.state(), "figures": figures, **row}, partial)
        partial.replace(self._out_dir / STATE)

    def _batches(self) -> Iterator[Batch]:
        rows = range(len(self._texts))
        texts = sorted((self._texts.text(row, np.random.default_rng((self._seed, row))) for row in rows), key=lambda text: len(text.ids))
        for first in range(0, len(texts), HELD_OUT_AT_ONCE):
            yield self._texts.padded(texts[first : first + HELD_OUT_AT_ONCE])


def averaged(figures: list[dict[str, float]]) -> dict[str, float]:
    """Mean of each figure over batches of about the same size."""
    return {name: float(np.mean([one[name] for one in figures])) for name in figures[0]}


def _stage(rank: int, run: Run, texts: Texts, bar: Bar, leg: Leg, recorder: Recorder | None, plan: LanguagePlan) -> bool:
    """Run one stage to its end; False where the leg ended before it."""
    losses: list[float] = []
    before, mark = run.elapsed_s, time.process_time()
    while True:
        done, over = agreed(share_done(run.stage, run.step, run.elapsed_s, plan), leg.over)
        if done >= 1 or over:
            break
        losses.append(_train_step(rank, run, texts, plan, done))
        run.step += 1
        run.elapsed_s = before + time.process_time() - mark
        bar.update(done, _line(run, losses[-1], done, plan))
        if run.step % plan.save_every == 0 and recorder is not None:
            recorder.record(run, losses)
            losses = []
    if recorder is not None:
        recorder.record(run, losses)
    return done >= 1


def _line(run: Run, loss: float, done: float, plan: LanguagePlan) -> str:
    left_min = run.elapsed_s * (1 / done - 1) / 60 if done else plan.budget_s / 60
    return f"step {run.step}, loss {loss:.3f}, {run.step * plan.batch * plan.world} texts in {run.elapsed_s:.0f} s, {left_min:.0f} min left"


def share_done(stage: str, step: int, elapsed_s: float, plan: LanguagePlan) -> float:
    """How far a stage is, 0..1, by steps or by time."""
    distil = stage == STAGES[-1]
    budget_s = plan.budget_s * (plan.distil_share if distil else 1 - plan.distil_share)
    return max(step / (plan.distil_steps if distil else plan.steps), elapsed_s / budget_s)


def _train_step(rank: int, run: Run, texts: Texts, plan: LanguagePlan, done: float) -> float:
    """One optimizer step; returns this process's loss. The batch depends on seed, stage, step and process alone."""
    model, distil = run.model.train(), run.stage == "mtp"
    batch = texts.batch((plan.seed, int(distil)), run.step, plan.batch, rank, plan.world)
    run.optimizers.zero_grad()
    with torch.autocast("cpu", torch.bfloat16, enabled=plan.bf16):
        depth = plan.distil_depth if distil else plan.depth_at(run.step, done)
        loss = distil_loss(model, batch, depth) if distil else joint_loss(model, batch, depth, plan.mtp_weight)
    loss.backward()  # type: ignore[no-untyped-call]  # torch leaves backward unannotated
    average_gradients(model)
    torch.nn.utils.clip_grad_norm_([p for p in model.parameters() if p.requires_grad], 1.0)
    run.optimizers.step(plan.share_at(run.step, done))
    if not distil:
        balance(model, plan.balance_rate)
    return float(loss.detach())


def balance(model: Model, rate: float) -> None:
    """Move each router's bias towards experts that had less than their share, summed over the processes."""
    gates = [module.gate for module in model.modules() if isinstance(module, Moe)]
    loads = torch.stack([gate.load if gate.load is not None else torch.zeros_like(gate.e_score_correction_bias) for gate in gates])
    dist.all_reduce(loads)  # (gates, E)
    for gate, load in zip(gates, loads, strict=True):
        gate.e_score_correction_bias += rate * torch.sign(load.mean() - load)


def _optimizers(model: Model, stage: str, plan: LanguagePlan) -> Optimizers:
    """Of all weights in the first stage, of those of the MTP layer alone in the second."""
    own = set(model.mtp.parameters())
    for parameter in model.parameters():
        parameter.requires_grad_(stage == "language" or parameter in own)
    return Optimizers(named(model), Rates(plan.rate, plan.muon_rate, DECAY), TABLES)


def _resume(out_dir: Path, model: Model, plan: LanguagePlan) -> Run:
    """The saved run, or a fresh one."""
    path = out_dir / STATE
    if not path.exists():
        return Run(model, _optimizers(model, "language", plan))
    state = torch.load(path, weights_only=True)
    model.load_state_dict(state["model"])
    optimizers = _optimizers(model, state["stage"], plan)
    optimizers.load(state["optimizers"])
    return Run(model, optimizers, state["stage"], state["step"], state["elapsed_s"])


def _log(out_dir: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out_dir / LOG).read_text(encoding="utf-8").splitlines()]


def _in_a_row(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows whose time goes on through the stages."""
    spent = {stage: max((row["elapsed_s"] for row in rows if row["stage"] == stage), default=0.0) for stage in STAGES}
    return [row | {"elapsed_s": row["elapsed_s"] + (spent["language"] if row["stage"] == "mtp" else 0.0)} for row in rows]
