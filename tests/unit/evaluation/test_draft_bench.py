"""`ctreport bench draft` on a model that knows nothing and on fakes: rows, ratios, notes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline.drafting.fake import FakeGenerator
from pipeline.drafting.generator import Ask, Generated
from pipeline.drafting.schema import FINDINGS, SECTIONS
from pipeline.engine.generate import Engine
from pipeline.engine.seeded import write_seeded_checkpoint
from pipeline.errors import BadDraft
from pipeline.evaluation import draft_decode, draft_rows
from pipeline.evaluation.decode_texts import Case
from pipeline.evaluation.draft_bench import Engines, Plan, Scan, measure
from pipeline.evaluation.draft_freely import Written
from pipeline.evaluation.draft_table import heading, markdown, tables
from pipeline.evaluation.draft_ways import Failure, Part, contenders, run
from pipeline.evaluation.quality import silent
from pipeline.model import Features, Generation
from tests.builders import candidate

DIM = 12
PLACE = {"machine": "a machine", "date": "2026-01-01", "commit": "abc", "model": "seeded"}
DEPARTMENTS = ("radiology", "oncology")


class Drafting:
    """A fake engine whose drafts always hit: k tokens a step, of which `stands` are accepted."""

    phantom_only = True

    def __init__(self, stands: int = 3, fails: str = "") -> None:
        self._behind = FakeGenerator()
        self._stands = stands
        self._fails = fails

    def generate(self, ask: Ask, features: Features) -> Generated:
        if self._fails and self._fails in ask.prompt:
            raise BadDraft("it is no report; again")
        made = self._behind.generate(ask, features)
        k = 4 if ask.k is None else ask.k if isinstance(ask.k, int) else 6
        steps = tuple(12 if place == min(self._stands, k) else 0 for place in range(k + 1))
        return replace(made, generation=Generation(48, 12, steps, 0.1, k=k))


def features(seed: int = 0) -> Features:
    return Features(np.random.default_rng(seed).normal(size=(4, DIM)).astype(np.float32), "e", "1", "p", candidates=(candidate(),))


def measured(generator: Drafting, served: dict[str, Any] | None = None) -> tuple[list[Part], list[Failure]]:
    those = contenders(generator, served or {}, (2,), {FINDINGS: 6})
    taken = list(run(those, [features(seed) for seed in range(2)], DEPARTMENTS, silent))
    return [one for one in taken if isinstance(one, Part)], [one for one in taken if isinstance(one, Failure)]


def test_every_contender_writes_findings_once_and_each_departments_texts() -> None:
    parts, failures = measured(Drafting())
    assert failures == []
    mine = [one for one in parts if one.way == "plain" and one.case == 0]
    assert [(one.mode, one.section, one.department) for one in mine] == [
        ("sections", FINDINGS, ""),
        *(("sections", section, department) for department in DEPARTMENTS for section in SECTIONS[1:]),
        *(("whole", "", department) for department in DEPARTMENTS),
    ]
    assert {one.way for one in parts} == {"plain", "own policy", "mtp 2", "by section"}


def test_rows_add_a_reports_texts_up_and_compare_with_plain_decoding() -> None:
    parts, failures = measured(Drafting())
    found = draft_rows.rows(parts, failures, DEPARTMENTS)
    report = next(row for row in found if (row["part"], row["of"], row["department"], row["way"]) == ("report", "sections", "oncology", "mtp 2"))
    assert (report["tokens"], report["verify_steps"], report["texts"]) == (4 * 48, 4 * 12, 2)
    assert (report["identical"], report["compared"], report["like_embedded"]) == (2, 2, 2)
    assert report["speedup_vs_plain"] > 0
    study = next(row for row in found if (row["part"], row["of"], row["way"]) == ("study", "sections", "plain"))
    assert study["tokens"] == 7 * 48
    assert study["acceptance"] is None
    whole = next(row for row in found if (row["part"], row["of"], row["department"], row["way"]) == ("report", "whole", "radiology", "own policy"))
    assert (whole["tokens"], whole["acceptance"]) == (48, 0.75)


def test_a_served_engine_is_compared_with_the_server_without_mtp_and_with_the_embedded_engine() -> None:
    parts, failures = measured(Drafting(), {"sglang": Drafting(), "sglang-plain": Drafting(), "vllm": Drafting()})
    rows = {row["what"]: row for row in draft_rows.rows(parts, failures, DEPARTMENTS) if (row["part"], row["of"]) == ("study", "whole")}
    assert rows["sglang own policy"]["compared"] == 2
    assert rows["sglang-plain plain"]["speedup_vs_plain"] == 1.0
    assert (rows["vllm own policy"]["compared"], rows["vllm own policy"]["speedup_vs_plain"]) == (0, None)
    assert rows["vllm own policy"]["like_embedded"] == 2


def test_drafts_that_do_not_come_are_counted_and_the_others_go_on() -> None:
    parts, failures = measured(Drafting(fails="肿瘤科"))
    assert {(one.department, one.mode) for one in failures} == {("oncology", "sections"), ("oncology", "whole")}
    assert failures[0].reason == "it is no report"
    rows = draft_rows.rows(parts, failures, DEPARTMENTS)
    failed = {(row["part"], row["of"], row["department"]): row["failed"] for row in rows if row["way"] == "plain"}
    assert failed["report", "whole", "radiology"] == 0
    assert failed["study", "whole", "all departments"] == 2
    assert all(one.department != "oncology" for one in parts)


def test_low_acceptance_raises_the_alarm_with_its_section() -> None:
    parts, failures = measured(Drafting(stands=1))
    told = draft_rows.alarms(draft_rows.rows(parts, failures, DEPARTMENTS))
    assert any("embedded own policy: 25% of the drafted tokens stand in 建议 of radiology" in line for line in told)
    assert not any("mtp 2" in line for line in told)  # 1 of 2 is not below a half
    assert draft_rows.alarms(draft_rows.rows(*measured(Drafting()), DEPARTMENTS)) == []


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("draft")
    write_seeded_checkpoint(made, feature_dim=DIM)
    return made


def test_decoding_alone_on_the_real_engine_gives_the_same_tokens_at_every_batch(folder: Path) -> None:
    case = Case.of("x", features().array)
    load = draft_decode.Load(tokens_in=96, tokens_out=24, rounds=1, batches=(1, 3), batch_tokens=8, batch_rounds=1)
    writers = draft_decode.writers(Engine.load(folder), {}, case, load.tokens_in)
    rows = draft_decode.rows(list(draft_decode.run(writers, load, silent)))
    alone = [row for row in rows if row["part"] == "decode"]
    assert [row["way"] for row in alone] == ["plain", "own policy", "mtp 2", "mtp 4"]
    assert all(row["tokens"] == 24 for row in alone)
    assert all(row["identical"] == row["compared"] == 1 for row in rows)
    assert sorted({row["batch"] for row in rows if row["part"] == "batch"}) == [1, 3]


def test_the_prompt_is_as_long_as_asked_and_has_its_placeholders_once(folder: Path) -> None:
    engine = Engine.load(folder)
    case = Case.of("x", features().array)
    ids = engine.tokenizer.encode(draft_decode.longer(engine, case, 160))
    assert 150 <= len(ids) <= 170
    assert ids.count(engine.tokenizer.ct_id) == 4


def timed(way: str, batch: int, seconds: float) -> draft_decode.Timed:
    histogram = (0, 10, 0, 0, 0) if way != "plain" else (10,)
    return draft_decode.Timed("embedded", way, "batch", batch, 1, Written(((1,),), (Generation(20, 10, histogram, seconds),), seconds))


def test_it_is_told_from_which_batch_on_mtp_does_not_pay() -> None:
    taken = [timed("plain", 1, 2.0), timed("mtp 4", 1, 1.0), timed("plain", 8, 2.0), timed("mtp 4", 8, 2.2)]
    assert draft_decode.notes(draft_decode.rows(taken)) == ["embedded mtp 4: does not pay from batch 8 on"]
    assert draft_decode.notes(draft_decode.rows(taken[:2])) == ["embedded mtp 4: pays at every batch up to 1"]


@pytest.fixture
def result(folder: Path) -> dict[str, Any]:
    load = draft_decode.Load(64, 8, 1, (1, 2), 4, 1)
    plan = Plan(scans=1, departments=DEPARTMENTS, ks=(2,), load=load)
    scan = Scan(Case.of("x", features().array), (candidate(),))
    return PLACE | measure(("sections", "decode", "pareto"), Engines(Drafting(), folder, {}), [scan], plan, silent)


def test_the_parts_come_together_in_tables_and_notes(result: dict[str, Any]) -> None:
    assert {row["part"] for row in result["rows"]} == {"section", "report", "study", "decode", "batch"}
    assert any("needs scans whose findings are known" in note for note in result["notes"])
    assert any("no draft server is configured" in line for line in heading(result))
    found = list(tables(result))
    assert len(found) == 5
    assert all(len(line) == len(head) for _, head, body in found for line in body)
    text = markdown(result)
    assert "| sections | all departments | embedded plain |" in text
