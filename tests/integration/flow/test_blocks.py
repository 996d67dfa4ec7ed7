"""Hits that block: shown, not signed, not delivered, until somebody answers for them; all of it on a real database."""

from __future__ import annotations

import json
from datetime import date
from typing import Any
from uuid import UUID

import pytest
from typer.testing import CliRunner

from pipeline.checking import CheckContext, Hit, RuleSet
from pipeline.errors import BadInput, NotAllowed, PipelineError
from pipeline.export.markdown import draft_markdown
from pipeline.flow.blocks import resolve
from pipeline.flow.review import review
from pipeline.model import WATERMARK, Report, ReportState, Severity
from pipeline.rules.checks import run
from pipeline.rules.seed import seed_lexicon, seed_terms
from pipeline.settings import settings
from pipeline.store.session import PgStore
from tests.integration.store import rows
from tests.integration.store.rows import ME
from workers import wiring
from workers.cli import app

SIDE = Hit("side.impression", 2, Severity.BLOCK, "诊断意见", 0, 6, "请核对侧别")
CUT = Hit("text.truncated", 1, Severity.BLOCK, "检查所见", 0, 4, "在句中中断")
FLAG = Hit("size.impression", 1, Severity.FLAG, "诊断意见", 0, 2, "请核对大小")


def blocked(store: PgStore, *hits: Hit) -> UUID:
    """A delivered-to-be draft with these hits; returns the report's id."""
    draft_id = rows.drafted(store, hits=hits or (SIDE, FLAG, CUT))
    with store.begin() as work:
        work.deliveries.ask(draft_id, "markdown")
    report_id: UUID = rows.one(store, "SELECT id FROM reports")["id"]
    review(store, report_id, ReportState.REVIEWING, "dr-a")
    return report_id


def flags(store: PgStore) -> list[Any]:
    found: list[Any] = rows.one(store, "SELECT flags FROM finished_reports")["flags"]
    return found


def claimed(store: PgStore, kind: str | None = None) -> int:
    with store.begin() as work:
        return len(work.deliveries.claim(10, ME, kind))


def test_a_blocked_report_waits_shown_with_a_mark_and_is_neither_written_nor_delivered(store: PgStore) -> None:
    report_id = blocked(store)
    seen = rows.one(store, "SELECT * FROM finished_reports")
    assert seen["blocked"] is True
    assert seen["impression"] == f"{WATERMARK}\n【须处理】右肺上叶结节"
    assert seen["advice"] == f"{WATERMARK}\n建议随访"
    assert "诊断意见：【须处理】右肺上叶结节\n建议：建议随访" in seen["text"]
    with pytest.raises(NotAllowed, match=r"2 hit\(s\) .*0: side\.impression, 2: text\.truncated"):
        review(store, report_id, ReportState.WRITTEN, "dr-a")
    assert rows.one(store, "SELECT state FROM reports")["state"] == "reviewing"
    assert claimed(store) == 0


def test_with_a_reason_it_is_written_and_delivered_and_who_answered_is_kept_and_audited(store: PgStore) -> None:
    report_id = blocked(store)
    review(store, report_id, ReportState.WRITTEN, "dr-a", "  图像已核对，侧别改正  ")
    side, flag, cut = flags(store)
    for one in (side, cut):
        assert (one["resolved_by"], one["resolution"]) == ("dr-a", "图像已核对，侧别改正")
        assert one["resolved_at"]
    assert flag["resolved_at"] is None
    seen = rows.one(store, "SELECT blocked, text FROM finished_reports")
    assert (seen["blocked"], "须处理" in seen["text"]) == (False, False)
    audited = rows.one(store, "SELECT count(*) AS n FROM audit WHERE action = 'block_resolved' AND actor = 'dr-a'")
    assert audited["n"] == 2
    detail = rows.one(store, "SELECT detail FROM audit WHERE action = 'block_resolved' ORDER BY id LIMIT 1")["detail"]
    assert detail == {"rule": "side.impression", "position": "0", "reason_characters": "10", "draft_id": detail["draft_id"]}
    assert claimed(store) == 1
    review(store, report_id, ReportState.SIGNED, "dr-b")


def test_one_by_one_and_only_the_last_frees_the_report(store: PgStore) -> None:
    report_id = blocked(store)
    assert [block.rule for block in resolve(store, report_id, "dr-a", "已补写", [2])] == ["text.truncated"]
    assert claimed(store) == 0
    with pytest.raises(NotAllowed, match=r"1 hit\(s\)"):
        review(store, report_id, ReportState.WRITTEN, "dr-a")
    assert [block.rule for block in resolve(store, report_id, "dr-a", "侧别已核对")] == ["side.impression"]
    assert resolve(store, report_id, "dr-a", "再次") == ()
    review(store, report_id, ReportState.WRITTEN, "dr-a")
    assert claimed(store) == 1


@pytest.mark.parametrize(
    ("actor", "reason", "positions", "told"),
    [
        ("", "已核对", (), "who answers"),
        ("dr-a", "  ", (), "say why"),
        ("dr-a", "长" * 1001, (), "at most 1000"),
        ("dr-a", "已核对", (1,), "at 1; those that do: 0, 2"),
        ("dr-a", "已核对", (0, 9), "at 9"),
    ],
)
def test_nothing_is_resolved_without_a_name_a_reason_and_a_hit_that_blocks(
    store: PgStore, actor: str, reason: str, positions: tuple[int, ...], told: str
) -> None:
    report_id = blocked(store)
    with pytest.raises(BadInput, match=told):
        resolve(store, report_id, actor, reason, positions)
    assert all(flag["resolved_at"] is None for flag in flags(store))


def test_the_database_keeps_a_resolution_whole(store: PgStore) -> None:
    blocked(store)
    for half in ("resolved_by = 'dr-a'", "resolved_at = now(), resolved_by = 'dr-a'", "resolved_at = now(), resolved_by = '', resolution = 'x'"):
        with pytest.raises(PipelineError), store.begin() as work:
            work.session.connection().exec_driver_sql(f"UPDATE draft_flags SET {half} WHERE position = 0")


def test_a_flag_alone_bars_nothing(store: PgStore) -> None:
    report_id = blocked(store, FLAG)
    assert rows.one(store, "SELECT blocked FROM finished_reports")["blocked"] is False
    assert claimed(store) == 1
    review(store, report_id, ReportState.WRITTEN, "dr-a")


def test_a_withdrawal_is_told_although_the_report_is_blocked(store: PgStore) -> None:
    blocked(store)
    draft_id = rows.one(store, "SELECT id FROM drafts")["id"]
    with store.begin() as work:
        work.deliveries.ask(draft_id, "withdrawal")
    assert claimed(store, "markdown") == 0
    assert claimed(store, "withdrawal") == 1


def test_a_blocked_report_may_be_put_back_or_rejected(store: PgStore) -> None:
    report_id = blocked(store)
    review(store, report_id, ReportState.WAITING, "dr-a")
    review(store, report_id, ReportState.REJECTED, "dr-a")
    assert rows.one(store, "SELECT state FROM reports")["state"] == "rejected"


def test_what_somebody_answered_for_stays_so_when_the_dose_is_checked_again(store: PgStore) -> None:
    report_id = blocked(store)
    resolve(store, report_id, "dr-a", "侧别已核对", [0])
    with store.begin() as work:
        (open_report,) = work.doses.open_reports(rows.one(store, "SELECT id FROM studies")["id"])
        warned = Hit("dose.cumulative-12m", 1, Severity.FLAG, "建议", 0, 5, "【剂量预警】")
        work.doses.renew(open_report, "【剂量预警】。建议随访", (warned, *open_report.hits))
    told = {flag["rule"]: flag["resolution"] for flag in flags(store)}
    assert told == {"dose.cumulative-12m": None, "side.impression": "侧别已核对", "size.impression": None, "text.truncated": None}


def test_what_the_rules_block_is_struck_through_where_it_stands_until_it_is_resolved(store: PgStore) -> None:
    report = Report("右肺上叶见实性结节，大小约8mm。右侧胸腔见少量积液。", "1.左肺上叶实性结节，约8mm。2.右侧胸腔少量积液。", "建议随访。")
    checked = run(report, RuleSet(1, seed_terms(), (), seed_lexicon()), CheckContext(date(2026, 1, 15)))
    blocking = [hit for hit in checked.hits if hit.severity is Severity.BLOCK]
    assert [hit.rule for hit in blocking] == ["side.impression"]
    report_id = blocked(store, *checked.hits)
    draft_id = rows.one(store, "SELECT id FROM drafts")["id"]
    with store.begin() as work:
        work.session.connection().exec_driver_sql(
            "UPDATE drafts SET findings_text = %s, impression = %s", (checked.report.findings_text, checked.report.impression)
        )

    def text() -> str:
        with store.begin() as work:
            return draft_markdown(work.reports.shown(draft_id))

    assert "~~1.左肺上叶实性结节，约8mm。~~  \n2.右侧胸腔少量积液。" in text()
    assert "⛔ 须处理〔诊断意见〕" in text()
    resolve(store, report_id, "李医生", "已更正为右侧")
    assert "~~" not in text()
    assert "☑ 已说明〔诊断意见〕" in text()
    assert "（李医生：已更正为右侧）" in text()


def test_the_command_answers_for_what_blocks(store: PgStore, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked(store)
    monkeypatch.setenv("CTREPORT_DATABASE_URL", url)
    monkeypatch.setenv("CTREPORT_REDIS_URL", "redis://127.0.0.1:1/0")
    settings.cache_clear()
    try:
        told = CliRunner().invoke(app, ["resolve", "1.2.3", "--by", "dr-a", "--reason", "侧别已核对", "--flag", "0", "--json", "-"])
        assert json.loads(told.stdout) == {
            "study_uid": "1.2.3",
            "resolved": [{"flag": 0, "rule": "side.impression", "section": "诊断意见"}],
        }
        told = CliRunner().invoke(app, ["resolve", "1.2.3", "--by", "dr-a", "--reason", "已补写"])
        assert told.stdout == "2  text.truncated〔检查所见〕\n"
        assert CliRunner().invoke(app, ["resolve", "1.2.3", "--by", "dr-a", "--reason", "x"]).stdout == "nothing blocks this report\n"
    finally:
        wiring.close()
        settings.cache_clear()
