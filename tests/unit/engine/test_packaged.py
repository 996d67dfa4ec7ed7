"""The packaged model: small, phantom-only, and the same text at every draft length."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import numpy as np
import pytest

from pipeline.drafting.prompt import render
from pipeline.drafting.schema import report_schema, schema_text
from pipeline.engine.checkpoint import PACKAGED, save
from pipeline.engine.generate import Engine

ROWS = 24


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine.load(PACKAGED)


def test_the_card_forbids_patients_and_the_weights_are_small(engine: Engine) -> None:
    assert engine.card["use"] == "phantom-only"
    assert sum(path.stat().st_size for path in PACKAGED.iterdir()) <= 20e6
    assert "Not for clinical use" in (PACKAGED / "MODEL_CARD.md").read_text(encoding="utf-8")


def test_saving_it_again_changes_no_byte(engine: Engine, tmp_path: Path) -> None:
    assert save(tmp_path, engine.model, engine.tokenizer, engine.card, "") == engine.digest


def test_reports_are_valid_and_identical_with_drafting_on_or_off(engine: Engine) -> None:
    rng = np.random.default_rng(0)
    for _ in range(3):
        features = rng.normal(size=(ROWS, engine.config.ct_feature_dim)).astype(np.float32)
        plain, drafted = (engine.generate(render("咳嗽", ROWS), features, schema=schema_text(), k=k) for k in (0, 6))
        assert plain.ids == drafted.ids
        assert drafted.generation.verify_count < plain.generation.verify_count
        jsonschema.validate(json.loads(plain.text), report_schema())
