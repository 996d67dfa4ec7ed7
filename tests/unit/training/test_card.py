"""The model card says what the model is, and takes the figures of an evaluation without touching the weights."""

from __future__ import annotations

import json
from pathlib import Path

from pipeline.engine.checkpoint import digest, load, save
from pipeline.engine.seeded import seeded_model, tiny_config
from pipeline.engine.tokenizer import TextTokenizer, build
from pipeline.training.card import card, model_card, note_evaluation

FACTS = {
    "plan": {"seed": 3, "batch": 8, "world": 2, "budget_s": 600.0, "mtp_depth": 3, "distil_depth": 6},
    "taken": {"language": 900, "mtp": 100},
    "phantoms": 5248,
    "held_out": {"facts_right": 0.95},
}
FIGURE = {"value": 0.8, "low": 0.7, "high": 0.9}
EVALUATION = {"n": 50, "seed": 9, "lesion_f1": FIGURE, "size_mae_mm": {"value": None, "low": None, "high": None}}


def test_figures_of_an_evaluation_stand_on_the_card_and_the_digest_stays(tmp_path: Path) -> None:
    tokenizer = TextTokenizer(build(["左肺"]))
    model = seeded_model(tiny_config(tokenizer, 4), tokenizer)
    facts = card(model, FACTS)
    before = save(tmp_path, model, tokenizer, facts, model_card(facts))
    assert "Not measured yet" in (tmp_path / "MODEL_CARD.md").read_text(encoding="utf-8")
    note_evaluation(tmp_path, EVALUATION | {"shuffled": {"lesion_f1": FIGURE}, "counterfactuals": {"removed": FIGURE | {"n": 9}}})
    text = (tmp_path / "MODEL_CARD.md").read_text(encoding="utf-8")
    assert "| lesion_f1 | 0.800 | 0.700 – 0.900 |" in text
    assert "| followed: removed | 0.800 | 0.700 – 0.900 |" in text
    assert "900 + 100 steps of 16 texts" in text
    assert "phantom-only. Not for clinical use." in text
    assert "for the departments radiology, oncology, pulmonology" in text
    assert digest(tmp_path) == before
    assert load(tmp_path).card["use"] == "phantom-only"
    assert json.loads((tmp_path / "card.json").read_text(encoding="utf-8"))["evaluation"]["n"] == 50
