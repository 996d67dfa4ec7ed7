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
from pipeline.engine.generate import Engine, Request
from pipeline.engine.policy import Policy

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


def test_reports_are_valid_and_identical_under_every_policy_alone_and_in_a_batch(engine: Engine) -> None:
    rng = np.random.default_rng(0)
    images = [rng.normal(size=(ROWS, engine.config.ct_feature_dim)).astype(np.float32) for _ in range(2)]
    wanted = [Request(render("咳嗽", ROWS), image, schema_text()) for image in images]
    plain = engine.generate_many(wanted, batch=1, policy=Policy.plain())
    for batch, policy in ((1, Policy.fixed(6)), (1, Policy.default()), (2, Policy.default())):
        made = engine.generate_many(wanted, batch=batch, policy=policy)
        assert [text.ids for text in made] == [text.ids for text in plain]
        assert all(fast.generation.verify_count < slow.generation.verify_count for fast, slow in zip(made, plain, strict=True))
    for text in plain:
        jsonschema.validate(json.loads(text.text), report_schema())
