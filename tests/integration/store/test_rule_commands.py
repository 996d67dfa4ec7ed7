import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pipeline.rules.seed import seed_dose_factors, seed_dose_rules, seed_guidance, seed_lexicon, seed_terms
from pipeline.settings import settings
from pipeline.store.seed import seed_rules
from workers import wiring
from workers.cli import app

RUNNER = CliRunner()


@pytest.fixture
def site(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The commands find this database; nothing asks Redis."""
    seed_rules(url, seed_terms(), seed_dose_rules(), seed_dose_factors(), seed_lexicon(), seed_guidance())
    monkeypatch.setenv("CTREPORT_DATABASE_URL", url)
    monkeypatch.setenv("CTREPORT_REDIS_URL", "redis://127.0.0.1:1/0")
    settings.cache_clear()
    yield
    wiring.close()
    settings.cache_clear()


def invoked(*arguments: str) -> str:
    ran = RUNNER.invoke(app, list(arguments))
    assert ran.exit_code == 0, ran.output
    return ran.stdout


def test_a_site_lists_shows_edits_and_looks_back(site: None, tmp_path: Path) -> None:
    listed = json.loads(invoked("rules", "list", "--json", "-"))["kinds"]
    assert {"terms", "lexicon", "dose", "factors", "series", "critical", "guidelines", "history", "growth"} <= listed.keys()
    assert "毛玻璃 → 磨玻璃" in invoked("rules", "list", "terms")
    file = tmp_path / "site.toml"
    file.write_text(invoked("rules", "show", "dose").replace("50.0", "40.0"), encoding="utf-8")
    assert "version 2" in invoked("rules", "set", "dose", str(file), "--by", "Dr. Li", "--note", "our threshold")
    assert "> 40 mSv in 12 months" in invoked("rules", "list", "dose")
    newest, first = json.loads(invoked("rules", "history", "--json", "-"))["versions"]
    assert (newest["version"], newest["actor"], newest["note"]) == (2, "Dr. Li", "our threshold")
    assert (first["version"], first["actor"]) == (1, "system")


def test_check_uses_the_stored_rules_where_asked(site: None, tmp_path: Path) -> None:
    rules, report = tmp_path / "site.toml", tmp_path / "report.txt"
    rules.write_text('[[term]]\nforbidden = "灯泡征"\nstandard = "晕征"\nreason = "本院用词"\n', encoding="utf-8")
    report.write_text("检查所见：右肺见灯泡征。", encoding="utf-8")
    invoked("rules", "set", "terms", str(rules), "--by", "Dr. Li", "--add")
    stored = json.loads(RUNNER.invoke(app, ["check", str(report), "--stored", "--json", "-"]).stdout)
    packaged = json.loads(RUNNER.invoke(app, ["check", str(report), "--json", "-"]).stdout)
    assert [hit["rule"] for hit in stored["hits"]] == ["term.standard"]
    assert [hit["rule"] for hit in packaged["hits"]] == ["term.unlisted"]


def test_a_bad_file_or_an_unknown_kind_is_one_sentence_and_changes_nothing(site: None, tmp_path: Path) -> None:
    file = tmp_path / "site.toml"
    file.write_text('[[term]]\nforbidden = "a"\n', encoding="utf-8")
    for kind, told in (("terms", "line 1: 'standard'"), ("colours", "there is no kind of rules 'colours'")):
        ran = RUNNER.invoke(app, ["rules", "set", kind, str(file), "--by", "Dr. Li"])
        assert ran.exit_code == 1
        assert told in str(ran.exception)
    assert json.loads(invoked("rules", "list", "--json", "-"))["version"] == 1


def test_a_site_edits_its_critical_findings_and_turns_a_guideline_on(site: None, tmp_path: Path) -> None:
    file = tmp_path / "site.toml"
    own = '[[critical]]\nid = "own"\nfinding = "本院项目"\nwords = ["灯泡征"]\nseverity = "urgent"\nminutes = 15\nsource = "本院危急值目录"\n'
    file.write_text(own, encoding="utf-8")
    assert "version 2" in invoked("rules", "set", "critical", str(file), "--by", "Dr. Li", "--add")
    listed = invoked("rules", "list", "critical")
    assert "own: 本院项目 = 灯泡征; urgent, 15 min" in listed
    assert "pulmonary-embolism" in listed
    file.write_text(own + 'qualifiers = ["灯泡样的"]\n', encoding="utf-8")
    refused = RUNNER.invoke(app, ["rules", "set", "critical", str(file), "--by", "Dr. Li"])
    assert refused.exit_code == 1
    assert "灯泡样的" in str(refused.exception)
    file.write_text(invoked("rules", "show", "guidelines").replace("enabled = false", "enabled = true"), encoding="utf-8")
    assert "version 3" in invoked("rules", "set", "guidelines", str(file), "--by", "Dr. Li")
    assert "c-lung-rads (on)" in invoked("rules", "list", "guidelines")
    report = tmp_path / "report.txt"
    report.write_text("检查所见：右肺见灯泡征。右肺中叶见实性结节，大小约7mm。", encoding="utf-8")
    said = json.loads(RUNNER.invoke(app, ["check", str(report), "--stored", "--indication", "肺癌筛查", "--json", "-"]).stdout)["hits"]
    assert any(hit["rule"] == "critical.finding" and "本院项目" in hit["message"] for hit in said)
    assert any(hit["rule"] == "guideline.suggestion" and "C-Lung-RADS 2 类：6 个月复查 CT" in hit["message"] for hit in said)
