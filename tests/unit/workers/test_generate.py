"""`ctreport generate` shows no unmarked text, and obeys the same rule as the pipeline."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pipeline.errors import NotAllowed
from pipeline.model import DEMO_WATERMARK, WATERMARK
from pipeline.settings import settings
from workers.cli import app

RUNNER = CliRunner()


@pytest.fixture(autouse=True)
def _own_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("CTREPORT_DATA", str(tmp_path))
    monkeypatch.setenv("CTREPORT_MODE", "demo")
    settings.cache_clear()
    yield
    settings.cache_clear()


def generated(*arguments: str) -> dict[str, object]:
    ran = RUNNER.invoke(app, ["generate", *arguments, "--json", "-"], catch_exceptions=False)
    assert ran.exit_code == 0, ran.output
    value: dict[str, object] = json.loads(ran.stdout)
    return value


def test_a_real_study_is_generated_under_the_demo_watermark_and_the_same_with_and_without_drafting(test_data: Path) -> None:
    folder = str(test_data / "chest_lidc_0314")
    drafted, plain = generated("--study", folder, "--k", "6"), generated("--study", folder, "--plain")
    assert str(drafted["watermark"]).startswith(DEMO_WATERMARK)
    assert drafted["text"] == plain["text"]
    assert int(str(drafted["verify_count"])) < int(str(plain["verify_count"]))


def test_branches_are_searched_under_the_same_watermark_and_their_score_is_shown(test_data: Path) -> None:
    found = generated("--study", str(test_data / "chest_lidc_0314"), "--beams", "2")
    assert str(found["watermark"]).startswith(DEMO_WATERMARK)
    assert found["beams"] == 2
    assert float(str(found["score"])) <= 0
    assert 0 < int(str(found["verify_count"])) < int(str(found["tokens"]))


def test_a_real_study_is_refused_at_a_site(test_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CTREPORT_MODE", "site")
    settings.cache_clear()
    with pytest.raises(NotAllowed, match="phantom-only"):
        RUNNER.invoke(app, ["generate", "--study", str(test_data / "chest_lidc_0314")], catch_exceptions=False)


def test_a_phantom_of_this_installation_needs_no_demo_watermark(tmp_path: Path) -> None:
    made = RUNNER.invoke(app, ["phantom", str(tmp_path / "p"), "--seed", "5"], catch_exceptions=False)
    assert made.exit_code == 0, made.output
    assert generated("--study", str(tmp_path / "p"))["watermark"] == WATERMARK
