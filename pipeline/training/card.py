"""The model's card: what it is, what it was trained on, what it may not be used for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline.drafting.departments import NAMES
from pipeline.drafting.schema import VERSION
from pipeline.engine.model import Model
from pipeline.training.words import terms

DATA = (
    "encoder features of {phantoms} views of synthetic phantoms (nodules, consolidation, emphysema, effusion, fibrosis, lymph nodes, liver lesions, "
    "normals; with and without low dose and contrast medium); texts from a grammar whose every choice follows from what the model sees; "
    "no patient data"
)
OBJECTIVES = (
    "next token (facts weigh 3 times) and {depth} tokens drafted recursively by the one MTP layer; then that layer alone, {distil} tokens deep, "
    "against the model's own choices"
)
ABOUT = """# ctreport demo model

A small language model of the DeepSeek-V3 architecture (multi-head latent attention, mixture of experts, one Multi-Token
Prediction layer) that turns the features of the compact encoder into a Chinese chest CT report under a JSON schema (version {schema}),
at once or section after section, for the departments {departments}.

**Use: phantom-only. Not for clinical use.** It has seen synthetic phantoms and nothing else. It drafts phantoms, and real scans in demo
mode only, under the watermark 演示模型，不可用于临床; such a draft can be neither signed nor delivered. Phantom figures say nothing about
performance on patients.

| | |
|---|---|
| weights | {parameters} parameters, bfloat16, published DeepSeek tensor names; {shape} |
| vocabulary | {vocabulary} tokens: words of the corpus, {terms} medical terms, numbers 0–140, pieces of the JSON, 256 bytes |
| data | {data} |
| command | `ctreport train` (seed {seed}): {taken} steps of {texts} texts within {minutes} minutes of processor time of each of {world} processes |
| objectives | {objectives} |

## Figures on held-out phantoms, teacher-forced (recorded by training)

| figure | value |
|---|---|
{rows}

`facts_right`: share of terms, sizes and list ends that the model predicts; `draftN`: share of N-th MTP drafts that equal the main model's choice.

## Figures from images (`ctreport eval`)

{evaluation}

## Limits

- Chest and the upper abdomen that it shows. At most six lesions, two lymph nodes and two liver lesions; template wording; findings that the
  phantoms do not have (fractures, masses of the mediastinum, vessels, …) are never written, and the sentence that a region is normal means only
  that none of the listed findings was seen there.
- Lesions that the encoder does not propose are never written. Sizes are the encoder's measures put into words.
- Departments differ in wording and length, never in findings. No probability of malignancy is given.
- Real CT is out of distribution; `ood` tells how far, and a flag says so.
- The same text at every draft length holds for float32 on the CPU.
- `sentences.txt` are reports of the training corpus, for the lookup drafter; without the file the texts are the same.
"""


def card(model: Model, facts: Mapping[str, Any]) -> dict[str, Any]:
    """The content of card.json: what the model is, and the facts of its training."""
    config = model.config
    experts = f"{config.n_routed_experts} routed experts (top {config.num_experts_per_tok}) and {config.n_shared_experts} shared"
    made = {
        "parameters": sum(p.numel() for p in model.parameters()),
        "shape": f"{config.num_hidden_layers} layers, hidden {config.hidden_size}, {experts}",
        "vocabulary": config.vocab_size,
        "schema": VERSION,
        "departments": list(NAMES),
        "terms": len(terms()),
    }
    return {"name": "ctreport-demo", "use": "phantom-only", "region": "chest", "command": "ctreport train", **made, **facts}


def model_card(facts: Mapping[str, Any]) -> str:
    """The text of MODEL_CARD.md, from the content of card.json."""
    plan, taken = facts["plan"], facts["taken"]
    return ABOUT.format(
        parameters=f"{facts['parameters']:,}",
        shape=facts["shape"],
        vocabulary=facts["vocabulary"],
        schema=facts["schema"],
        departments=", ".join(facts["departments"]),
        terms=facts["terms"],
        objectives=OBJECTIVES.format(depth=plan["mtp_depth"], distil=plan["distil_depth"]),
        data=DATA.format(phantoms=f"{facts['phantoms']:,}"),
        seed=plan["seed"],
        taken=" + ".join(str(steps) for steps in taken.values()),
        texts=plan["batch"] * plan["world"],
        minutes=f"{plan['budget_s'] / 60:.0f}",
        world=plan["world"],
        rows="\n".join(f"| {name} | {value:.4f} |" for name, value in facts["held_out"].items()),
        evaluation=_evaluation(facts.get("evaluation")),
    )


def note_evaluation(folder: Path, figures: Mapping[str, Any]) -> None:
    """Put the figures of `ctreport eval` on the card of a checkpoint; weights and digest stay as they are."""
    path = folder / "card.json"
    facts = json.loads(path.read_text(encoding="utf-8")) | {"evaluation": dict(figures)}
    path.write_text(json.dumps(facts, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
    (folder / "MODEL_CARD.md").write_text(model_card(facts), encoding="utf-8")


def _evaluation(figures: Mapping[str, Any] | None) -> str:
    if figures is None:
        return "Not measured yet: run `ctreport eval`."
    told = {name: figure for name, figure in figures.items() if isinstance(figure, dict) and "value" in figure}
    told |= {"lesion_f1 with shuffled images": figures["shuffled"]["lesion_f1"]}
    told |= {f"followed: {what}": figure for what, figure in figures["counterfactuals"].items()}
    rows = [f"| {name} | {_number(f['value'])} | {_number(f['low'])} – {_number(f['high'])} |" for name, f in told.items()]
    among = f"{figures['n']} phantoms that neither model was trained on (seeds from {figures['seed']})."
    head = f"{among}\n\n| figure | value | 95 % interval |\n|---|---|---|"
    return "\n".join([head, *rows])


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
