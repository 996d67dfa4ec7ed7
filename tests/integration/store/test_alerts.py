"""Alerts on a real database: raised once, climbing once, closed by who told whom, and in the way of a signature while they are open."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from prometheus_client import REGISTRY
from sqlalchemy import text
from typer.testing import CliRunner

from pipeline.alerting import Alert
from pipeline.checking import Suspected
from pipeline.errors import BadInput, IllegalMove, NotAllowed, PipelineError
from pipeline.flow.alert import Told, acknowledge, dismiss, escalate
from pipeline.flow.persist import persist
from pipeline.flow.review import review
from pipeline.guidance import CriticalRule
from pipeline.model import AlertState, Job, Report, ReportState, Step
from pipeline.settings import settings
from pipeline.store.session import PgStore
from tests.integration.store import rows
from workers import wiring
from workers.cli import app

EMBOLISM = CriticalRule("pulmonary-embolism", "肺栓塞", ("肺栓塞",), "immediate", 10, "test", levels=3)
DISSECTION = CriticalRule("aortic-dissection", "主动脉夹层", ("主动脉夹层",), "urgent", 30, "test")
PHONED = Told("张医生", "李护士", "电话", read_back=True)
RUNNER = CliRunner()


def suspecting(*rules: CriticalRule, certain: bool = True) -> tuple[Suspected, ...]:
    return tuple(Suspected(rule, 1, certain, "诊断意见") for rule in rules)


def drafted(store: PgStore, *rules: CriticalRule, study: str = "1.2.3", certain: bool = True) -> Job:
    """A study whose draft speaks of these findings."""
    job = rows.drafting_job(store, study)
    saved(store, job, *rules, certain=certain)
    return job


def saved(store: PgStore, job: Job, *rules: CriticalRule, certain: bool = True) -> UUID:
    plain = rows.draft(job)
    checked = replace(plain.checked, report=Report("双肺未见异常。", "肺栓塞。", "随访。"), alerts=suspecting(*rules, certain=certain))
    return persist(store, job, replace(plain, checked=checked), 0.0, rows.ME)


def redrafted(store: PgStore, *rules: CriticalRule) -> UUID:
    """A late image makes a new revision, whose draft speaks of these findings; returns the draft's id."""
    rows.send(store, rows.header(9))
    rows.freeze(store)
    (job,) = rows.claim(store)
    with store.begin() as work:
        work.studies.encoded(job, "features/2.safetensors", "compact", "1", rows.ME)
    (job,) = rows.claim(store, Step.DRAFT)
    return saved(store, job, *rules)


def listed(store: PgStore, **which: Any) -> tuple[Alert, ...]:
    with store.begin() as work:
        return work.alerts.listed(**which)


def only(store: PgStore, **which: Any) -> Alert:
    (alert,) = listed(store, **which)
    return alert


def earlier(store: PgStore, minutes: float) -> None:
    """Every alert was raised that much earlier."""
    with store.begin() as work:
        shift = text("UPDATE alerts SET seen_at = seen_at - make_interval(secs => :s), due_at = due_at - make_interval(secs => :s)")
        work.session.execute(shift, {"s": 60 * minutes})


def report_id(store: PgStore) -> UUID:
    return UUID(str(rows.one(store, "SELECT id FROM reports")["id"]))


def actions(store: PgStore, action: str) -> int:
    return rows.count(store, f"audit WHERE action = '{action}'")


def test_a_draft_that_speaks_of_a_critical_finding_raises_an_alert_with_its_clock(store: PgStore) -> None:
    job = drafted(store, EMBOLISM)
    alert = only(store)
    assert (alert.finding, alert.severity, alert.state, alert.level, alert.certain) == ("肺栓塞", "immediate", AlertState.OPEN, 0, True)
    assert (alert.study_id, alert.revision) == (job.study_id, 1)
    assert alert.draft_id == UUID(str(rows.one(store, "SELECT id FROM drafts")["id"]))
    assert alert.due_at - alert.seen_at == timedelta(minutes=10)
    assert actions(store, "alert_opened") == 1


def test_a_draft_without_a_critical_finding_raises_none(store: PgStore) -> None:
    drafted(store)
    assert listed(store, every=True) == ()


def test_raising_twice_doubles_nothing_and_keeps_the_clock(store: PgStore) -> None:
    job = drafted(store, EMBOLISM, certain=False)
    before = only(store)
    with store.begin() as work:
        assert work.alerts.suspect(job.study_id, 1, before.draft_id, suspecting(EMBOLISM)) == ()
    after = only(store)
    assert (after.id, after.seen_at, after.due_at) == (before.id, before.seen_at, before.due_at)
    assert (before.certain, after.certain) == (False, True)  # surer than before


def test_a_later_revision_takes_an_open_alert_over_and_leaves_a_closed_one_alone(store: PgStore) -> None:
    drafted(store, EMBOLISM, DISSECTION)
    alerts = {alert.rule: alert for alert in listed(store)}
    acknowledge(store, alerts["aortic-dissection"].id, PHONED)
    draft_id = redrafted(store, EMBOLISM, DISSECTION)
    now = {alert.rule: alert for alert in listed(store, every=True)}
    assert len(now) == 2
    assert (now["pulmonary-embolism"].revision, now["pulmonary-embolism"].draft_id) == (2, draft_id)
    assert now["pulmonary-embolism"].seen_at == alerts["pulmonary-embolism"].seen_at
    assert (now["aortic-dissection"].revision, now["aortic-dissection"].state) == (1, AlertState.ACKNOWLEDGED)


def test_a_later_revision_opens_a_waived_alert_again(store: PgStore) -> None:
    drafted(store, EMBOLISM)
    first = only(store)
    earlier(store, 60.0)
    escalate(store)
    dismiss(store, first.id, "dr-a", "伪影")
    with store.begin() as work:  # not for the revision that it was waived for
        assert work.alerts.suspect(first.study_id, 1, first.draft_id, suspecting(EMBOLISM)) == ()
    assert listed(store) == ()
    draft_id = redrafted(store, EMBOLISM)
    again = only(store)
    assert (again.id, again.revision, again.draft_id, again.level) == (first.id, 2, draft_id, 0)
    assert again.seen_at > first.seen_at
    assert again.waived_by is None
    assert actions(store, "alert_opened") == 2


def test_two_drafts_at_once_raise_one_alert(store: PgStore) -> None:
    job = drafted(store)
    draft_id = UUID(str(rows.one(store, "SELECT id FROM drafts")["id"]))

    def suspect(_: int) -> int:
        with store.begin() as work:
            return len(work.alerts.suspect(job.study_id, 1, draft_id, suspecting(DISSECTION, EMBOLISM)))

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(suspect, range(4))) == [0, 0, 0, 2]
    assert len(listed(store)) == 2


def test_an_overdue_alert_climbs_with_its_age_and_a_doubled_sweep_changes_nothing(store: PgStore) -> None:
    drafted(store, EMBOLISM)
    assert escalate(store) == ()
    levels = []
    for minutes in (10.5, 5.0, 5.0, 30.0, 600.0):
        earlier(store, minutes)
        levels.append([one.level for one in escalate(store)])
        assert escalate(store) == ()
    assert levels == [[1], [], [2], [3], []]
    assert only(store, overdue=True).level == 3
    assert actions(store, "alert_escalated") == 3


def test_sweeps_at_once_tell_each_level_once(store: PgStore) -> None:
    drafted(store, EMBOLISM, DISSECTION)
    earlier(store, 31.0)
    with ThreadPoolExecutor(4) as pool:
        climbed = [one for found in pool.map(lambda _: escalate(store), range(4)) for one in found]
    assert sorted((one.rule, one.level) for one in climbed) == [("aortic-dissection", 1), ("pulmonary-embolism", 3)]


def test_the_sweep_counts_open_and_overdue_alerts(store: PgStore) -> None:
    drafted(store, EMBOLISM, DISSECTION)
    earlier(store, 11.0)
    escalate(store)
    standing = {name: REGISTRY.get_sample_value("ctreport_alerts", {"standing": name}) for name in ("open", "overdue")}
    assert standing == {"open": 2.0, "overdue": 1.0}


def test_an_acknowledged_alert_has_who_when_and_how_and_climbs_no_more(store: PgStore) -> None:
    drafted(store, EMBOLISM)
    at = datetime.now(UTC) - timedelta(minutes=1)
    done = acknowledge(store, only(store).id, replace(PHONED, at=at), actor="clerk")
    assert (done.state, done.told_by, done.received_by, done.method, done.read_back) == (AlertState.ACKNOWLEDGED, "张医生", "李护士", "电话", True)
    assert done.received_at == at
    trail = rows.one(store, "SELECT actor, detail FROM audit WHERE action = 'alert_acknowledged'")
    assert trail["actor"] == "clerk"
    assert trail["detail"] == {"alert_id": str(done.id), "before": "open", "method": "phone", "read_back": "true"}
    earlier(store, 600.0)
    assert escalate(store) == ()
    assert listed(store) == ()


def test_it_is_acknowledged_once(store: PgStore) -> None:
    drafted(store, EMBOLISM)
    alert = only(store)

    def told(number: int) -> str:
        try:
            acknowledge(store, alert.id, replace(PHONED, told_by=f"医生{number}"))
        except IllegalMove:
            return "refused"
        return "noted"

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(told, range(4))) == ["noted", "refused", "refused", "refused"]
    assert actions(store, "alert_acknowledged") == 1


@pytest.mark.parametrize(
    ("told", "says"),
    [
        (replace(PHONED, told_by=" "), "--told-by"),
        (replace(PHONED, received_by=""), "--received-by"),
        (replace(PHONED, received_by="某" * 101), "at most 100"),
        (replace(PHONED, method="微信"), "电话, 当面, 系统"),
        (replace(PHONED, read_back=False), "read back"),
        (replace(PHONED, at=datetime.now(UTC) + timedelta(hours=1)), "future"),
        (replace(PHONED, at=datetime.now(UTC) - timedelta(days=3)), "before the study's first image"),
        (replace(PHONED, at=datetime(2026, 1, 15)), "time zone"),
    ],
)
def test_what_cannot_be_is_refused_and_the_alert_stays_open(store: PgStore, told: Told, says: str) -> None:
    drafted(store, EMBOLISM)
    with pytest.raises(BadInput, match=says):
        acknowledge(store, only(store).id, told)
    assert only(store).state is AlertState.OPEN


def test_in_person_needs_no_read_back_and_an_unknown_alert_is_said(store: PgStore) -> None:
    drafted(store, EMBOLISM)
    assert acknowledge(store, only(store).id, Told("甲", "乙", "当面", read_back=False)).read_back is False
    with pytest.raises(BadInput, match="there is no alert"):
        acknowledge(store, UUID(int=7), PHONED)


def test_an_open_alert_bars_writing_and_signing(store: PgStore) -> None:
    drafted(store, EMBOLISM)
    one = report_id(store)
    review(store, one, ReportState.REVIEWING, "dr-a")
    with pytest.raises(NotAllowed, match="1 critical finding"):
        review(store, one, ReportState.WRITTEN, "dr-a")
    with pytest.raises(IllegalMove):  # the state machine speaks first
        review(store, one, ReportState.SIGNED, "dr-a", "确认无误")
    assert rows.one(store, "SELECT state FROM reports") == {"state": "reviewing"}
    acknowledge(store, only(store).id, PHONED)
    for state in (ReportState.WRITTEN, ReportState.SIGNED):
        review(store, one, state, "dr-b")
    assert rows.one(store, "SELECT state FROM reports") == {"state": "signed"}


def test_a_reason_lets_a_report_be_signed_and_is_kept(store: PgStore) -> None:
    drafted(store, EMBOLISM)
    one = report_id(store)
    review(store, one, ReportState.REVIEWING, "dr-a")
    review(store, one, ReportState.WRITTEN, "dr-a", " 复核图像，非肺栓塞 ")
    review(store, one, ReportState.SIGNED, "dr-b")
    alert = only(store, every=True)
    assert (alert.state, alert.waived_by, alert.waived_reason) == (AlertState.WAIVED, "dr-a", "复核图像，非肺栓塞")
    trail = rows.one(store, "SELECT actor, detail FROM audit WHERE action = 'alert_waived'")
    assert (trail["actor"], trail["detail"]["alert_id"]) == ("dr-a", str(alert.id))
    earlier(store, 600.0)
    assert escalate(store) == ()
    assert acknowledge(store, alert.id, PHONED).state is AlertState.ACKNOWLEDGED  # told after all


def test_a_false_alarm_is_dismissed_with_a_reason_once(store: PgStore) -> None:
    drafted(store, EMBOLISM)
    alert = only(store)
    for by, reason in (("dr-a", " "), ("", "非肺栓塞"), ("dr-a", "某" * 1001)):
        with pytest.raises(BadInput):
            dismiss(store, alert.id, by, reason)
    closed = dismiss(store, alert.id, "dr-a", "层面伪影，非肺栓塞")
    assert (closed.state, closed.waived_by, closed.waived_reason) == (AlertState.WAIVED, "dr-a", "层面伪影，非肺栓塞")
    with pytest.raises(IllegalMove):
        dismiss(store, alert.id, "dr-a", "再次")
    detail = rows.one(store, "SELECT detail FROM audit WHERE action = 'alert_waived'")["detail"]
    assert detail == {"alert_id": str(alert.id), "reason_characters": "9"}


def test_a_rejected_report_needs_no_reason(store: PgStore) -> None:
    drafted(store, EMBOLISM)
    review(store, report_id(store), ReportState.REJECTED, "dr-a")
    assert only(store).state is AlertState.OPEN


def test_a_signature_and_an_acknowledgement_at_once_end_in_one_of_both(store: PgStore) -> None:
    drafted(store, EMBOLISM)
    one, alert = report_id(store), only(store)
    review(store, one, ReportState.REVIEWING, "dr-a")

    def attempt(act: int) -> str:
        try:
            if act:
                acknowledge(store, alert.id, PHONED)
            else:
                review(store, one, ReportState.WRITTEN, "dr-a")
        except PipelineError as error:
            return type(error).__name__
        return "done"

    with ThreadPoolExecutor(2) as pool:
        written, told = pool.map(attempt, (0, 1))
    assert told == "done"
    state = rows.one(store, "SELECT state FROM reports")["state"]
    assert (written, state) in {("done", "written"), ("NotAllowed", "reviewing")}


@pytest.fixture
def site(url: str, store: PgStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[PgStore]:
    """The commands find this database; nothing asks Redis."""
    monkeypatch.setenv("CTREPORT_DATABASE_URL", url)
    monkeypatch.setenv("CTREPORT_REDIS_URL", "redis://127.0.0.1:1/0")
    settings.cache_clear()
    yield store
    wiring.close()
    settings.cache_clear()


def test_the_command_lists_what_is_open_and_exits_1_for_what_is_overdue(site: PgStore) -> None:
    assert "no alert is open" in RUNNER.invoke(app, ["alert", "list"]).stdout
    drafted(site, EMBOLISM, certain=False)
    fresh = RUNNER.invoke(app, ["alert", "list", "--json", "-"])
    assert (fresh.exit_code, json.loads(fresh.stdout)["overdue"]) == (0, 0)
    earlier(site, 25.0)
    escalate(site)
    late = RUNNER.invoke(app, ["alert", "list", "--overdue"])
    assert late.exit_code == 1
    assert "疑似肺栓塞（草稿自身不确定）" in late.stdout
    assert "OVERDUE by 15 min, level 2" in late.stdout


def test_the_command_notes_who_was_told(site: PgStore) -> None:
    drafted(site, EMBOLISM)
    alert = only(site)
    at = (datetime.now() - timedelta(minutes=2)).isoformat(timespec="seconds")
    words = ["alert", "ack", str(alert.id), "--told-by", "张医生", "--received-by", "李护士", "--method", "电话", "--at", at]
    refused = RUNNER.invoke(app, words)
    assert isinstance(refused.exception, BadInput)
    done = RUNNER.invoke(app, [*words, "--read-back", "--json", "-"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout).items() >= {"state": "acknowledged", "told_by": "张医生", "method": "电话", "read_back": True}.items()
    assert isinstance(RUNNER.invoke(app, [*words, "--read-back"]).exception, IllegalMove)
    assert isinstance(RUNNER.invoke(app, ["alert", "ack", "7", *words[3:]]).exception, BadInput)
