"""Assemble on a real database: from the last image to the verdict on the draft, and from a withdrawal to its notice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pipeline.dicom.rejection import read_rejection
from pipeline.drafting.fake import FakeDrafter
from pipeline.evidence import Patience
from pipeline.export.markdown import draft_markdown, withdrawal_markdown
from pipeline.flow.assemble import Assembling, assemble
from pipeline.flow.deliver import Delivering, deliver
from pipeline.flow.draft import draft
from pipeline.flow.reject import KEY_OBJECT, Rejecting
from pipeline.flow.sweep import Sweeping, sweep
from pipeline.model import Step
from pipeline.ports import Arrival
from pipeline.store import operator, queries
from pipeline.store.session import PgStore
from tests.builders import Bell
from tests.integration.flow.test_drafting import RETRY, drafting
from tests.integration.store.rows import ME, claim, count, header, one, send
from tests.integration.store.test_evidence import aged, associated
from tests.rejection_notes import encoded, note

PATIENCE = Patience(quiet_s=30.0, settle_s=3.0, patience_s=300.0, force_after_s=3600.0)
SLICES = tuple(range(1, 13))


@dataclass(frozen=True)
class NoPhantoms:
    """Every study is a real one."""

    def holds_all(self, sop_uids: Sequence[str]) -> bool:
        return False


def assembled(store: PgStore) -> list[Step]:
    """One round of the step; which bells it rang."""
    bell = Bell()
    assemble(Assembling(store, NoPhantoms(), bell, PATIENCE, 8), 10, ME)
    return bell.rung


def drafted(store: PgStore) -> None:
    """Encode and draft what is ready."""
    for job in claim(store):
        with store.begin() as work:
            work.studies.encoded(job, "features/1.safetensors", "compact", "1", ME)
    draft(drafting(store, FakeDrafter(phantom_only=False), "site"), 4, ME)


def delivered(store: PgStore, folder: Path | None) -> int:
    return deliver(Delivering(store, folder, draft_markdown, withdrawal_markdown, RETRY), 4, ME)


def state(store: PgStore) -> tuple[object, object]:
    row = one(store, "SELECT state, revision FROM studies")
    return row["state"], row["revision"]


def test_a_clean_study_is_complete_after_its_quiet_time(store: PgStore) -> None:
    associated(store, "released", *SLICES)
    assert assembled(store) == []
    aged(store, 31.0)
    assert assembled(store) == [Step.ENCODE]
    assert state(store) == ("complete", 1)
    detail = one(store, "SELECT detail FROM audit WHERE action = 'assemble'")["detail"]
    assert detail.items() >= {"verdict": "complete", "images": "12", "associations_released": "1", "slices_missing": "0"}.items()


def test_a_pause_inside_an_open_association_freezes_no_half_study(store: PgStore) -> None:
    associated(store, None, *SLICES[:6])
    aged(store, 600.0)
    assert (assembled(store), state(store)) == ([], ("receiving", 0))


def test_after_a_restart_of_the_listener_half_a_study_waits_and_goes_on_as_partial_with_the_reason_on_the_draft(
    store: PgStore, tmp_path: Path
) -> None:
    associated(store, None, *SLICES[:9])
    with store.begin() as work:
        assert work.studies.close_orphans("listener") == 1
    aged(store, 31.0)
    assert (assembled(store), state(store)) == ([], ("receiving", 0))
    assert "接收服务曾重启" in queries.study_overview(store, "1.2.3")[0]["reason"]
    aged(store, 300.0)
    assert (assembled(store), state(store)) == ([Step.ENCODE], ("partial", 1))
    drafted(store)
    flag = one(store, "SELECT severity, message FROM draft_flags WHERE rule = 'completeness'")
    assert flag == {"severity": "flag", "message": "资料不完整：有 1 个发送连接断线（或接收服务曾重启），之后没有补传"}
    assert one(store, "SELECT flags FROM finished_reports")["flags"][0]["rule"] == "completeness"
    assert delivered(store, tmp_path) == 1
    assert "接收服务曾重启" in next(tmp_path.glob("*.md")).read_text(encoding="utf-8")


def test_late_images_open_one_revision_and_ring_once(store: PgStore) -> None:
    associated(store, "lost", *SLICES[:9])
    aged(store, 301.0)
    assembled(store)
    associated(store, "released", *SLICES[9:])
    assert state(store) == ("receiving", 1)
    aged(store, 31.0)
    assert assembled(store) == [Step.ENCODE]
    assert state(store) == ("complete", 2)
    assert assembled(store) == []
    assert one(store, "SELECT string_agg(state, ' ' ORDER BY revision) AS jobs FROM jobs")["jobs"] == "superseded ready"


def test_a_slice_that_never_came_makes_the_study_partial_and_names_its_place(store: PgStore) -> None:
    associated(store, "released", *(number for number in SLICES if number != 5))
    aged(store, 31.0)
    assert assembled(store) == []
    aged(store, 300.0)
    assembled(store)
    assert one(store, "SELECT completeness FROM jobs")["completeness"] == "序列「Thorax 5.0」图像 4 与 6 之间缺 1 层（20.0 mm 处）"
    associated(store, "released", 5)
    aged(store, 31.0)
    assembled(store)
    assert state(store) == ("complete", 2)
    assert one(store, "SELECT completeness FROM jobs WHERE revision = 2")["completeness"] == ""


def test_a_study_whose_association_never_closes_is_forced_and_says_so(store: PgStore) -> None:
    associated(store, None, *SLICES)
    aged(store, 3601.0)
    assert assembled(store) == [Step.ENCODE]
    assert state(store) == ("partial", 1)
    assert one(store, "SELECT completeness FROM jobs")["completeness"] == "等待超过上限（3600 秒），按现有图像继续；仍有 1 个发送连接未关闭"
    assert count(store, "audit WHERE action = 'assemble_forced'") == 1


def test_the_sweeper_rings_for_a_postponed_study_when_its_time_has_come(store: PgStore) -> None:
    associated(store, "aborted", *SLICES)
    aged(store, 31.0)
    assembled(store)
    sweeping = Sweeping(store, Bell(), 5, PATIENCE)
    assert sweep(sweeping)[Step.ASSEMBLE] == 0
    aged(store, 300.0)
    assert sweep(sweeping)[Step.ASSEMBLE] == 1


def test_a_study_of_another_region_ends_as_unsupported(store: PgStore) -> None:
    send(store, *(replace(header(number), body_part="HEAD", series_description="Head", study_description="Brain") for number in SLICES))
    aged(store, 31.0)
    assert assembled(store) == []
    assert one(store, "SELECT state FROM jobs")["state"] == "unsupported"


def test_a_withdrawn_study_sends_a_notice_that_repeats_none_of_the_draft(store: PgStore, tmp_path: Path) -> None:
    associated(store, "released", *SLICES)
    aged(store, 31.0)
    assembled(store)
    drafted(store)
    assert delivered(store, tmp_path) == 1
    operator.withdraw(store, "1.2.3")
    assert delivered(store, tmp_path) == 1
    draft_id = one(store, "SELECT id FROM drafts")["id"]
    notice = (tmp_path / f"{draft_id}.withdrawn.md").read_text(encoding="utf-8")
    assert "撤回原因：操作员撤回了本检查" in notice
    assert str(draft_id) in notice
    assert one(store, "SELECT findings_text FROM drafts")["findings_text"] not in notice
    assert [event["action"] for event in queries.timeline(store, "1.2.3")][-2:] == ["withdraw", "deliver"]


def test_where_nothing_is_delivered_a_notice_is_noted_as_told_to_nobody(store: PgStore) -> None:
    associated(store, "released", *SLICES)
    aged(store, 31.0)
    assembled(store)
    drafted(store)
    operator.withdraw(store, "1.2.3")
    assert delivered(store, None) == 1
    assert one(store, "SELECT state FROM deliveries WHERE kind = 'withdrawal'")["state"] == "done"
    assert one(store, "SELECT detail FROM audit WHERE action = 'deliver'")["detail"]["to"] == "nobody"


def test_a_rejection_note_as_sent_withdraws_its_study_and_the_notice_is_written(store: PgStore, tmp_path: Path) -> None:
    associated(store, "released", *SLICES)
    aged(store, 31.0)
    assembled(store)
    drafted(store)
    delivered(store, tmp_path)
    bell = Bell()
    body = encoded(note("1.2.3", [header(number).instance.sop_uid for number in SLICES], "113037"))
    arrival = Arrival(KEY_OBJECT, "1.2.3.8.113037", "1.2.840.10008.1.2", body, len(body), None)
    Rejecting(store, bell, read_rejection)(arrival, header(900))
    assert bell.rung == [Step.DELIVER]
    assert (state(store), count(store, "finished_reports")) == (("withdrawn", 1), 0)
    assert delivered(store, tmp_path) == 1
    (notice,) = tmp_path.glob("*.withdrawn.md")
    assert "113037 因患者安全原因拒绝" in notice.read_text(encoding="utf-8")
