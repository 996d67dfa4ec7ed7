"""The draft server of a trial: it passes the self-check, writes a normal chest, and goes wrong for as long as it is told to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from pipeline.drafting.departments import RADIOLOGY
from pipeline.drafting.fake_answers import NORMAL
from pipeline.drafting.ladder import Ladder, Rung
from pipeline.drafting.sections import SectionDrafter
from pipeline.drafting.serving import Serving, prove, served_generators
from pipeline.drafting.sglang import RUNG, SglangServer
from pipeline.encoder.fake import FakeEncoder
from pipeline.errors import ServiceUnavailable
from pipeline.model import Features
from pipeline.settings import ServedSettings, SglangSettings, VllmSettings
from workers.chaos.drafts import TROUBLES, FakeDrafts, fake_drafts, served_folder
from workers.chaos.plan import Fault

FEATURES = Features(np.zeros((4, 160), np.float32), "fake", "1", "fake")


@pytest.fixture(scope="module")
def drafts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeDrafts]:
    with fake_drafts(served_folder(tmp_path_factory.mktemp("served"))) as running:
        yield running


@pytest.fixture
def ladder(drafts: FakeDrafts) -> Iterator[Ladder]:
    """What a worker writes with, whose connections are closed behind the test."""
    served = ServedSettings(retries=0, first_token_timeout_s=5, timeout_s=30)
    one = served_generators(Serving(SglangSettings(url=drafts.url), VllmSettings(), served, drafts.folder))
    yield Ladder([Rung(RUNG, one[RUNG], lambda: prove(RUNG, one, 0.25))], again_after_s=0)
    server = one[RUNG].server
    assert isinstance(server, SglangServer)
    server._wire.close()


def test_it_passes_the_self_check_and_writes_a_normal_chest(ladder: Ladder) -> None:
    assert ladder.refusal() is None
    drafter = SectionDrafter(ladder)
    written = drafter.write(FEATURES, "咳嗽", drafter.find(FEATURES, "咳嗽"), RADIOLOGY)
    assert NORMAL in written.text
    assert written.source.rung == RUNG


@pytest.mark.parametrize("fault", TROUBLES)
def test_it_goes_wrong_until_it_is_well_again(drafts: FakeDrafts, ladder: Ladder, fault: Fault) -> None:
    assert ladder.refusal() is None
    drafter = SectionDrafter(ladder)
    drafts.trouble(fault)
    with pytest.raises(ServiceUnavailable):
        drafter.find(FEATURES, "")
    drafts.well()
    assert drafter.find(FEATURES, "").text


def test_the_fake_encoder_is_as_wide_as_the_model_that_reads_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"bytes")
    assert FakeEncoder().encode([tmp_path / "file"]).array.shape[1] == FEATURES.array.shape[1]
