"""The whole training, one stage after the other: encoder on phantoms, its features of other phantoms, language model on those."""

from __future__ import annotations

import hashlib
import json
import math
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from safetensors.torch import save_file

from pipeline.encoder.net import CompactNet
from pipeline.encoder.outlying import FILE as OUTLYING
from pipeline.encoder.threshold import FILE as THRESHOLD
from pipeline.training.dataset import write_dataset
from pipeline.training.known import VOLUMES, calibrate
from pipeline.training.language import LanguagePlan, train_language
from pipeline.training.vision import train_vision

ENCODER_SHARE, DATASET_SHARE = 0.44, 0.085  # of the time; the language model takes the rest
PHANTOMS = 12_000
WORLD = 2


def train(
    work_dir: Path, out_engine: Path, out_encoder: Path, *, seed: int, budget_minutes: float, leg_minutes: float = math.inf, known: int = VOLUMES
) -> bool:
    """Train for `budget_minutes` of two processors in all, `leg_minutes` of them now, and put both models in their places; True when all is done.

    `work_dir` holds the state: a next leg goes on where the last one stopped. How far a stage gets within its time depends on the machine; the
    steps taken stand on the cards.
    """
    budget_s, left_s = budget_minutes * 60, leg_minutes * 60
    began = time.monotonic()
    net, steps, done = train_vision(work_dir, budget_s=ENCODER_SHARE * budget_s, seed=seed, world=WORLD, leg_s=left_s)
    if not done:
        return False
    save_encoder(net, out_encoder, seed=seed, steps=steps, minutes=ENCODER_SHARE * budget_minutes)
    if not (out_encoder / OUTLYING).exists():
        calibrate(work_dir, out_encoder, seed=seed, volumes=known, world=WORLD)
    data = work_dir / "data"
    write_dataset(data, out_encoder, phantoms=PHANTOMS, budget_s=DATASET_SHARE * budget_s, seed=seed, world=WORLD)
    left_s -= time.monotonic() - began
    if left_s <= 0:
        return False
    plan = replace(LanguagePlan(), budget_s=(1 - ENCODER_SHARE - DATASET_SHARE) * budget_s, seed=seed)
    return train_language(data, work_dir / "language", out_engine, plan, run_for_s=left_s) is not None


def save_encoder(net: CompactNet, folder: Path, *, seed: int, steps: int, minutes: float) -> None:
    """`compact.safetensors` in half precision, and its card. Weights that stand there already stay, and what was calibrated on them."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "compact.safetensors"
    before = path.read_bytes() if path.exists() else b""
    save_file({name: tensor.half().contiguous() for name, tensor in net.state_dict().items()}, path)
    path.chmod(0o644)  # safetensors writes 0600; the package is for every user
    if path.read_bytes() != before:
        for calibrated in (OUTLYING, THRESHOLD):
            (folder / calibrated).unlink(missing_ok=True)
    card: dict[str, Any] = {
        "name": "compact",
        "use": "phantom-only",
        "region": "chest",
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "parameters": sum(p.numel() for p in net.parameters()),
        "training": {
            "data": "synthetic chest phantoms, no patient data",
            "command": "ctreport train",
            "seed": seed,
            "steps": steps,
            "phantoms": steps * WORLD,
            "minutes_of_two_processors": round(minutes, 1),
        },
    }
    (folder / "card.json").write_text(json.dumps(card, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
