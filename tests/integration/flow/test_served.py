"""Jobs in a real database, drafted over real HTTP by fake draft servers: which rung wrote is stored and shown, and what fails costs no study."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from pipeline.drafting.fake_answers import Answers, normal_chest
from pipeline.drafting.fake_server import FakeServer, Script, Trouble
from pipeline.drafting.ladder import Ladder
from pipeline.drafting.parse import parse
from pipeline.drafting.reference import make
from pipeline.drafting.sections import SectionDrafter
from pipeline.drafting.served_model import ServedModel
from pipeline.drafting.serving import Serving, rungs_of
from pipeline.engine.seeded import write_seeded_checkpoint
from pipeline.export.markdown import draft_markdown
from pipeline.flow.draft import Drafting, draft
from pipeline.model import Features
from pipeline.ports import Archive, Encoder
from pipeline.settings import ServedSettings, SglangSettings, VllmSettings
from pipeline.store.session import PgStore
from tests.builders import Bell
from tests.integration.flow.test_drafting import RETRY, Clock, encoded, job_row
from tests.integration.store.rows import ME, count, one

DIM = 8
Start = Callable[[Script], FakeServer]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> ServedModel:
    """A served checkpoint whose card says live."""
    folder = tmp_path_factory.mktemp("served")
    write_seeded_checkpoint(folder, feature_dim=DIM)
    (folder / "card.json").write_text(json.dumps({"name": "seeded", "use": "live"}))
    return ServedModel.read(folder)


@pytest.fixture(scope="module")
def answers(model: ServedModel) -> Answers:
    """What the self-check wants, and a normal chest for all else."""
    return normal_chest(model, make(model.folder))


@pytest.fixture
def start(model: ServedModel) -> Iterator[Start]:
    """Starts fake servers that end with the test."""
    with ExitStack() as stack:
        yield lambda script: stack.enter_context(FakeServer(model, script))


class Shelf:
    """An archive and an encoder that always hold the same features, of an encoder that is live."""

    def path(self, relative: str) -> Path:
        return Path(relative)

    def load_features(self, path: Path) -> Features:
        return Features(np.zeros((4, DIM), np.float32), "seeded", "1", "p", phantom_only=False, covers=("肺",))


@pytest.fixture
def drafting(store: PgStore, model: ServedModel) -> Iterator[Callable[..., Drafting]]:
    """The step, at a site with these servers; their connections are closed behind the test."""
    opened: list[Any] = []

    def build(url: str = "", plain: str = "") -> Drafting:
        served = ServedSettings(retries=0, first_token_timeout_s=20, timeout_s=30)
        rungs = rungs_of(Serving(SglangSettings(url=url or None, plain_url=plain or None), VllmSettings(), served, model.folder))
        opened.extend(cast(Any, one.generator).server._wire for one in rungs)
        drafter = SectionDrafter(Ladder(rungs, again_after_s=600))
        shelf = Shelf()
        return Drafting(store, cast(Archive, shelf), cast(Encoder, shelf), drafter, parse, Bell(), Clock(), RETRY, "site", "radiology")

    yield build
    for wire in opened:
        wire.close()


def shown(store: PgStore) -> Mapping[str, Any]:
    with store.begin() as work:
        return work.reports.shown(one(store, "SELECT id FROM drafts")["id"])


def test_a_draft_says_which_rung_server_and_speculation_wrote_it(
    store: PgStore, drafting: Callable[..., Drafting], start: Start, answers: Any
) -> None:
    encoded(store)
    assert draft(drafting(start(Script(answers=answers)).url), 1, ME) == 1
    assert job_row(store)["state"] == "drafted"
    seen = shown(store)
    source = seen["draft"]["source"]
    assert (source["rung"], source["server"], source["speculation"]) == ("sglang", "sglang 0.5.23", "NEXTN, steps 3, top-k 1")
    assert source["phantom_only"] is False
    assert seen["draft"]["generation"]["first_token_s"] > 0
    assert "来源：sglang" in draft_markdown(seen)


def test_a_server_that_dies_in_mid_answer_costs_no_study_and_the_next_rung_is_shown(
    store: PgStore, drafting: Callable[..., Drafting], start: Start, answers: Any
) -> None:
    encoded(store)
    dying, plain = start(Script(answers=answers)), start(Script(k=0, answers=answers))
    ports = drafting(dying.url, plain.url)
    assert cast(Any, ports.drafter).generator.refusal() is None
    dying.script.troubles.extend([Trouble.DIES] * 9)
    assert draft(ports, 1, ME) == 1
    assert job_row(store)["state"] == "drafted"
    assert shown(store)["draft"]["source"]["rung"] == "sglang-plain"
    assert len(dying.script.troubles) == 8, "one broken answer, then the server was left alone"


def test_a_job_whose_servers_are_all_gone_is_tried_again_later_with_the_reason(
    store: PgStore, drafting: Callable[..., Drafting], start: Start, answers: Any
) -> None:
    encoded(store)
    gone = start(Script(answers=answers))
    ports = drafting(gone.url)
    assert cast(Any, ports.drafter).generator.refusal() is None
    gone.__exit__(None, None, None)
    assert draft(ports, 1, ME) == 1
    row = job_row(store)
    assert row["state"] == "encoded"
    assert row["reason"].startswith("未生成：sglang: draft server")
    assert count(store, "drafts") == 0


def test_an_answer_that_comes_too_late_for_a_superseded_revision_is_dropped(
    store: PgStore, drafting: Callable[..., Drafting], start: Start, answers: Any
) -> None:
    job_id = encoded(store)
    server = start(Script())

    def late(schema: Mapping[str, Any], ids: Sequence[int]) -> Any:
        said = answers(schema, ids)
        if "建议" in schema["properties"] and "检查所见" not in schema["properties"] and len(ids) > 8 + 4:
            _supersede(store, job_id)
        return said

    server.script.answers = late
    draft(drafting(server.url), 1, ME)
    assert count(store, "drafts") == 0
    assert job_row(store)["state"] == "superseded"


def _supersede(store: PgStore, job_id: object) -> None:
    from sqlalchemy import text

    with store.begin() as work:
        cast(Any, work).session.execute(
            text("UPDATE jobs SET state = 'superseded', lease_owner = NULL, lease_until = NULL WHERE id = :id AND state = 'drafting'"), {"id": job_id}
        )
