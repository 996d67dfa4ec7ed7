from uuid import UUID

import pytest

from pipeline.errors import BadInput, IllegalMove
from pipeline.model import WATERMARK, JobState, Step
from pipeline.store import operator, queries
from pipeline.store.session import PgStore
from tests.integration.store import rows
from tests.integration.store.rows import ME


def overview(store: PgStore) -> tuple[object, object, object]:
    (row,) = queries.study_overview(store, "1.2.3")
    return row["state"], row["step"], row["revision"]


def test_overview_follows_a_study_through_its_steps(store: PgStore) -> None:
    assert queries.study_overview(store) == []
    rows.send(store, rows.header(1))
    seen = [overview(store)]
    rows.freeze(store)
    seen.append(overview(store))
    (job,) = rows.claim(store)
    seen.append(overview(store))
    with store.begin() as work:
        work.studies.encoded(job, "f", "e", "1", ME)
    seen.append(overview(store))
    (job,) = rows.claim(store, Step.DRAFT)
    with store.begin() as work:
        work.studies.save_draft(job, rows.draft(job), ME)
    seen.append(overview(store))
    assert seen == [
        ("receiving", "receive", 0),
        ("ready", "encode", 1),
        ("encoding", "encode", 1),
        ("encoded", "draft", 1),
        ("drafted", "persist", 1),
    ]


def test_overview_has_the_keys_of_the_design_and_finds_by_internal_id(store: PgStore) -> None:
    rows.ready_job(store)
    study_id = rows.one(store, "SELECT id FROM studies")["id"]
    (row,) = queries.study_overview(store, str(study_id))
    assert row.keys() >= {"study_uid", "state", "step", "revision", "images", "seconds", "reason"}
    assert row["images"] == 3
    assert row["seconds"] >= 0


def test_overview_tells_why_a_job_failed(store: PgStore) -> None:
    rows.ready_job(store)
    (job,) = rows.claim(store)
    with store.begin() as work:
        work.studies.end(job, JobState.FAILED, "weights are missing", ME)
    (row,) = queries.study_overview(store, "1.2.3")
    assert (row["state"], row["step"], row["reason"]) == ("failed", None, "weights are missing")


def test_show_has_the_keys_of_the_design(store: PgStore) -> None:
    draft_id = rows.drafted(store)
    shown = queries.show(store, "1.2.3")
    assert shown["draft"]["sections"] == {"检查所见": "右肺上叶见磨玻璃结节", "诊断意见": "右肺上叶结节", "建议": "建议随访"}
    place = {"candidate": 1, "kind": "结节", "side": "右肺", "lobe": "上叶", "density": "磨玻璃", "size_mm": 8}
    (finding,) = shown["draft"]["findings"]
    assert finding.items() >= (place | {"margin": "毛刺", "internal": "均匀", "surround": "胸膜牵拉", "sources": {}}).items()
    assert {key for key, value in finding.items() if value is None} == {"segment", "shape", "enhancement", "advice", "grading", "malignancy"}
    assert finding["evidence"] == {"candidate": 1, "slice_sop_uid": None, "frame": None, "series_number": None, "image_number": None}
    assert shown["draft"]["flags"][0]["original"] == "毛玻璃"
    assert shown["draft"]["source"].items() >= {"rung": "embedded", "model": "tiny", "rules_version": 1}.items()
    steps = {"tokens": 90, "verify_count": 30, "accepted_histogram": [5, 10, 15], "seconds": 0.5, "forced": 40}
    detail = {"positions": [[30, 25], [25, 15]], "sections": {"建议": [20, 16, 12]}, "sources": {"mtp": [40, 30], "lookup": [15, 10]}}
    made = {"first_token_s": None, "k": {"": None}}
    assert shown["draft"]["generation"] == {**steps, **detail, **made}
    assert shown["draft"]["ood"] == 3.25
    assert shown["series"] == {"chosen": ["1.2.3.5"], "refused": [{"uid": "1.2.3.6", "reason": "localizer"}], "scores": []}
    assert (shown["revision"], shown["watermark"], shown["status"], shown["draft_id"]) == (1, WATERMARK, "待审", str(draft_id))


def test_show_without_a_draft_says_why(store: PgStore) -> None:
    with pytest.raises(BadInput, match="no study has this UID"):
        queries.show(store, "1.2.3")
    rows.send(store, rows.header(1))
    rows.freeze(store, "head is not read here")
    with pytest.raises(BadInput, match="head is not read here"):
        queries.show(store, "1.2.3")


def test_timeline_tells_events_in_order_and_nothing_of_unknown_studies(store: PgStore) -> None:
    assert queries.timeline(store, "1.2.3") == []
    rows.ready_job(store)
    operator.hold(store, "1.2.3", actor="night shift")
    operator.release(store, "1.2.3")
    events = queries.timeline(store, "1.2.3")
    assert [(event["action"], event["actor"]) for event in events] == [("hold", "night shift"), ("release", "operator")]
    assert events[0]["detail"] == {"before": "complete", "after": "held"}
    assert events[0]["id"] < events[1]["id"]


def test_every_image_is_listed_for_verify(store: PgStore) -> None:
    headers = [rows.header(number) for number in range(1, 6)] + [rows.header(1, content="x")]
    rows.send(store, *headers)
    listed = sorted(queries.instance_rows(store))
    assert listed == sorted((h.instance.sop_uid, h.instance.sha256, h.instance.path, h.instance.size_bytes) for h in headers)
    assert queries.duplicates(store) == []


def test_moving_rows_are_not_stuck_and_forgotten_ones_are(store: PgStore) -> None:
    rows.ready_job(store, "1.2.3")
    rows.ready_job(store, "1.2.4")
    rows.send(store, rows.header(1, "1.2.5"))
    assert queries.stuck(store, 60.0, rows.NOW) == []
    rows.claim(store, limit=1)
    assert [(one.what, one.state) for one in queries.stuck(store, 0.0, rows.NOW)] == [("study", "receiving")]  # the other job waits behind the first
    rows.expire(store, "jobs")
    found = sorted((one.what, one.state) for one in queries.stuck(store, 0.0, rows.NOW))
    assert found == [("job", "encoding"), ("job", "ready"), ("study", "receiving")]
    assert all(UUID(one.id) and one.reason for one in queries.stuck(store, 0.0, rows.NOW))


def test_retry_needs_a_failed_or_unsupported_job(store: PgStore) -> None:
    rows.send(store, rows.header(1))
    with pytest.raises(BadInput, match="no job yet"):
        operator.retry(store, "1.2.3")
    rows.freeze(store, "head")
    assert operator.retry(store, "1.2.3") == ("unsupported", "ready")
    with pytest.raises(IllegalMove):
        operator.retry(store, "1.2.3")


def test_release_needs_a_held_study(store: PgStore) -> None:
    rows.ready_job(store)
    with pytest.raises(BadInput, match="not held"):
        operator.release(store, "1.2.3")
    with pytest.raises(BadInput, match="no study"):
        operator.hold(store, "9.9.9")
