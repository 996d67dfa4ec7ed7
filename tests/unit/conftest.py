"""What every unit test leaves as it found it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture(autouse=True)
def _log_as_it_was() -> Iterator[None]:
    """What a command sets for the log of its own process does not outlive its test: the next one hears every line."""
    kept = structlog.get_config()
    yield
    structlog.configure(**kept)
