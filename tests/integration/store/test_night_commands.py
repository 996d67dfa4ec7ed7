"""`ctreport night …` and `ctreport correct` on a database, as a person calls them."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import text
from typer.testing import CliRunner

from pipeline.flow.sample import night_with
from pipeline.flow.sample import sample as take
from pipeline.settings import settings
from pipeline.store.session import PgStore
from tests.integration.store.rows import drafted, ready_job
from workers import wiring
from workers.cli import app

RUNNER = CliRunner()
TOMORROW = (datetime.now(UTC) + timedelta(hours=3)).isoformat()


@pytest.fixture(autouse=True)
def _site(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The commands find this database; nothing asks Redis. The window never closes."""
    monkeypatch.setenv("CTREPORT_DATABASE_URL", url)
    monkeypatch.setenv("CTREPORT_REDIS_URL", "redis://127.0.0.1:1/0")
    monkeypatch.setenv("CTREPORT_NIGHT_WINDOW", "22:00-22:00")
    settings.cache_clear()
    yield
    wiring.close()
    settings.cache_clear()


def run(*arguments: str, code: int = 0) -> str:
    ran = RUNNER.invoke(app, list(arguments))
    assert ran.exit_code == code, ran.output
    return ran.stdout


def test_plan_lists_what_waits_with_its_estimate_and_what_it_rests_on(store: PgStore) -> None:
    ready_job(store)
    told = json.loads(run("night", "plan", "--json", "-"))
    assert [(row["kind"], row["fits"]) for row in told["studies"]] == [("unread", True)]
    assert (told["pace"]["measured_on"], told["beyond"]) == (0, 0)
    assert told["window"]["opens"].endswith("+08:00")
    assert "a guess" in run("night", "plan")


def test_plan_ends_with_1_when_not_all_of_it_fits_in(store: PgStore, monkeypatch: pytest.MonkeyPatch) -> None:
    ready_job(store)
    now = datetime.now(wiring.off_peak().zone)
    minute = (now + timedelta(hours=1)).strftime("%H:%M")
    monkeypatch.setenv("CTREPORT_NIGHT_WINDOW", f"{minute}-{(now + timedelta(hours=1, minutes=1)).strftime('%H:%M')}")
    settings.cache_clear()
    ready_job(store, "1.2.4")  # the second draft needs 40 s more than the minute
    assert json.loads(run("night", "plan", "--json", "-", code=1))["beyond"] == 1


def test_report_tells_the_last_night_as_markdown_and_json(store: PgStore) -> None:
    drafted(store)
    assert run("night", "report").startswith("# 夜班晨报")
    told = json.loads(run("night", "report", "--json", "-"))
    assert (told["studies"]["ready"], told["not_ready"], told["departments"]["radiology"]["ready"]) == (1, [], 1)


def test_report_holds_what_the_sample_of_the_same_night_found(store: PgStore) -> None:
    drafted(store)
    assert json.loads(run("night", "report", "--json", "-"))["drift"] is None
    sampling, off_peak = wiring.sampling(), wiring.off_peak()
    with store.begin() as work:
        night = night_with(off_peak.latest(work.night.now()).opens, sampling.at, sampling.zone)
    assert take(sampling, night) is not None
    with store.begin() as work:
        values = f"'{night}', 0, 'sides', 'jump', '{{CT1}}', '{{radiology}}', '{{tiny}}', '{{1}}', 0.5, 0.9, 0.8, 9, 90, '{{}}'"
        work.session.execute(text(f"INSERT INTO sample_alarms VALUES ({values})"))
    told = json.loads(run("night", "report", "--json", "-"))
    assert [(one["figure"], one["scanner"], one["model"]) for one in told["drift"]["alarms"]] == [("sides", "CT1", "tiny")]
    assert "漂移 1 项" in run("night", "report")


def test_report_of_a_night_to_come_is_refused_with_a_sentence() -> None:
    ran = RUNNER.invoke(app, ["night", "report", "--night", "2999-01-01"])
    assert "has not opened yet" in str(ran.exception)


def test_expected_readings_are_taken_once_and_order_the_plan(store: PgStore, tmp_path: Path) -> None:
    ready_job(store)
    file = tmp_path / "list.json"
    file.write_text(json.dumps([{"accession": "A-1", "reads_at": TOMORROW}, {"patient_id": "P-9", "reads_at": "2026-01-31T08:15"}]), encoding="utf-8")
    assert json.loads(run("night", "expect", str(file), "--json", "-")) == {"given": 2, "new": 2}
    assert json.loads(run("night", "expect", str(file), "--json", "-"))["new"] == 0
    (row,) = json.loads(run("night", "plan", "--json", "-"))["studies"]
    assert datetime.fromisoformat(row["reads_at"]) == datetime.fromisoformat(TOMORROW).replace(microsecond=0)


@pytest.mark.parametrize("content", ["no json", "{}", '[{"reads_at": "2026-01-31T08:15"}]', '[{"patient_id": "张三", "reads_at": "soon"}]', "[7]"])
def test_a_list_that_cannot_be_read_is_refused_and_nothing_of_it_is_repeated(content: str, tmp_path: Path) -> None:
    file = tmp_path / "list.json"
    file.write_text(content, encoding="utf-8")
    ran = RUNNER.invoke(app, ["night", "expect", str(file)])
    assert type(ran.exception).__name__ == "BadInput"
    assert "张三" not in str(ran.exception)


def test_correct_says_what_is_new_and_whether_a_revision_is_made(store: PgStore) -> None:
    drafted(store)
    told = run("correct", "1.2.3", "--by", "dr-a", "--indication", "胸痛", "--json", "-")
    after_the_bell = told[told.index("{") :]  # nobody hears it here, which is logged
    assert json.loads(after_the_bell) == {"study_uid": "1.2.3", "fields": ["indication"], "revision": True}
    assert "says that already" in run("correct", "1.2.3", "--by", "dr-a", "--indication", "胸痛")
    run("correct", "1.2.3", "--by", "dr-a", code=2)
