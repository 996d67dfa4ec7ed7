"""The whole training, one leg after the other: encoder on phantoms, its features of other phantoms, language model on those."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

from safetensors.torch import save_file

from pipeline.encoder.net import CompactNet
from pipeline.training.dataset import write_dataset
from pipeline.training.language import LanguagePlan, train_language
from pipeline.training.vision import train_vision

ENCODER_SHARE, DATASET_SHARE = 0.43, 0.13  # of the time; the language model takes the rest
PHANTOMS = 8_000
WORLD = 2


def train(work_dir: Path, out_engine: Path, out_encoder: Path, *, seed: int, budget_minutes: float) -> None:
    """Train for about `budget_minutes` and put both models in their places. `work_dir` holds the state: each leg resumes where it stopped.

    How far a leg gets within its time depends on the machine; the steps taken stand on the cards.
    """
    budget_s = budget_minutes * 60
    net, steps = train_vision(work_dir, budget_s=ENCODER_SHARE * budget_s, seed=seed, world=WORLD)
    save_encoder(net, out_encoder, seed=seed, steps=steps)
    data = work_dir / "data"
    write_dataset(data, out_encoder, phantoms=PHANTOMS, budget_s=DATASET_SHARE * budget_s, seed=seed, world=WORLD)
    plan = replace(LanguagePlan(), budget_s=(1 - ENCODER_SHARE - DATASET_SHARE) * budget_s, seed=seed)
    train_language(data, work_dir / "language", out_engine, plan)


def save_encoder(net: CompactNet, folder: Path, *, seed: int, steps: int) -> None:
    """`compact.safetensors` in half precision, and its card."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "compact.safetensors"
    save_file({name: tensor.half().contiguous() for name, tensor in net.state_dict().items()}, path)
    path.chmod(0o644)  # safetensors writes 0600; the package is for every user
    card = {
        "name": "compact",
        "use": "phantom-only",
        "region": "chest",
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "parameters": sum(p.numel() for p in net.parameters()),
        "training": {"data": "synthetic chest phantoms, no patient data", "command": "ctreport train", "seed": seed, "steps": steps},
    }
    (folder / "card.json").write_text(json.dumps(card, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
