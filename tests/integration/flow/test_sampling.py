"""The nightly sample on a real database: rows, once a night, and drift told."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from threading import Thread
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from sqlalchemy import text

from pipeline.flow.sample import Sampling, sample, sample_due
from pipeline.rules.seed import seed_dose_rules, seed_lexicon, seed_terms
from pipeline.sampling import Chart, Sample
from pipeline.store.seed import seed_rules
from pipeline.store.session import PgStore
from tests.integration.store.rows import count, drafted, one
from workers.commands.sample import as_json, sentence, summary

ZONE = ZoneInfo("Asia/Shanghai")
NIGHT = date(2026, 11, 30)
NOW = datetime(2026, 11, 30, 7, 0, tzinfo=ZONE)


class At:
    """A clock that stands."""

    def __init__(self, now: datetime = NOW) -> None:
        self._now = now

    def now(self) -> datetime:
        return self._now.astimezone(UTC)


@pytest.fixture(autouse=True)
def _rules(url: str) -> None:
    seed_rules(url, seed_terms(), seed_dose_rules(), lexicon=seed_lexicon())


def sampling(store: PgStore, now: datetime = NOW, share: float = 1.0) -> Sampling:
    return Sampling(store, At(now), share, 0, time(6), ZONE)


def draft_of(store: PgStore, number: int, night: date = NIGHT, station: str = "CT1", **changes: object) -> UUID:
    """A draft written in a night by a scanner; `changes` are columns of its row."""
    draft_id = drafted(store, f"1.2.{number}")
    moment = datetime.combine(night, time(3), ZONE)
    columns = "".join(f", {name} = :{name}" for name in changes)
    with store.begin() as work:
        work.session.execute(text(f"UPDATE drafts SET created_at = :at{columns} WHERE id = :id"), {"at": moment, "id": draft_id, **changes})
        work.session.execute(text("UPDATE studies SET station = :station WHERE study_uid = :uid"), {"station": station, "uid": f"1.2.{number}"})
    return draft_id


def copies(store: PgStore, draft_id: UUID, nights: int, each: int) -> None:
    """The earlier nights, as rows that were measured before: as this draft, a little longer or shorter."""
    with store.begin() as work:
        work.session.execute(
            text("""
            INSERT INTO samples (night, since, until, share, seed)
              SELECT DATE '2026-11-30' - n, now() - interval '2 days', now(), 0.1, 0 FROM generate_series(1, :nights) AS n"""),
            {"nights": nights},
        )
        work.session.execute(
            text("""
            INSERT INTO sampled_drafts
              SELECT DATE '2026-11-30' - n, gen_random_uuid(), 'radiology', 'CT1', 'tiny@abc', 1,
                     jsonb_build_object('fields', 1.0, 'terms', 1, 'sides', 1.0, 'repetition', 0.0, 'length', 20 + (i + n) % 3, 'acceptance', 0.727)
              FROM generate_series(1, :nights) AS n, generate_series(1, :each) AS i"""),
            {"nights": nights, "each": each},
        )


def taken(store: PgStore, night: date = NIGHT) -> Sample:
    with store.begin() as work:
        found = work.samples.get(night)
    assert found is not None
    return found


def test_the_drafts_of_the_night_are_measured_and_kept(store: PgStore) -> None:
    draft_of(store, 1)
    draft_of(store, 2, NIGHT - timedelta(days=1))
    done = sample(sampling(store), NIGHT)
    assert done is not None
    assert taken(store) == done
    assert (done.drafts, [(s.department, s.scanner, s.drafts, s.sampled) for s in done.strata]) == (1, [("radiology", "CT1", 1, 1)])
    figures = done.measured[0].figures
    assert (figures["fields"], figures["terms"], figures["sides"], figures["repetition"]) == (1.0, 1.0, None, 0.0)
    assert figures["length"] == len("右肺上叶见磨玻璃结节右肺上叶结节建议随访")
    assert figures["acceptance"] == pytest.approx(40 / 55)
    assert (done.measured[0].model, done.learning) == ("tiny@abc", 20)


def test_a_night_is_sampled_once_however_often_and_by_however_many_it_is_asked_for(store: PgStore) -> None:
    for number in range(1, 5):
        draft_of(store, number)
    done: list[tuple[Sample, ...]] = []
    threads = [Thread(target=lambda: done.append(sample_due(sampling(store)))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(len, done)) == [0, 0, 0, 1]
    assert (count(store, "samples"), count(store, "sampled_drafts")) == (1, 4)
    assert sample_due(sampling(store)) == ()


def test_nights_that_were_missed_are_made_up_for_and_those_long_ago_are_not(store: PgStore) -> None:
    draft_of(store, 1, NIGHT - timedelta(days=2))
    assert [one.night for one in sample_due(sampling(store, NOW - timedelta(days=4)))] == [NIGHT - timedelta(days=4)]
    done = sample_due(sampling(store))
    assert [(one.night, one.drafts) for one in done] == [(NIGHT - timedelta(days=back), int(back == 2)) for back in (3, 2, 1, 0)]
    assert len(sample_due(sampling(store, NOW + timedelta(days=60)))) == 7


def test_drift_is_a_row_an_audit_entry_and_a_sentence_that_names_everything(store: PgStore) -> None:
    first = draft_of(store, 1, model_digest="fedcba9876543210", rules_version=3)
    copies(store, first, nights=10, each=4)
    draft_of(store, 2, advice="建议随访。" * 30, model_digest="fedcba9876543210", rules_version=3)
    done = sample(sampling(store), NIGHT)
    assert done is not None
    assert [(alarm.figure, alarm.chart) for alarm in done.alarms if alarm.figure in ("repetition", "length") and alarm.chart is Chart.JUMP] != []
    alarm = next(alarm for alarm in done.alarms if alarm.figure == "length")
    assert (alarm.scanners, alarm.departments, alarm.models, alarm.rules_versions) == (("CT1",), ("radiology",), ("tiny@fedcba987654",), (3,))
    assert alarm.fresh == ("tiny@fedcba987654", "rules 3")
    with store.begin() as work:
        assert work.samples.alarms(NIGHT) == done.alarms
    told = one(store, "SELECT count(*) AS n, min(detail->>'scanner') AS scanner, min(detail->>'rules') AS rules FROM audit WHERE action = 'drift'")
    assert told == {"n": len(done.alarms), "scanner": "CT1", "rules": "3"}
    assert "scanner CT1; department radiology; model tiny@fedcba987654; rules 3; new since" in sentence(alarm)
    assert "DRIFT length" in summary(taken(store))
    assert as_json(taken(store))["alarms"][0]["limit"] == done.alarms[0].limit


def test_a_change_that_is_meant_becomes_the_baseline(store: PgStore) -> None:
    first = draft_of(store, 1)
    copies(store, first, nights=10, each=4)
    with store.begin() as work:
        assert len(work.samples.history(NIGHT, 40)) == 40
        assert len(work.samples.history(NIGHT, 3)) == 12
        assert work.samples.begin_anew(NIGHT - timedelta(days=2))
        assert not work.samples.begin_anew(NIGHT + timedelta(days=2))
        assert len(work.samples.history(NIGHT, 40)) == 8
        assert {one.night for one in work.samples.history(NIGHT, 40)} == {NIGHT - timedelta(days=1), NIGHT - timedelta(days=2)}


def test_a_scanner_without_a_name_is_one_of_its_own(store: PgStore) -> None:
    draft_of(store, 1, station="")
    draft_of(store, 2, station="CT2")
    done = sample(sampling(store, share=0.1), NIGHT)
    assert done is not None
    assert [(stratum.scanner, stratum.sampled) for stratum in done.strata] == [("CT2", 1), ("unknown", 1)]
