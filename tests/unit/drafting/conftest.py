"""Fixtures of the drafting tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pipeline.drafting.served_model import ServedModel
from tests.unit.drafting.served import OPENED, seeded_model


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> ServedModel:
    """A small served model with random weights."""
    return seeded_model(tmp_path_factory.mktemp("served") / "seeded")


@pytest.fixture(autouse=True)
def _connections_closed() -> Iterator[None]:
    """No test leaves a connection open."""
    yield
    while OPENED:
        OPENED.pop().close()
