"""The model's card: what it is, what it was trained on, what it may not be used for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipeline.engine.model import Model

ABOUT = """# ctreport demo model

A small language model of the DeepSeek-V3 architecture (multi-head latent attention, mixture of experts, one Multi-Token
Prediction layer) that turns the features of the compact encoder into a Chinese chest CT report under a JSON schema.

**Use: phantom-only. Not for clinical use.** It has seen synthetic phantoms and nothing else. It drafts phantoms, and real scans in demo
mode only, under the watermark 演示模型，不可用于临床; such a draft can be neither signed nor delivered. Phantom figures say nothing about
performance on patients.

| | |
|---|---|
| weights | {parameters} parameters, bfloat16, published DeepSeek tensor names; {shape} |
| vocabulary | {vocabulary} tokens: words of the corpus, numbers 0–140, pieces of the JSON, 256 bytes |
| data | encoder features of {phantoms} views of synthetic phantoms (chest, nodules, consolidation, effusion, low-dose variants); no patient data |
| command | `ctreport train` (seed {seed}, at most {steps} + {distil} steps, {minutes} minutes of time limit, {threads} CPU processes) |

## Figures on held-out phantoms, teacher-forced (recorded by training)

| figure | value |
|---|---|
{rows}

`facts_right`: share of terms, sizes and list ends that the model predicts; `draftN`: share of N-th MTP drafts that equal the main model's choice.
Lesion F1 and the like are measured from images by `ctreport eval`.

## Limits

- Chest only, template wording, at most six lesions. Sizes are the encoder's measures put into words.
- Lesions that the encoder does not propose are never written.
- The same text at every draft length holds for float32 on the CPU.
"""


def card(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The content of card.json."""
    return {"name": "ctreport-demo", "use": "phantom-only", "region": "chest", "command": "ctreport train", **facts}


def model_card(facts: Mapping[str, Any], model: Model) -> str:
    """The text of MODEL_CARD.md."""
    config, plan = model.config, facts["plan"]
    experts = f"{config.n_routed_experts} routed experts (top {config.num_experts_per_tok}) and {config.n_shared_experts} shared"
    return ABOUT.format(
        parameters=f"{sum(p.numel() for p in model.parameters()):,}",
        shape=f"{config.num_hidden_layers} layers, hidden {config.hidden_size}, {experts}",
        vocabulary=config.vocab_size,
        phantoms=facts["phantoms"],
        seed=plan["seed"],
        steps=plan["steps"],
        distil=plan["distil_steps"],
        minutes=round(plan["budget_s"] / 60),
        threads=plan["world"],
        rows="\n".join(f"| {name} | {value:.4f} |" for name, value in facts["held_out"].items()),
    )
