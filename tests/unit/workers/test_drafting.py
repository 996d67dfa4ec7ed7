"""Who writes at this site, by settings, and what the draft task does when nobody may."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pipeline.drafting.embedded import EmbeddedDrafter
from pipeline.drafting.ladder import Ladder
from pipeline.engine.seeded import write_seeded_checkpoint
from pipeline.errors import NotAllowed
from pipeline.flow.draft import watermark_for
from pipeline.model import Step
from pipeline.settings import settings
from tests.builders import Bell
from workers import policy, tasks, wiring, wiring_drafts

Configure = Callable[..., None]


@pytest.fixture
def configure(monkeypatch: pytest.MonkeyPatch) -> Iterator[Configure]:
    """Sets variables and forgets what was read before."""

    def forget() -> None:
        settings.cache_clear()
        wiring_drafts.generator.cache_clear()

    def set_all(**variables: str) -> None:
        for name, value in variables.items():
            monkeypatch.setenv(f"CTREPORT_{name}", value)
        forget()

    yield set_all
    monkeypatch.undo()
    forget()


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoint")
    write_seeded_checkpoint(folder, feature_dim=8)
    return folder


def of_use(checkpoint: Path, target: Path, use: str) -> str:
    """The same checkpoint with a card of another use."""
    shutil.copytree(checkpoint, target)
    (target / "card.json").write_text(json.dumps({"name": "seeded", "use": use}))
    return str(target)


def rungs(writer: object) -> list[str]:
    assert isinstance(writer, Ladder)
    return list(writer.standings)


def test_without_a_server_the_embedded_engine_writes_alone(configure: Configure, checkpoint: Path) -> None:
    configure(DRAFT_WEIGHTS=str(checkpoint))
    assert isinstance(wiring_drafts.generator(), EmbeddedDrafter)
    assert wiring_drafts.draft_refusal() is None
    assert policy.drafting_width(settings()) == 1


def test_a_server_makes_it_a_site_and_a_ladder(configure: Configure, checkpoint: Path, tmp_path: Path) -> None:
    live = of_use(checkpoint, tmp_path / "live", "live")
    configure(DRAFT_WEIGHTS=live, SGLANG_URL="http://127.0.0.1:9", SGLANG_PLAIN_URL="http://127.0.0.1:9", VLLM_URL="http://127.0.0.1:9")
    assert settings().mode == "site"
    assert rungs(wiring_drafts.generator()) == ["sglang", "sglang-plain", "vllm", "embedded"]
    assert policy.drafting_width(settings()) == settings().served.concurrency


@pytest.mark.parametrize("use", ["phantom-only", "test-only", "candidate", ""])
def test_at_a_served_site_a_model_that_is_not_live_writes_no_real_study(configure: Configure, checkpoint: Path, tmp_path: Path, use: str) -> None:
    folder = of_use(checkpoint, tmp_path / "other", use)
    configure(DRAFT_WEIGHTS=folder, SGLANG_URL="http://127.0.0.1:9")
    writer = wiring_drafts.generator()
    assert rungs(writer) == ["sglang"], "the embedded engine is no rung here"
    assert writer.phantom_only
    with pytest.raises(NotAllowed, match="phantom-only"):
        watermark_for(writer.phantom_only, False, settings().mode)


def test_in_demo_mode_the_embedded_engine_stays_the_last_rung(configure: Configure, checkpoint: Path) -> None:
    configure(DRAFT_WEIGHTS=str(checkpoint), SGLANG_URL="http://127.0.0.1:9", MODE="demo")
    assert rungs(wiring_drafts.generator()) == ["sglang", "embedded"]


def test_a_dead_server_is_a_refusal_with_its_reason_and_nothing_is_claimed(
    configure: Configure, checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(DRAFT_WEIGHTS=of_use(checkpoint, tmp_path / "x", "candidate"), SGLANG_URL="http://127.0.0.1:9", SERVED_RETRIES="0")
    assert "cannot be reached" in (wiring_drafts.draft_refusal() or "")

    def claimed(*_: object) -> int:
        raise AssertionError("a job was claimed although nobody may write")

    monkeypatch.setattr(tasks, "draft_jobs", claimed)
    monkeypatch.setattr(tasks, "draft_asked", claimed)
    tasks.draft.run()


def test_a_folder_that_does_not_fit_is_a_refusal_too(configure: Configure, tmp_path: Path) -> None:
    configure(DRAFT_WEIGHTS=str(tmp_path), SGLANG_URL="http://127.0.0.1:9")
    assert "config.json" in (wiring_drafts.draft_refusal() or "")


def test_a_url_that_is_none_is_refused_when_it_is_read(configure: Configure) -> None:
    configure(SGLANG_URL="draft-server:30000")
    with pytest.raises(ValueError, match="url"):
        settings()


@pytest.mark.parametrize(("claimed", "rung"), [(3, 1), (2, 0)])
def test_fewer_drafts_at_once_than_a_batch_ring_again_when_every_thread_found_one(monkeypatch: pytest.MonkeyPatch, claimed: int, rung: int) -> None:
    """Else the rest would wait for the sweeper."""
    bell = Bell()
    monkeypatch.setattr(wiring, "bell", lambda: bell)
    tasks.again(Step.DRAFT, claimed, 3)
    assert len(bell.rung) == rung
