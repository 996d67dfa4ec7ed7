"""Draft, check, persist, review and deliver on a real database with the shipped fake drafter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import numpy as np
import pytest
from sqlalchemy import text

from pipeline.drafting.fake import FakeDrafter
from pipeline.drafting.parse import parse
from pipeline.drafting.schema import dumps
from pipeline.errors import ModelMissing, NotAllowed, PipelineError, ServiceUnavailable
from pipeline.export.markdown import draft_markdown, withdrawal_markdown
from pipeline.flow.deliver import Delivering, deliver
from pipeline.flow.draft import Drafting, Mode, draft
from pipeline.flow.review import review
from pipeline.model import DEMO_WATERMARK, WATERMARK, Features, Lease, ReportState, Side, Step
from pipeline.ports import Archive, Encoder
from pipeline.retrying import Retry
from pipeline.rules.seed import seed_dose_rules, seed_lexicon, seed_terms
from pipeline.store import operator, queries
from pipeline.store.seed import seed_rules
from pipeline.store.session import PgStore
from tests.builders import Bell, candidate
from tests.integration.store.rows import ME, claim, count, freeze, header, one, ready_job, send

RETRY = Retry(max_attempts=3, delay_s=0.0)


class Clock:
    """Wall time."""

    def now(self) -> datetime:
        return datetime.now(UTC)


class FeatureShelf:
    """An archive and an encoder that always hold the same features."""

    def __init__(self, flags: Sequence[str], phantom_only: bool, **more: Any) -> None:
        array = np.zeros((24, 128), np.float32)
        self._features = Features(array, "compact", "1", "p", (candidate(side=Side.RIGHT),), (), tuple(flags), phantom_only, **more)

    def path(self, relative: str) -> Path:
        return Path(relative)

    def load_features(self, path: Path) -> Features:
        return self._features


def encoded(store: PgStore) -> UUID:
    """A job that is ready to be drafted."""
    job_id = ready_job(store)
    (job,) = claim(store)
    with store.begin() as work:
        work.studies.encoded(job, "features/1.safetensors", "compact", "1", ME)
    return job_id


def drafting(
    store: PgStore,
    drafter: FakeDrafter,
    mode: Mode = "demo",
    *,
    flags: Sequence[str] = (),
    bell: Bell | None = None,
    encoder_phantom_only: bool | None = None,
    **more: Any,
) -> Drafting:
    """The step on a shelf of features whose encoder's card says what the drafter's says, unless told otherwise."""
    shelf = FeatureShelf(flags, drafter.phantom_only if encoder_phantom_only is None else encoder_phantom_only, **more)
    return Drafting(
        store,
        cast(Archive, shelf),
        cast(Encoder, shelf),
        drafter,
        parse,
        bell or Bell(),
        Clock(),
        RETRY,
        mode,
        "radiology",
        ("markdown",),
    )


def job_row(store: PgStore) -> dict[str, Any]:
    return one(store, "SELECT state, reason, attempts, lease_owner FROM jobs")


def test_a_demo_draft_of_a_real_study_is_watermarked_never_signed_and_never_delivered(store: PgStore) -> None:
    encoded(store)
    bell = Bell()
    assert draft(drafting(store, FakeDrafter(phantom_only=True), bell=bell), 4, ME) == 1
    assert bell.rung == [Step.DELIVER]
    seen = one(store, "SELECT text, watermark, signed_by FROM finished_reports")
    assert seen["watermark"] == f"{DEMO_WATERMARK}；{WATERMARK}"
    assert seen["text"].startswith(seen["watermark"])
    assert count(store, "deliveries") == 0
    report_id = one(store, "SELECT id FROM reports")["id"]
    for state in (ReportState.REVIEWING, ReportState.WRITTEN):
        review(store, report_id, state, "dr-a")
    with pytest.raises(NotAllowed, match="演示模型"):
        review(store, report_id, ReportState.SIGNED, "dr-b")
    assert one(store, "SELECT state, signed_by FROM reports") == {"state": "written", "signed_by": None}


def test_the_database_itself_refuses_a_signature_under_a_demo_draft(store: PgStore) -> None:
    encoded(store)
    draft(drafting(store, FakeDrafter(phantom_only=True)), 4, ME)
    with pytest.raises(PipelineError), store.begin() as work:
        work.session.execute(text("UPDATE reports SET state = 'signed', signed_by = 'dr-b', signed_at = now()"))
    assert one(store, "SELECT state FROM reports")["state"] == "waiting"


def test_a_phantom_only_model_writes_nothing_for_a_real_study_at_a_site_and_says_so(store: PgStore) -> None:
    encoded(store)
    drafter = FakeDrafter(phantom_only=True)
    draft(drafting(store, drafter, "site"), 4, ME)
    row = job_row(store)
    assert row["state"] == "failed"
    assert "phantom-only" in row["reason"]
    assert "ctreport retry" in row["reason"]
    assert (drafter.calls, count(store, "drafts")) == (0, 0)


def test_a_phantom_only_encoder_bars_a_live_models_draft_just_the_same(store: PgStore) -> None:
    encoded(store)
    draft(drafting(store, FakeDrafter(phantom_only=False), "site", encoder_phantom_only=True), 4, ME)
    assert (job_row(store)["state"], count(store, "drafts")) == ("failed", 0)


def test_in_demo_mode_a_phantom_only_encoder_makes_the_draft_demo_only(store: PgStore) -> None:
    encoded(store)
    draft(drafting(store, FakeDrafter(phantom_only=False), "demo", encoder_phantom_only=True), 4, ME)
    assert one(store, "SELECT demo_only FROM reports")["demo_only"] is True
    assert one(store, "SELECT watermark FROM finished_reports")["watermark"].startswith(DEMO_WATERMARK)


def test_images_of_another_patient_are_flagged_on_the_draft(store: PgStore) -> None:
    send(store, header(1), header(2), header(3, patient_id="P-2"))
    assert "PatientID" in one(store, "SELECT reason FROM studies WHERE state = 'held'")["reason"]
    operator.release(store, "1.2.3")
    draft_after(store)
    assert "PatientID" in one(store, "SELECT message FROM draft_flags WHERE rule = 'image'")["message"]


def draft_after(store: PgStore) -> None:
    """Freeze what was sent, encode it, draft it."""
    freeze(store)
    (job,) = claim(store)
    with store.begin() as work:
        work.studies.encoded(job, "features/1.safetensors", "compact", "1", ME)
    draft(drafting(store, FakeDrafter()), 4, ME)


def test_a_bug_in_one_job_costs_the_others_no_try(store: PgStore) -> None:
    encoded(store)
    ready_job(store, "4.5.6")
    (second,) = claim(store)
    with store.begin() as work:
        work.studies.encoded(second, "features/2.safetensors", "compact", "1", ME)

    class Buggy(FakeDrafter):
        def draft(self, features: Features, indication: str, department: str) -> Any:
            raise ValueError("a bug")

    with pytest.raises(ValueError, match="a bug"):
        draft(drafting(store, Buggy()), 4, ME)
    rows = {
        row: one(store, f"SELECT attempts, state FROM jobs WHERE study_id = (SELECT id FROM studies WHERE study_uid = '{row}')")
        for row in ("1.2.3", "4.5.6")
    }
    assert rows["1.2.3"] == {"attempts": 1, "state": "drafting"}
    assert rows["4.5.6"] == {"attempts": 0, "state": "encoded"}


def test_a_live_models_draft_is_signed_and_delivered(store: PgStore, tmp_path: Path) -> None:
    encoded(store)
    draft(drafting(store, FakeDrafter(phantom_only=False), "site"), 4, ME)
    report_id = one(store, "SELECT id FROM reports")["id"]
    for state, doctor in ((ReportState.REVIEWING, "dr-a"), (ReportState.WRITTEN, "dr-a"), (ReportState.SIGNED, "dr-b")):
        review(store, report_id, state, doctor)
    assert one(store, "SELECT status, signed_by, watermark FROM finished_reports") == {"status": "已签发", "signed_by": "dr-b", "watermark": ""}

    def render(shown: Mapping[str, object]) -> str:
        return draft_markdown(shown)

    assert deliver(Delivering(store, tmp_path / "out", render, withdrawal_markdown, RETRY), 4, ME) == 1
    (file,) = (tmp_path / "out").iterdir()
    assert "诊断意见" in file.read_text(encoding="utf-8")
    assert deliver(Delivering(store, tmp_path / "out", render, withdrawal_markdown, RETRY), 4, ME) == 0


def test_an_unwritable_delivery_folder_is_tried_again_then_failed_with_a_sentence(store: PgStore, tmp_path: Path) -> None:
    encoded(store)
    draft(drafting(store, FakeDrafter(phantom_only=False), "site"), 4, ME)
    (tmp_path / "file").write_text("in the way")
    for _ in range(3):
        deliver(Delivering(store, tmp_path / "file" / "out", draft_markdown, withdrawal_markdown, RETRY), 4, ME)
    row = one(store, "SELECT state, reason FROM deliveries")
    assert row["state"] == "failed"
    assert "CTREPORT_DELIVER_FOLDER" in row["reason"]


def test_a_draft_server_that_fails_twice_costs_two_tries_and_one_draft(store: PgStore) -> None:
    encoded(store)
    drafter = FakeDrafter(failures=[ServiceUnavailable("no answer"), ServiceUnavailable("no answer")])
    step = drafting(store, drafter)
    assert [draft(step, 1, ME) for _ in range(4)] == [1, 1, 1, 0]
    assert (job_row(store)["state"], count(store, "drafts"), drafter.calls) == ("drafted", 1, 3)


@pytest.mark.parametrize("answer", ['{"检查所见": {"病灶": [', "{}", "not json"])
def test_a_broken_answer_is_no_draft_and_the_reason_quotes_none_of_it(store: PgStore, answer: str) -> None:
    encoded(store)
    draft(drafting(store, FakeDrafter(texts=[answer])), 4, ME)
    row = job_row(store)
    assert (row["state"], row["lease_owner"], count(store, "drafts")) == ("failed", None, 0)
    assert answer not in row["reason"]


def test_a_missing_model_is_a_failed_job_with_a_sentence(store: PgStore) -> None:
    encoded(store)
    draft(drafting(store, FakeDrafter(failures=[ModelMissing("no folder 'x'; run `ctreport train`")])), 4, ME)
    assert (job_row(store)["state"], job_row(store)["reason"]) == ("failed", "no folder 'x'; run `ctreport train`")


def test_what_the_images_lack_stands_before_the_hits_of_the_rules(store: PgStore) -> None:
    encoded(store)
    draft(drafting(store, FakeDrafter(), flags=["第 9 层后疑缺 2 层", "第 12 层后疑缺 1 层"]), 4, ME)
    first = one(store, "SELECT rule, message FROM draft_flags ORDER BY position LIMIT 1")
    assert first == {"rule": "image", "message": "影像：第 9 层后疑缺 2 层；第 12 层后疑缺 1 层"}


def test_a_term_rule_edited_in_the_database_changes_the_next_draft(store: PgStore, url: str) -> None:
    seed_rules(url, seed_terms(), seed_dose_rules())
    encoded(store)
    with store.begin() as work:
        new_term = "INSERT INTO rule_terms (version, forbidden, standard) SELECT max(version), '建议随访', '建议复核随诊' FROM rule_versions"
        work.session.execute(text(new_term))
    draft(drafting(store, FakeDrafter()), 4, ME)
    assert one(store, "SELECT advice FROM drafts")["advice"] == "建议复核随诊。"
    assert one(store, "SELECT original FROM draft_flags WHERE severity = 'replaced'")["original"] == "建议随访"


def test_the_dose_warning_reads_rules_and_events_from_the_database(store: PgStore, url: str) -> None:
    seed_rules(url, seed_terms(), seed_dose_rules())
    encoded(store)
    with store.begin() as work:
        work.session.execute(
            text(
                "INSERT INTO dose_events (id, event_uid, patient_id, exam_date, region, dlp_mgy_cm, msv, source) "
                "SELECT gen_random_uuid(), 'e' || n, p.id, date '2025-10-01' + n, 'chest', 1900, 26.6, 'test' "
                "FROM patients p, generate_series(1, 2) n"
            )
        )
    nothing = {"病灶": [], "淋巴结": [], "肝脏": [], "胸腔积液": "无", "肺气肿": "无", "纤维化": "无", "描述": "双肺未见异常。"}
    answer = {"检查所见": nothing, "诊断意见": "未见异常。", "建议": "建议增强扫描。"}
    draft(drafting(store, FakeDrafter(texts=[dumps(answer)])), 4, ME)
    advice = one(store, "SELECT advice FROM drafts")["advice"]
    assert advice.startswith("【剂量预警】当前累积剂量已达阈值，建议多学科会诊")
    assert advice.endswith("建议增强扫描。")
    assert count(store, "draft_flags") >= 1


def test_a_lease_lost_while_drafting_saves_nothing(store: PgStore) -> None:
    encoded(store)

    class Thief(FakeDrafter):
        def draft(self, features: Features, indication: str, department: str) -> Any:
            with store.begin() as work:
                work.session.execute(text("UPDATE jobs SET lease_owner = 'thief'"))
            return super().draft(features, indication, department)

    draft(drafting(store, Thief()), 4, Lease("me", 60.0))
    assert (job_row(store)["state"], job_row(store)["lease_owner"], count(store, "drafts")) == ("drafting", "thief", 0)


def test_images_unlike_those_that_were_validated_are_flagged_on_the_draft_and_their_distance_is_stored(store: PgStore) -> None:
    encoded(store)
    unlike = "模型未在此类图像上验证"
    draft(drafting(store, FakeDrafter(), flags=(unlike,), ood=7.5), 4, ME)
    shown = queries.show(store, "1.2.3")
    assert shown["draft"]["ood"] == 7.5
    assert [flag["message"] for flag in shown["draft"]["flags"] if flag["rule"] == "image"] == [f"影像：{unlike}"]
    assert "图像偏离验证范围 7.50" in draft_markdown(shown)
    assert one(store, "SELECT ood FROM drafts")["ood"] == 7.5


def test_sides_that_the_images_show_otherwise_are_flagged_though_list_and_text_agree(store: PgStore, url: str) -> None:
    """The drafter is asked with other features than the check has: what spreads is on the other side."""
    seed_rules(url, seed_terms(), seed_dose_rules(), lexicon=seed_lexicon())
    encoded(store)
    features = Features(np.zeros((24, 128), np.float32), "compact", "1", "p", (), (), emphysema=(Side.LEFT,), fibrosis=(Side.RIGHT,))
    said = FakeDrafter().draft(features, "", "radiology").text
    draft(drafting(store, FakeDrafter(texts=[said]), emphysema=(Side.RIGHT,), fibrosis=(Side.LEFT, Side.RIGHT)), 4, ME)
    flags = queries.show(store, "1.2.3")["draft"]["flags"]
    told = {flag["rule"]: flag["severity"] for flag in flags if flag["rule"].endswith(".side")}
    assert told == {"emphysema.side": "block", "fibrosis.side": "flag"}
