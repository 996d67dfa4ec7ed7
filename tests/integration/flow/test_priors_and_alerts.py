"""The draft step with what it knows besides the images: earlier examinations, the indication, and the list of critical findings."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import Any, cast
from uuid import UUID

import numpy as np
from sqlalchemy import text

from pipeline.drafting.fake import FakeDrafter, report_of
from pipeline.drafting.parse import parse
from pipeline.drafting.schema import dumps
from pipeline.flow.draft import Drafting, draft
from pipeline.flow.sweep import Sweeping, sweep
from pipeline.model import Features, Frame, Side
from pipeline.ports import Archive, Encoder
from pipeline.rules.seed import seed_guidance, seed_lexicon
from pipeline.store.seed import seed_rules
from pipeline.store.session import PgStore
from tests.builders import Bell, candidate
from tests.integration.flow.test_drafting import RETRY, Clock, FeatureShelf
from tests.integration.store import rows

FRAME = Frame((-150.0, -100.0, -125.0, 150.0, 100.0, 125.0), 0.0, 1.0, 1.0)
BEFORE, TODAY = date(2025, 6, 1), date(2026, 1, 15)
INDICATION = "咳嗽，否认肿瘤病史，无免疫抑制，长期吸烟"


class Shelf(FeatureShelf):
    """Features of one nodule whose place and size are known."""

    def __init__(self, size_mm: float, frame: Frame | None) -> None:
        seen = candidate(side=Side.LEFT, size_mm=size_mm)
        self._features = Features(np.zeros((24, 128), np.float32), "compact", "1", "p", (seen,), (), (), False, covers=("肺",), frame=frame)


def drafted(store: PgStore, uid: str, day: date, size_mm: float, *, impression: str = "", frame: Frame | None = FRAME) -> UUID:
    """A study of that day whose draft speaks of one nodule, and says `impression` besides; returns its draft's id."""
    rows.send(store, *(rows.header(number, uid, study_date=day, indication=INDICATION) for number in (1, 2, 3)))
    rows.freeze(store)
    (job,) = rows.claim(store)
    with store.begin() as work:
        work.studies.encoded(job, "features/1.safetensors", "compact", "1", rows.ME)
    shelf = Shelf(size_mm, frame)
    answer = report_of(shelf.load_features(cast(Any, None)))
    answer["诊断意见"] += impression
    drafter = FakeDrafter(phantom_only=False, texts=[dumps(answer)])
    ports = Drafting(store, cast(Archive, shelf), cast(Encoder, shelf), drafter, parse, Bell(), Clock(), RETRY, "site", "radiology")
    assert draft(ports, 1, rows.ME) == 1
    with store.begin() as work:
        found = work.session.execute(text("SELECT id FROM drafts WHERE job_id = :j"), {"j": job.id}).scalar_one()
    return UUID(str(found))


def flags(store: PgStore, draft_id: UUID, rule: str) -> list[str]:
    query = text("SELECT message FROM draft_flags WHERE draft_id = :d AND rule LIKE :r ORDER BY position")
    with store.begin() as work:
        return list(work.session.execute(query, {"d": draft_id, "r": rule}).scalars())


def seeded(store: PgStore, url: str) -> None:
    seed_rules(url, {}, (), (), seed_lexicon(), seed_guidance())


def test_a_nodule_that_grew_since_the_patient_s_earlier_draft_is_flagged(store: PgStore, url: str) -> None:
    seeded(store, url)
    first = drafted(store, "1.2.1", BEFORE, 7.0)
    assert flags(store, first, "growth.%") == []
    (grown,) = flags(store, drafted(store, "1.2.2", TODAY, 11.0), "growth.%")
    assert "2025-06-01 7.0 mm → 2026-01-15 11.0 mm" in grown
    assert flags(store, drafted(store, "1.2.3", date(2026, 1, 16), 11.0), "growth.%") == []


def test_without_places_the_reader_is_told_that_nothing_was_compared(store: PgStore, url: str) -> None:
    seeded(store, url)
    drafted(store, "1.2.1", BEFORE, 7.0, frame=None)
    (message,) = flags(store, drafted(store, "1.2.2", TODAY, 11.0), "growth.%")
    assert "【与既往不可比】" in message
    assert "既往检查没有保存病灶位置" in message


def test_a_guideline_s_suggestion_stands_beside_the_draft_and_never_in_it(store: PgStore, url: str) -> None:
    seeded(store, url)
    draft_id = drafted(store, "1.2.1", BEFORE, 7.0)
    (message,) = flags(store, draft_id, "guideline.%")
    assert "Fleischner 2017：6–12 个月复查 CT，之后 18–24 个月复查 CT" in message
    assert "年龄 55 岁" in message
    assert "Fleischner" not in str(rows.one(store, "SELECT findings_text, impression, advice FROM drafts"))


def test_a_critical_finding_of_the_draft_is_an_alert_that_the_sweep_lets_climb(store: PgStore, url: str) -> None:
    seeded(store, url)
    draft_id = drafted(store, "1.2.1", TODAY, 7.0, impression="肺栓塞不除外。")
    alert = rows.one(store, "SELECT id, draft_id, rule, certain, level FROM alerts")
    assert (UUID(str(alert["draft_id"])), alert["rule"], alert["certain"], alert["level"]) == (draft_id, "pulmonary-embolism", False, 0)
    (message,) = flags(store, draft_id, "critical.%")
    assert "【疑似危急值】肺栓塞" in message
    with store.begin() as work:
        work.session.execute(text("UPDATE alerts SET due_at = now() - interval '1 minute'"))
    for _ in range(2):
        sweep(Sweeping(store, Bell(), 3, rows.NOW))
    assert rows.one(store, "SELECT level FROM alerts") == {"level": 1}
    assert rows.count(store, "audit WHERE action = 'alert_escalated'") == 1


def test_no_log_line_of_an_alert_names_the_patient_or_the_text(store: PgStore, url: str, capsys: Any) -> None:
    seeded(store, url)
    drafted(store, "1.2.1", TODAY, 7.0, impression="肺栓塞。")
    with store.begin() as work:
        work.session.execute(text("UPDATE alerts SET due_at = now() - interval '1 minute'"))
    sweep(Sweeping(store, Bell(), 3, rows.NOW))
    seen = "".join(capsys.readouterr())
    assert "alert_overdue" in seen
    assert not any(secret in seen for secret in ("张", "P-1", "肺栓塞", "1.2.1"))


def test_seeding_an_older_installation_adds_the_list_once_and_keeps_a_site_s_own(store: PgStore, url: str) -> None:
    seed_rules(url, {}, (), (), seed_lexicon())
    assert seed_rules(url, {}, (), (), seed_lexicon(), seed_guidance()) == 0
    with store.begin() as work:
        rules = work.rules.current()
    guidance = seed_guidance()
    assert (rules.version, rules.critical, rules.guidelines, rules.growth) == (2, guidance.critical, guidance.guidelines, guidance.growth)
    assert sorted(rules.cues, key=repr) == sorted(guidance.cues, key=repr)
    seed_rules(url, {}, (), (), seed_lexicon(), replace(guidance, critical=()))
    with store.begin() as work:
        assert work.rules.current().version == 2
