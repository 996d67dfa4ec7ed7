"""What the tests of the real SGLang share: its interpreter, the served folder, and two servers that start side by side when first asked for."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from pipeline.drafting.served import ServedGenerator
from pipeline.drafting.served_model import ServedModel
from pipeline.drafting.sglang import SglangServer
from pipeline.drafting.wire import Address, Limits, Wire
from pipeline.engine.checkpoint import PACKAGED
from pipeline.engine.generate import Engine
from pipeline.model import Features
from tests.sglang.rig import KEY, Rig

FOLDER = Path(os.environ.get("CTREPORT_DRAFT_WEIGHTS") or PACKAGED)
OPENED: list[Wire] = []  # closed behind each test
PATIENT = Limits(connect_s=60.0, first_token_s=600.0, total_s=900.0, retries=2, connections=16)


@dataclass(frozen=True)
class Servers:
    """The server with MTP, and the same model without."""

    drafting: Rig
    plain: Rig


@pytest.fixture(scope="session")
def python() -> str:
    """The interpreter of SGLang's environment."""
    found = os.environ.get("CTREPORT_SGLANG_PYTHON", "")
    if not Path(found).is_file():
        pytest.skip("CTREPORT_SGLANG_PYTHON names no interpreter with SGLang; run `make test-sglang`")
    return found


@pytest.fixture(scope="session")
def servers(python: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """Both, up and answering."""
    logs = tmp_path_factory.mktemp("sglang")
    started = [Rig(python, FOLDER, logs / f"{name}.log", drafting=name == "drafting") for name in ("drafting", "plain")]
    try:
        yield Servers(*(rig.wait() for rig in started))
    finally:
        for rig in started:
            rig.kill()


@pytest.fixture(scope="session")
def engine() -> Engine:
    """The embedded engine on the served folder."""
    return Engine.load(FOLDER)


@pytest.fixture(scope="session")
def model() -> ServedModel:
    """What the client knows of the served folder."""
    return ServedModel.read(FOLDER)


@pytest.fixture(autouse=True)
def _connections_closed() -> Iterator[None]:
    """What a test opened is closed behind it."""
    yield
    while OPENED:
        OPENED.pop().close()


def client(url: str, model: ServedModel, *, plain: bool = False, limits: Limits = PATIENT, key: str = KEY) -> ServedGenerator:
    """The project's own client of one server; it retries at once."""
    wire = Wire(Address(url, key), limits, sleep=lambda _: None)
    OPENED.append(wire)
    return ServedGenerator(SglangServer(wire, model.eos_id, plain=plain), model)


def features_of(model: ServedModel, seed: int, rows: int = 0) -> Features:
    """Random features; the number of rows differs from seed to seed."""
    rng = np.random.default_rng(seed)
    return Features(rng.standard_normal((rows or 20 + seed % 9, model.feature_dim)).astype(np.float32), "seeded", "1", "")
