"""The whole benchmark on a model that knows nothing: every part has its rows, and no policy, batch or peer changes a text."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline.drafting.schema import schema_text
from pipeline.engine.generate import Engine
from pipeline.engine.seeded import write_seeded_checkpoint
from pipeline.evaluation import decode_peers
from pipeline.evaluation.decode_batches import around
from pipeline.evaluation.decode_bench import Plan, measure
from pipeline.evaluation.decode_contenders import DEFAULT, JUMPS, LOOKUP, PLAIN, ours
from pipeline.evaluation.decode_run import run
from pipeline.evaluation.decode_table import heading, markdown, tables
from pipeline.evaluation.decode_targets import differing
from pipeline.evaluation.decode_texts import Case, Told
from pipeline.evaluation.quality import silent

DIM = 12
TEXT = {"type": "string", "maxLength": 12}
NAMES = ("诊断意见", "建议")
SMALL = json.dumps({"type": "object", "properties": dict.fromkeys(NAMES, TEXT), "required": NAMES, "additionalProperties": False})
TINY = Plan(texts=2, peer_texts=1, ks=(1, 4), batch_texts=2, batch_rounds=1, steady_texts=2, steady_batch=2, steady_rounds=2, beam_texts=1, width=2)
PLACE = {"machine": "a machine", "date": "2026-01-01", "commit": "abc"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("decode")
    write_seeded_checkpoint(made, feature_dim=DIM)
    return made


@pytest.fixture(scope="module")
def engine(folder: Path) -> Engine:
    return Engine.load(folder)


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    rows = [np.random.default_rng(seed).normal(size=(4, DIM)).astype(np.float32) for seed in range(2)]
    return [replace(Case.of(f"{seed}", features), schema=SMALL) for seed, features in enumerate(rows)]


def test_a_case_asks_for_a_whole_report() -> None:
    request = Case.of("x", np.zeros((3, DIM), np.float32)).request
    assert request.prompt.count("<ct>") == 3
    assert request.schema == schema_text()


def nobody(folder: Path, engine: Engine, case: Case, texts: int, told: Told) -> tuple[list[Any], list[str]]:
    return [], ["no peer here"]


@pytest.fixture(scope="module")
def result(engine: Engine, folder: Path, cases: list[Case]) -> dict[str, Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pipeline.evaluation.decode_bench.peers", nobody)
        return PLACE | measure(engine, folder, cases, TINY, silent)


def test_every_part_has_its_rows_and_every_text_of_ours_is_the_plain_one(result: dict[str, Any]) -> None:
    single = {row["what"]: row for row in result["rows"] if row["part"] == "single"}
    assert list(single)[:2] == [PLAIN, JUMPS]
    assert {"ctreport mtp 1", "ctreport mtp 4", LOOKUP, DEFAULT} <= single.keys()
    assert all(row["identical"] == row["texts"] == 2 for row in single.values())
    assert differing(result["rows"]) == 0
    assert single[PLAIN]["speedup_vs_plain"] == 1.0
    assert single[PLAIN]["acceptance"] is None
    assert single["ctreport mtp 4"]["acceptance"] is not None
    assert single[JUMPS]["forced_share"] > 0
    assert [row["batch"] for row in result["rows"] if row["part"] == "batch"] == [1, 4, 8, 1, 4, 8]
    assert [row["texts"] for row in result["rows"] if row["part"] == "steady"] == [4, 4]
    plain, assisted = (row for row in result["rows"] if row["part"] == "beam")
    assert assisted["at_least_plain"] == plain["texts"] == 1
    assert assisted["forwards"] <= plain["forwards"]


def test_every_table_has_its_cells(result: dict[str, Any]) -> None:
    found = list(tables(result))
    assert len(found) == 7
    assert all(len(line) == len(head) for _, head, body in found for line in body)
    assert "no peer here" in heading(result)
    text = markdown(result)
    assert "texts that differ from plain decoding | 0 | ≤ 0 | reached" in text
    assert "| ctreport default |" in text


def test_cases_start_over_where_there_are_too_few(cases: list[Case]) -> None:
    assert [case.name for case in around(cases, 5)] == ["0", "1", "0", "1", "0"]


def test_everyone_writes_each_text_once_behind_a_first_that_does_not_count(engine: Engine, cases: list[Case]) -> None:
    told: list[float] = []
    taken = list(run(ours(engine, (2,)), cases, lambda share, line: told.append(share)))
    assert told == [0.0, 0.5]
    assert len(taken) == 2 * 6
    assert [taken[0].what, taken[6].what] == [PLAIN, PLAIN]
    assert [one.what for one in taken[1:6]] != [one.what for one in taken[7:12]]
    assert {one.what for one in taken[1:6]} == {one.what for one in taken[7:12]}


def test_transformers_writes_our_tokens_with_and_without_drafts(engine: Engine, folder: Path, cases: list[Case]) -> None:
    if decode_peers.absent():
        pytest.skip("transformers is not installed")
    case = cases[0]
    wanted = engine.generate(case.prompt, case.features, schema=None, k=0, max_tokens=12).ids
    found, left_out = decode_peers.peers(folder, engine, case, 1, silent)
    assert [one.what for one in found][:2] == ["transformers", "transformers prompt lookup"]
    assert len(found) + len(left_out) == 3
    for one in found:
        assert one.write(case, len(wanted)).ids[: len(wanted)] == wanted


def test_a_way_that_transformers_refuses_is_named(engine: Engine, folder: Path, cases: list[Case], monkeypatch: pytest.MonkeyPatch) -> None:
    if decode_peers.absent():
        pytest.skip("transformers is not installed")
    monkeypatch.setattr(decode_peers, "WAYS", {"transformers wrongly": {"no_such_option": 1}})
    found, (message,) = decode_peers.peers(folder, engine, cases[0], 1, silent)
    assert found == []
    assert message.startswith("transformers wrongly is not measured: ")


def test_without_transformers_it_is_said(engine: Engine, folder: Path, cases: list[Case], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    found, (message,) = decode_peers.peers(folder, engine, cases[0], 1, silent)
    assert found == []
    assert "not installed" in message
    assert decode_peers.version() == ""
