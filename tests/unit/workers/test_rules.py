"""`ctreport check` and `ctreport bench rules` need no stack."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pipeline.errors import BadInput
from workers.cli import app

RUNNER = CliRunner()
REPORT = "检查所见：\n左肺上叶见毛玻璃结节，大小约8mm。\n诊断意见：\n左肺上叶磨玻璃结节。\n建议：\n建议增强扫描。\n"


@pytest.fixture
def report(tmp_path: Path) -> Path:
    file = tmp_path / "report.txt"
    file.write_text(REPORT, encoding="utf-8")
    return file


def test_check_answers_the_text_after_the_rules_and_every_hit(report: Path) -> None:
    ran = RUNNER.invoke(app, ["check", str(report), "--dose", "2025-09-01=60", "--date", "2026-01-15", "--json", "-"])
    told = json.loads(ran.stdout)
    rules = {hit["rule"]: told["text"][hit["start"] : hit["end"]] for hit in told["hits"]}
    assert ran.exit_code == 1
    assert rules["term.standard"] == "磨玻璃结节"
    assert rules["dose.cumulative-12m"].startswith("【剂量预警】")
    assert {"rule", "severity", "start", "end", "message"} <= told["hits"][0].keys()


def test_a_report_without_fault_is_exit_0(report: Path) -> None:
    report.write_text("检查所见：双侧胸腔未见积液。\n诊断意见：胸部CT平扫未见明显异常。\n建议：建议年度体检随访。", encoding="utf-8")
    ran = RUNNER.invoke(app, ["check", str(report)])
    assert ran.exit_code == 0, ran.stdout
    assert "no rule has anything to say" in ran.stdout


def test_a_file_of_another_charset_is_one_sentence_and_a_byte_order_mark_is_no_text(report: Path) -> None:
    report.write_bytes(REPORT.encode("gb18030"))
    with pytest.raises(BadInput, match="not UTF-8"):
        RUNNER.invoke(app, ["check", str(report)], catch_exceptions=False)
    report.write_bytes(REPORT.encode("utf-8-sig"))
    told = json.loads(RUNNER.invoke(app, ["check", str(report), "--json", "-"]).stdout)
    assert told["text"].startswith("检查所见：\n左肺上叶见磨玻璃结节")


@pytest.mark.parametrize("arguments", [["check"], ["check", "no-such-file"], ["rules", "set", "terms"], ["bench", "rules", "--rounds", "3"]])
def test_wrong_use_is_exit_2(arguments: list[str]) -> None:
    assert RUNNER.invoke(app, arguments).exit_code == 2


def test_bench_measures_the_engine_its_rules_and_the_naive_way() -> None:
    ran = RUNNER.invoke(app, ["bench", "rules", "--short", "--json", "-"])
    result = json.loads(ran.stdout)
    engine, *others = result["rows"]
    assert (ran.exit_code, engine["what"]) == (0, "ctreport")
    assert engine["terms"] >= 1500
    assert 270 <= engine["tokens"] <= 330
    assert {"median_ms", "p95_ms", "cpu_median_ms", "runs"} <= engine.keys()
    assert any("regex" in row["what"] for row in others)
    assert {"rule term.standard", "rule dose.cumulative", "rule side.impression"} <= {row["what"] for row in others}
