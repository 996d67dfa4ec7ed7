"""The sweep over draft length, temperature and top-p: greedy texts are the same at every length, and the front is what nothing beats."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from pipeline.engine.generate import Engine
from pipeline.engine.seeded import write_seeded_checkpoint
from pipeline.evaluation.decode_texts import Case
from pipeline.evaluation.draft_pareto import HEATS, Known, Setting, better, embedded_writer, rows, run, served_writer, settings_of
from pipeline.evaluation.draft_picture import draw_pareto
from pipeline.evaluation.quality import silent
from tests.unit.drafting.served import DIM, client, seeded_model
from tests.unit.evaluation.truths import NORMAL, RICH
from tests.unit.evaluation.writer import proposals, truths_list, write

FIGURES = st.fixed_dictionaries(
    {
        "median_ms": st.integers(1, 4),
        "term_f1": st.one_of(st.none(), st.sampled_from([0.5, 0.9])),
        "hallucination": st.one_of(st.none(), st.sampled_from([0.0, 0.2])),
    }
)
SCANS = [Known(Case.of("x", np.zeros((4, DIM), np.float32)), proposals(truth), truth) for truth in (RICH, NORMAL)]


def right(known: Known, setting: Setting, seed: int) -> str:
    """Says all that is there; when it is hot it invents what the other scan has."""
    return write(truths_list(RICH if setting.temperature > 0.5 else known.truth))


def test_quality_latency_and_front_stand_in_a_row_per_setting() -> None:
    those = [Setting("embedded", 0), Setting("embedded", 4), Setting("embedded", 0, 1.0, 0.9)]
    found = rows(list(run({"embedded": right}, those, SCANS, silent)), SCANS)
    assert [row["what"] for row in found] != []
    by_name = {row["what"]: row for row in found}
    cold, hot = by_name["embedded k 0"], by_name["embedded k 0, T 1, top-p 0.9"]
    assert (cold["term_f1"], cold["hallucination"]) == (1.0, 0.0)
    assert hot["term_f1"] < 1.0
    assert hot["hallucination"] == 0.5
    assert by_name["embedded k 4"]["term_f1"] == cold["term_f1"]
    assert any(row["front"] for row in found)


def test_the_embedded_engine_samples_without_drafts_only_and_a_server_as_it_was_started() -> None:
    those = settings_of({"sglang": None, "sglang-plain": None})  # type: ignore[dict-item]  # only their names are read
    own = [one for one in those if one.engine == "embedded"]
    assert all(one.k == 0 for one in own if one.temperature > 0)
    assert {one.k for one in own if not one.temperature} == {0, 2, 4, 6, 8, None}
    assert [one.k for one in those if one.engine == "sglang"] == [None] * (1 + len(HEATS))
    assert {one.k for one in those if one.engine == "sglang-plain"} == {0}


@given(FIGURES, FIGURES, FIGURES)
def test_better_is_an_order_and_nothing_beats_itself(one: dict[str, Any], other: dict[str, Any], third: dict[str, Any]) -> None:
    assert not better(one, one)
    assert not (better(one, other) and better(other, one))
    if better(one, other) and better(other, third):
        assert better(one, third)


@given(st.lists(FIGURES, min_size=1, max_size=8))
def test_there_is_always_a_front(found: list[dict[str, Any]]) -> None:
    assert any(not any(better(other, row) for other in found) for row in found)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    folder = tmp_path_factory.mktemp("pareto")
    write_seeded_checkpoint(folder, feature_dim=DIM)
    return Engine.load(folder)


def test_greedy_texts_of_the_engine_are_the_same_at_every_draft_length(engine: Engine) -> None:
    writer = embedded_writer(engine)
    texts = {writer(SCANS[0], Setting("embedded", k), 0) for k in (0, 3, None)}
    assert len(texts) == 1
    assert writer(SCANS[0], Setting("embedded", 0, 1.2), 1) not in texts


def test_a_server_gets_temperature_and_top_p(tmp_path: Path) -> None:
    from pipeline.drafting.fake_server import FakeServer, Script

    model = seeded_model(tmp_path / "model")
    with FakeServer(model, Script()) as server:
        served_writer(client(server))(SCANS[0], Setting("sglang", None, 0.7, 0.9), 0)
        served_writer(client(server))(SCANS[0], Setting("sglang", None), 0)
        asked = [body["sampling_params"] for body in server.asked]
    assert (asked[0]["temperature"], asked[0]["top_p"]) == (0.7, 0.9)
    assert asked[1]["temperature"] == 0
    assert "top_p" not in asked[1]


def test_the_picture_has_a_panel_for_each_engine_and_none_without_a_figure(tmp_path: Path) -> None:
    row = {"engine": "embedded", "what": "embedded k 0", "median_ms": 120.0, "term_f1": 0.9, "hallucination": 0.1, "front": True}
    other = row | {"engine": "sglang", "what": "sglang own k", "median_ms": 30.0, "front": False}
    path = tmp_path / "pareto.png"
    assert draw_pareto([row, row | {"median_ms": 80.0, "term_f1": 0.8}, other], path)
    with Image.open(path) as picture:
        assert picture.size == (860, 880)
        assert len(picture.convert("RGB").getcolors(100_000) or []) > 5
    assert not draw_pareto([row | {"term_f1": None}], tmp_path / "none.png")
    assert not (tmp_path / "none.png").exists()
