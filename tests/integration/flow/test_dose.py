"""The dose step on a real database: read once, counted once, drafts checked again, and nothing lost by a kill."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import pytest
from sqlalchemy import text

from pipeline.checking import Checked, Hit
from pipeline.dicom.dose import read_dose
from pipeline.dicom.dose_headers import read_header_dose
from pipeline.errors import LeaseLost, NotAllowed, ServiceUnavailable
from pipeline.flow.blocks import resolve, resolve_open
from pipeline.flow.dose import Dosing, Estimating, dose, estimate
from pipeline.flow.review import review
from pipeline.irradiation import DoseReading
from pipeline.model import Header, Lease, Patient, RejectedImage, Rejection, Report, ReportState, Severity, Step
from pipeline.ports import Archive
from pipeline.rules.seed import seed_dose_factors, seed_dose_rules, seed_terms
from pipeline.store.seed import seed_rules
from pipeline.store.session import PgStore
from tests import builders
from tests.builders import Bell
from tests.dose_reports import acquisition, dose_report
from tests.integration.store import rows

MESSAGE = "【剂量预警】当前累积剂量已达阈值，建议多学科会诊"
HIGH = 4000.0  # mGy cm of an adult chest: 58 mSv


class Folder:
    """An archive whose relative paths are names in one folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def path(self, relative: str) -> Path:
        return self.root / relative

    def paths(self, relatives: Sequence[str]) -> list[Path]:
        return [self.path(relative) for relative in relatives]


@pytest.fixture(autouse=True)
def _seeded(url: str) -> None:
    seed_rules(url, seed_terms(), seed_dose_rules(), seed_dose_factors())


def ports(store: PgStore, folder: Path, read: Any = read_dose, bell: Bell | None = None) -> Dosing:
    return Dosing(store, cast(Archive, Folder(folder)), bell or Bell(), read, 3)


def report_header(name: str, study: str = "1.2.3", content: str = "dose-report", **changes: Any) -> Header:
    """The registration of a dose object whose file is `name`."""
    base = rows.header(900, study, content=name)
    instance = replace(base.instance, sop_uid=f"{study}.77.{abs(hash(name)) % 10**9}", content=content, path=name, rows=None, columns=None)
    instance = replace(instance, series_uid=f"{study}.6", modality="SR", position_mm=None, orientation=None, image_type=())
    return replace(base, instance=instance, **changes)


def send_report(store: PgStore, folder: Path, name: str = "sr.dcm", *, study: str = "1.2.3", ds: Any = None, **changes: Any) -> None:
    """A dose report in the archive and in the database."""
    whole = ds if ds is not None else dose_report(acquisition(name, HIGH), study=study, word=name)
    (folder / name).write_bytes(builders.part10(whole))
    rows.send(store, report_header(name, study, **changes))


def state(store: PgStore) -> tuple[str, int, str]:
    row = rows.one(store, "SELECT state, events, reason FROM dose_reports")
    return row["state"], row["events"], row["reason"]


def advice(store: PgStore) -> str:
    return str(rows.one(store, "SELECT advice FROM drafts")["advice"])


def drafted(store: PgStore, text_of_advice: str = "建议增强扫描。") -> UUID:
    job = rows.drafting_job(store)
    made = rows.draft(job)
    body = Report("右肺上叶见磨玻璃结节", "右肺上叶结节", text_of_advice)
    with store.begin() as work:
        return work.studies.save_draft(job, replace(made, checked=Checked(body, (rows.TERM,), 1)), rows.ME)


def events(store: PgStore) -> list[tuple[str, float | None, str]]:
    with store.begin() as work:
        found = work.session.execute(text("SELECT source, msv, doubt FROM dose_events ORDER BY event_uid")).all()
    return [(row[0], row[1] if row[1] is None else round(row[1], 3), row[2]) for row in found]


def test_a_report_is_read_once_and_its_events_are_stored_with_k_and_source(store: PgStore, tmp_path: Path) -> None:
    send_report(store, tmp_path)
    calls: list[Path] = []

    def counting(path: Path) -> DoseReading:
        calls.append(path)
        return read_dose(path)

    assert [dose(ports(store, tmp_path, counting), 4, rows.ME) for _ in range(3)] == [1, 0, 0]
    assert (len(calls), state(store)) == (1, ("read", 1, ""))
    found = rows.one(
        store, "SELECT exam_date, region, phantom_cm, ctdivol_mgy, dlp_mgy_cm, k, source, strength, instance_id IS NOT NULL AS kept FROM dose_events"
    )
    assert found == {
        "exam_date": date(2026, 1, 15),
        "region": "chest",
        "phantom_cm": 32,
        "ctdivol_mgy": 10.0,
        "dlp_mgy_cm": HIGH,
        "k": 0.0145,
        "source": "rdsr",
        "strength": 4,
        "kept": True,
    }


def test_a_screen_is_kept_unread_with_the_reason(store: PgStore, tmp_path: Path) -> None:
    rows.send(store, report_header("screen.dcm", content="dose-screen"))
    assert dose(ports(store, tmp_path), 4, rows.ME) == 1
    got = state(store)
    assert (got[0], got[1]) == ("unread", 0)
    assert "保留未读" in got[2]


def test_an_unreadable_report_says_why_and_is_not_tried_again(store: PgStore, tmp_path: Path) -> None:
    send_report(store, tmp_path, ds=dose_report())
    assert [dose(ports(store, tmp_path), 4, rows.ME) for _ in range(2)] == [1, 0]
    assert state(store)[0] == "unread"
    assert "holds no CT dose" in state(store)[2]
    assert rows.one(store, "SELECT action FROM audit WHERE action LIKE 'dose%'") == {"action": "dose_unread"}


def test_a_disk_that_does_not_answer_is_tried_again_after_the_lease_and_then_given_up(store: PgStore, tmp_path: Path) -> None:
    send_report(store, tmp_path)
    (tmp_path / "sr.dcm").unlink()
    for _ in range(4):
        assert dose(ports(store, tmp_path), 4, Lease("me", 0.0)) <= 1
    assert state(store)[0] == "unread"
    assert "worker-io" in state(store)[2]


@pytest.mark.parametrize("moment", ["while reading", "after the events"])
def test_a_worker_killed_at_any_moment_loses_and_doubles_nothing(
    store: PgStore, tmp_path: Path, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    drafted(store)
    send_report(store, tmp_path)

    class Killed(BaseException):
        pass

    def killed(*_: object) -> Any:
        raise Killed

    reading = killed if moment == "while reading" else read_dose
    with monkeypatch.context() as patch:
        if moment == "after the events":
            patch.setattr("pipeline.flow.dose._check_again", killed)
        with pytest.raises(Killed):
            dose(ports(store, tmp_path, reading), 4, Lease("first", 0.0))
    assert advice(store) == "建议增强扫描。"
    assert dose(ports(store, tmp_path), 4, rows.OTHER) == 1
    assert advice(store).startswith(MESSAGE)
    assert (state(store)[0], rows.count(store, "dose_events")) == ("read", 1)


def test_a_second_worker_does_not_take_what_the_first_holds(store: PgStore, tmp_path: Path) -> None:
    send_report(store, tmp_path)
    inside, go_on, seen = threading.Event(), threading.Event(), []

    def slow(path: Path) -> DoseReading:
        inside.set()
        assert go_on.wait(20)
        return read_dose(path)

    first = threading.Thread(target=lambda: seen.append(dose(ports(store, tmp_path, slow), 4, rows.ME)))
    first.start()
    assert inside.wait(20)
    assert dose(ports(store, tmp_path), 4, rows.OTHER) == 0
    go_on.set()
    first.join(20)
    assert (seen, rows.count(store, "dose_events")) == ([1], 1)


def test_a_late_report_puts_the_warning_into_a_draft_that_nobody_has_touched(store: PgStore, tmp_path: Path) -> None:
    draft_id = drafted(store)
    with store.begin() as work:
        work.deliveries.ask(draft_id, "markdown")
        work.session.execute(text("UPDATE deliveries SET state = 'done', done_at = now()"))
    send_report(store, tmp_path)
    bell = Bell()
    dose(ports(store, tmp_path, bell=bell), 4, rows.ME)
    assert advice(store).startswith(
        f"{MESSAGE}（近12个月累积有效剂量 58.0 mSv，超过阈值 50 mSv；1 个检查日、1 次照射：2026-01-15 胸部 58.0；k=0.0145"
    )
    assert advice(store).endswith("建议增强扫描。")
    flag = rows.one(store, "SELECT rule, severity, start_at, end_at, position FROM draft_flags WHERE rule LIKE 'dose%'")
    assert (flag["severity"], flag["start_at"]) == ("flag", 0)
    assert advice(store)[flag["end_at"] :] == "建议增强扫描。"
    assert rows.one(store, "SELECT original FROM draft_flags WHERE rule = 'term'")["original"] == "毛玻璃"
    audited = rows.one(store, "SELECT detail FROM audit WHERE action = 'dose_recheck'")["detail"]
    assert (audited["text"], audited["touched"]) == ("changed", "false")
    assert (bell.rung, rows.one(store, "SELECT state FROM deliveries")) == ([Step.DELIVER], {"state": "waiting"})


@pytest.mark.parametrize("moves", [("reviewing",), ("reviewing", "waiting"), ("reviewing", "written")])
def test_what_a_reader_has_touched_keeps_its_text_and_gets_a_flag(store: PgStore, tmp_path: Path, moves: tuple[str, ...]) -> None:
    drafted(store)
    report_id = rows.one(store, "SELECT id FROM reports")["id"]
    for move in moves:
        review(store, report_id, ReportState(move), "dr-a")
    send_report(store, tmp_path)
    dose(ports(store, tmp_path), 4, rows.ME)
    assert advice(store) == "建议增强扫描。"
    flag = rows.one(store, "SELECT message, start_at, end_at FROM draft_flags WHERE rule LIKE 'dose%'")
    assert flag["message"].startswith(MESSAGE)
    assert (flag["start_at"], flag["end_at"]) == (0, 0)
    assert rows.one(store, "SELECT detail FROM audit WHERE action = 'dose_recheck'")["detail"]["text"] == "kept"


def test_a_signed_report_is_left_alone(store: PgStore, tmp_path: Path) -> None:
    drafted(store)
    report_id = rows.one(store, "SELECT id FROM reports")["id"]
    for move in (ReportState.REVIEWING, ReportState.WRITTEN, ReportState.SIGNED):
        review(store, report_id, move, "dr-a")
    send_report(store, tmp_path)
    dose(ports(store, tmp_path), 4, rows.ME)
    assert advice(store) == "建议增强扫描。"
    assert rows.one(store, "SELECT count(*) AS n FROM draft_flags WHERE rule LIKE 'dose%'")["n"] == 0


def test_a_second_late_report_renews_the_warning_in_place(store: PgStore, tmp_path: Path) -> None:
    drafted(store)
    send_report(store, tmp_path, "one.dcm")
    dose(ports(store, tmp_path), 4, rows.ME)
    send_report(store, tmp_path, "two.dcm")
    dose(ports(store, tmp_path), 4, rows.ME)
    assert advice(store).count(MESSAGE) == 1
    assert "116.0 mSv" in advice(store)
    assert rows.one(store, "SELECT count(*) AS n FROM draft_flags WHERE rule LIKE 'dose%'")["n"] == 1


def test_while_a_draft_is_being_written_the_report_waits_and_the_draft_is_looked_at_afterwards(store: PgStore, tmp_path: Path) -> None:
    job = rows.drafting_job(store)  # it has read the doses already
    send_report(store, tmp_path)
    dose(ports(store, tmp_path), 4, rows.ME)
    assert state(store)[0] == "recheck"
    body = Report("见结节", "结节", "建议增强扫描。")
    with store.begin() as work:
        work.studies.save_draft(job, replace(rows.draft(job), checked=Checked(body, (), 1)), rows.ME)
        assert work.doses.waiting() == 0
        work.session.execute(text("UPDATE dose_reports SET due_at = now()"))
    assert dose(ports(store, tmp_path), 4, rows.ME) == 1
    assert (state(store)[0], advice(store).startswith(MESSAGE)) == ("read", True)


def test_the_same_event_from_two_reports_counts_once_and_the_stronger_source_stands(store: PgStore, tmp_path: Path) -> None:
    from pydicom.uid import EnhancedSRStorage

    weak = dose_report(acquisition("x", 900), word="weak", sop_class=EnhancedSRStorage)
    strong = dose_report(acquisition("x", 400), acquisition("y", 100), word="strong")
    send_report(store, tmp_path, "weak.dcm", ds=weak)
    send_report(store, tmp_path, "strong.dcm", ds=strong)
    send_report(store, tmp_path, "again.dcm", ds=weak)
    dose(ports(store, tmp_path), 4, rows.ME)
    assert sorted(msv or 0 for _, msv, _ in events(store)) == [1.45, 5.8]
    assert {source for source, _, _ in events(store)} == {"rdsr"}


def test_a_sum_gives_way_to_events_whatever_the_order(store: PgStore, tmp_path: Path) -> None:
    whole, single = dose_report(total=5000, word="sum"), dose_report(acquisition("x", 400), word="events")
    for name, ds in (("1.dcm", whole), ("2.dcm", single), ("3.dcm", dose_report(total=6000, word="sum again"))):
        send_report(store, tmp_path, name, ds=ds)
        dose(ports(store, tmp_path), 4, rows.ME)
    assert events(store) == [("rdsr", 5.8, "")]


def test_a_report_of_another_patient_counts_for_nobody(store: PgStore, tmp_path: Path) -> None:
    send_report(store, tmp_path, ds=dose_report(acquisition("x", HIGH), PatientID="P-2"))
    dose(ports(store, tmp_path), 4, rows.ME)
    assert (state(store)[0], rows.count(store, "dose_events")) == ("unread", 0)
    assert "患者号" in state(store)[2]


@pytest.mark.parametrize(("keyword", "value", "said"), [("PatientName", "李^大力", "姓名"), ("PatientBirthDate", "19800101", "出生日期")])
def test_a_name_or_birth_date_that_differs_is_flagged_and_not_counted(store: PgStore, tmp_path: Path, keyword: str, value: str, said: str) -> None:
    drafted(store)
    named = dose_report(acquisition("x", HIGH))
    setattr(named, keyword, value)
    send_report(store, tmp_path, ds=named)
    dose(ports(store, tmp_path), 4, rows.ME)
    ((_, _, doubt),) = events(store)
    assert said in doubt
    assert advice(store) == "建议增强扫描。"
    flag = rows.one(store, "SELECT rule, message FROM draft_flags WHERE rule LIKE 'dose%'")
    assert (flag["rule"], flag["message"].startswith("【剂量核对】")) == ("dose.identity", True)


def test_one_event_of_two_patients_is_in_doubt_for_both(store: PgStore, tmp_path: Path) -> None:
    send_report(store, tmp_path, "a.dcm", ds=dose_report(acquisition("x", 100), word="a"))
    other = Patient("P-2", "", rows.NAME, False, date(1970, 1, 1), "M")
    send_report(
        store, tmp_path, "b.dcm", study="1.2.4", ds=dose_report(acquisition("x", 100), study="1.2.4", word="b", PatientID="P-2"), patient=other
    )
    dose(ports(store, tmp_path), 4, rows.ME)
    assert [doubt for _, _, doubt in events(store)] == ["同一照射事件也记在另一患者名下"] * 2


def header_dose(store: PgStore, folder: Path, **keywords: object) -> None:
    """A study whose images say CTDIvol, about to be checked."""
    slices = builders.ct_series(12)
    for ds in slices:
        ds.CTDIvol = 8.0
        for keyword, value in keywords.items():
            setattr(ds, keyword, value)
    paths = builders.write(folder, slices)
    job = replace(rows.drafting_job(store), files=tuple(path.name for path in paths))
    estimate(Estimating(store, cast(Archive, Folder(folder)), read_header_dose), job)


def test_headers_give_an_estimate_until_the_report_comes(store: PgStore, tmp_path: Path) -> None:
    header_dose(store, tmp_path)
    assert events(store) == [("header", round(8.0 * 6.0 * 0.0145, 3), "")]
    send_report(store, tmp_path, ds=dose_report(acquisition("x", 400)))
    dose(ports(store, tmp_path), 4, rows.ME)
    assert events(store) == [("rdsr", 5.8, "")]
    job = rows.one(store, "SELECT id, study_id FROM jobs")
    with store.begin() as work:
        assert not work.doses.needs_estimate(job["study_id"])


def test_no_estimate_while_a_report_waits(store: PgStore, tmp_path: Path) -> None:
    rows.send(store, report_header("late.dcm"))
    header_dose(store, tmp_path)
    assert events(store) == []


def test_images_without_ctdivol_or_of_somebody_else_keep_nobody_from_a_draft(store: PgStore, tmp_path: Path) -> None:
    header_dose(store, tmp_path, PatientID="P-9")
    assert events(store) == []


def test_an_estimate_that_the_report_contradicts_takes_the_warning_out_again(store: PgStore, tmp_path: Path) -> None:
    drafted(store)
    send_report(store, tmp_path, "sum.dcm", ds=dose_report(total=9000, word="sum"))
    dose(ports(store, tmp_path), 4, rows.ME)
    assert advice(store).startswith(MESSAGE)
    send_report(store, tmp_path, "events.dcm", ds=dose_report(acquisition("x", 400), word="events"))
    dose(ports(store, tmp_path), 4, rows.ME)
    assert advice(store) == "建议增强扫描。"
    assert rows.one(store, "SELECT count(*) AS n FROM draft_flags WHERE rule LIKE 'dose%'")["n"] == 0


def test_a_later_examination_never_counts_for_an_earlier_draft(store: PgStore, tmp_path: Path) -> None:
    drafted(store)
    later = dose_report(acquisition("x", HIGH), study="1.2.9", StudyDate="20260301")
    send_report(store, tmp_path, study="1.2.9", ds=later, study_date=date(2026, 3, 1))
    dose(ports(store, tmp_path), 4, rows.ME)
    assert (advice(store), rows.count(store, "dose_events")) == ("建议增强扫描。", 1)


def test_the_sweeper_counts_and_rings_for_dose_reports(store: PgStore, tmp_path: Path) -> None:
    from pipeline.evidence import Patience
    from pipeline.flow.sweep import Sweeping, sweep

    send_report(store, tmp_path)
    with store.begin() as work:
        work.session.execute(text("UPDATE studies SET state = 'complete'"))
    bell = Bell()
    sweeping = Sweeping(store, bell, 5, Patience(60.0, 60.0, 60.0, 3600.0))
    sweep(sweeping)
    assert bell.rung == [Step.ASSEMBLE]
    dose(ports(store, tmp_path), 4, rows.ME)
    bell.rung.clear()
    sweep(sweeping)
    assert bell.rung == []


def test_a_database_that_goes_away_while_reading_is_no_end(store: PgStore, tmp_path: Path) -> None:
    send_report(store, tmp_path)
    answers: Sequence[Any] = [ServiceUnavailable("gone"), read_dose]
    left = list(answers)

    def flaky(path: Path) -> DoseReading:
        answer = left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return cast(DoseReading, answer(path))

    for _ in range(2):
        dose(ports(store, tmp_path, flaky), 4, Lease("me", 0.0))
    assert state(store)[0] == "read"


def reject(store: PgStore, study: str = "1.2.3") -> None:
    """A note of the same study takes back its dose objects."""
    with store.begin() as work:
        uids = work.session.scalars(text("SELECT sop_uid FROM instances WHERE content <> ''")).all()
        images = tuple(RejectedImage(study, uid) for uid in uids)
        work.studies.reject(study, Rejection("9.9.9", "113037", "safety", study, images))


def test_a_report_that_a_rejection_note_takes_back_counts_no_more(store: PgStore, tmp_path: Path) -> None:
    drafted(store)
    send_report(store, tmp_path)
    dose(ports(store, tmp_path), 4, rows.ME)
    assert advice(store).startswith(MESSAGE)
    reject(store)
    assert dose(ports(store, tmp_path), 4, rows.ME) == 1
    assert (advice(store), events(store), state(store)[0]) == ("建议增强扫描。", [], "read")
    assert "拒绝说明" in state(store)[2]


def test_a_report_that_was_taken_back_before_it_was_read_is_not_read(store: PgStore, tmp_path: Path) -> None:
    rows.send(store, rows.header(1))
    send_report(store, tmp_path)
    reject(store)
    assert dose(ports(store, tmp_path), 4, rows.ME) == 0
    assert (state(store)[0], events(store)) == ("unread", [])


def test_what_another_report_tells_of_the_same_event_counts_again_when_one_is_taken_back(store: PgStore, tmp_path: Path) -> None:
    drafted(store)
    first, second = (dose_report(acquisition("x", HIGH), word=word) for word in ("first", "corrected"))
    for name, ds in (("1.dcm", first), ("2.dcm", second)):
        send_report(store, tmp_path, name, ds=ds)
        dose(ports(store, tmp_path), 4, rows.ME)
    with store.begin() as work:
        uid = work.session.scalars(text("SELECT i.sop_uid FROM instances i JOIN dose_events e ON e.instance_id = i.id")).one()
        work.studies.reject("1.2.3", Rejection("9.9.9", "113037", "safety", "1.2.3", (RejectedImage("1.2.3", uid),)))
    assert dose(ports(store, tmp_path), 4, rows.ME) == 2
    assert events(store) == [("rdsr", 58.0, "")]
    assert advice(store).startswith(MESSAGE)


def test_a_delivery_under_way_with_the_old_text_is_made_again(store: PgStore, tmp_path: Path) -> None:
    draft_id = drafted(store)
    with store.begin() as work:
        work.deliveries.ask(draft_id, "markdown")
        (taken,) = work.deliveries.claim(1, rows.OTHER)
    send_report(store, tmp_path)
    bell = Bell()
    dose(ports(store, tmp_path, bell=bell), 4, rows.ME)
    with pytest.raises(LeaseLost), store.begin() as work:
        work.deliveries.done(taken, rows.OTHER)
    assert (bell.rung, rows.one(store, "SELECT state, attempts FROM deliveries")) == ([Step.DELIVER], {"state": "waiting", "attempts": 0})


def test_of_two_equal_hits_that_block_only_the_one_answered_for_stays_resolved(store: PgStore, tmp_path: Path) -> None:
    job = rows.drafting_job(store)
    twins = tuple(Hit("place.impossible", 1, Severity.BLOCK, "检查所见", start, start + 4, "左肺没有中叶") for start in (0, 10))
    body = Report("左肺中叶结节，大小约左肺中叶结节", "结节", "建议增强扫描。")
    with store.begin() as work:
        work.studies.save_draft(job, replace(rows.draft(job), checked=Checked(body, twins, 1)), rows.ME)
    report_id = rows.one(store, "SELECT id FROM reports")["id"]
    resolve(store, report_id, "dr-a", "已改", [1])
    send_report(store, tmp_path)
    dose(ports(store, tmp_path), 4, rows.ME)
    left = rows.one(store, "SELECT start_at FROM draft_flags WHERE severity = 'block' AND resolved_at IS NULL")
    assert left["start_at"] == 0
    with pytest.raises(NotAllowed), store.begin() as work:
        resolve_open(work, work.reports.get(report_id), "dr-a", "")
