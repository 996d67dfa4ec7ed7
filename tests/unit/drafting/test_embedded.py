"""The embedded engine as a drafter, on seeded weights."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pipeline.drafting.embedded import EmbeddedDrafter
from pipeline.drafting.generator import Ask
from pipeline.drafting.parse import parse
from pipeline.drafting.prompt import section_prompt
from pipeline.drafting.schema import FINDINGS, section_schema
from pipeline.engine.seeded import write_seeded_checkpoint
from pipeline.errors import BadDraft, ModelMissing, NotAllowed
from pipeline.model import Features

FEATURES = Features(np.random.default_rng(1).standard_normal((4, 8)).astype(np.float32), "seeded", "1", "")


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoint")
    write_seeded_checkpoint(folder, feature_dim=8)
    return folder


@pytest.fixture
def as_live(checkpoint: Path, tmp_path: Path) -> Path:
    """The same checkpoint with a card that says it is live."""
    for part in checkpoint.iterdir():
        (tmp_path / part.name).write_bytes(part.read_bytes())
    (tmp_path / "card.json").write_text(json.dumps({"name": "seeded", "use": "live"}))
    return tmp_path


def test_an_answer_is_a_valid_report_and_says_who_wrote_it(checkpoint: Path) -> None:
    answer = EmbeddedDrafter(checkpoint, k=3, max_tokens=600).draft(FEATURES, "咳嗽", "radiology")
    parse(answer.text)
    assert (answer.source.rung, answer.source.model, answer.source.phantom_only) == ("embedded", "seeded", True)
    assert len(answer.source.model_digest) == 64
    assert answer.generation.tokens > 0


def test_the_text_does_not_depend_on_the_draft_length(checkpoint: Path) -> None:
    texts = {EmbeddedDrafter(checkpoint, k=k, max_tokens=600).draft(FEATURES, "", "radiology").text for k in (0, 1, 4)}
    assert len(texts) == 1


def test_a_search_finds_a_whole_report_that_is_at_least_as_likely_as_that_of_one_branch(checkpoint: Path) -> None:
    drafter = EmbeddedDrafter(checkpoint, k=3, max_tokens=600)
    (one, low), (wide, high) = (drafter.search(FEATURES, "咳嗽", "radiology", width) for width in (1, 4))
    assert one.text == drafter.draft(FEATURES, "咳嗽", "radiology").text
    parse(wide.text)
    assert high >= low
    assert wide.source.rung == "embedded"
    assert 0 < wide.generation.verify_count <= wide.generation.tokens


def test_a_search_cut_at_the_limit_is_no_draft(checkpoint: Path) -> None:
    with pytest.raises(BadDraft, match="cut at 16 tokens"):
        EmbeddedDrafter(checkpoint, k=3, max_tokens=16).search(FEATURES, "", "radiology", 2)


def test_only_a_live_model_may_write_for_real_studies(checkpoint: Path, as_live: Path) -> None:
    assert EmbeddedDrafter(checkpoint, 3, 600).phantom_only
    assert not EmbeddedDrafter(as_live, 3, 600).phantom_only


def test_features_of_another_encoder_are_refused_before_decoding(checkpoint: Path) -> None:
    other = replace(FEATURES, array=np.zeros((4, 768), np.float32), encoder="medsam")
    sentence = r"encoder 'medsam' gives features of 768 columns, the projector of model 'seeded' takes 8 and gives 64"
    with pytest.raises(ModelMissing, match=sentence):
        EmbeddedDrafter(checkpoint, k=3, max_tokens=600).draft(other, "", "radiology")


def test_an_answer_cut_at_the_limit_is_no_draft(checkpoint: Path) -> None:
    with pytest.raises(BadDraft, match="cut at 16 tokens"):
        EmbeddedDrafter(checkpoint, k=3, max_tokens=16).draft(FEATURES, "", "radiology")


def test_a_missing_folder_is_told_with_the_next_step_until_it_is_there(checkpoint: Path, tmp_path: Path) -> None:
    folder = tmp_path / "weights"
    drafter = EmbeddedDrafter(folder, k=3, max_tokens=600)
    with pytest.raises(ModelMissing, match=r"'weights' does not exist; set CTREPORT_DRAFT_WEIGHTS .* `ctreport retry`"):
        drafter.draft(FEATURES, "", "radiology")
    folder.symlink_to(checkpoint)
    assert drafter.phantom_only


def test_an_unknown_department_is_refused(checkpoint: Path) -> None:
    with pytest.raises(NotAllowed, match="CTREPORT_DRAFT_DEPARTMENT"):
        EmbeddedDrafter(checkpoint, 3, 600).draft(FEATURES, "", "cardiology")


def test_a_generator_says_whether_the_text_ended_and_what_was_drafted_per_step(checkpoint: Path) -> None:
    engine = EmbeddedDrafter(checkpoint, 3, 600)
    ask = Ask(FINDINGS, section_prompt(FINDINGS, "咳嗽", 4), section_schema(FINDINGS), 600)
    asks = [ask, replace(ask, k=0), replace(ask, k={"检查所见": 5}), replace(ask, max_tokens=16)]
    made = [engine.generate(one, FEATURES) for one in asks]
    assert [one.ended for one in made] == [True, True, True, False]
    assert {one.text for one in made[:3]} == {made[0].text}
    assert made[0].text.startswith(made[3].text.rstrip("\ufffd"))
    assert [(one.generation.k, dict(one.generation.lengths)) for one in made[:3]] == [(3, {}), (0, {}), (3, {"检查所见": 5})]
    assert made[0].source.server == ""
