"""Who makes features and texts, and who calls for it: encoder, drafter, doorbell, clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Protocol

from pipeline.errors import Permanent
from pipeline.model import (
    DraftAnswer,
    Features,
    Found,
    Step,
)
from pipeline.renewing import Kept


class Clock(Protocol):
    """Wall time in UTC. Leases and time windows use PostgreSQL's now() instead."""

    def now(self) -> datetime: ...


class Encoder(Protocol):
    """Volume → features. Same input, same bytes, in any company."""

    @property
    def identity(self) -> str:
        """`Features.identity` of all that it makes: the same identity and the same files give the same features. Raises ModelMissing."""

    @property
    def batch(self) -> int:
        """Studies that it takes at once; 0 while its device has no memory for one: then nothing is claimed."""

    def encode(self, paths: Sequence[Path]) -> Features:
        """Read one series and encode it. Raises Unsupported (no volume, no lungs) or BadInput."""

    def encode_many(self, studies: Sequence[Sequence[Path]]) -> Sequence[Features | Permanent]:
        """One answer per study, in order: its features, or why it has none. Raises Transient or ModelMissing for all of them."""

    def save_features(self, features: Features, path: Path) -> None:
        """Write as safetensors, durable and byte-identical for the same features."""

    def load_features(self, path: Path) -> Features:
        """Raises BadInput."""


def quiet(section: str, tokens: int) -> None:
    """Tell nobody that a section of so many tokens is written."""


class Drafter(Protocol):
    """Features + indication → findings, once, and from them each department's text. `lengths`: section, or empty for all → tokens drafted a step."""

    @property
    def phantom_only(self) -> bool:
        """True when the model's card forbids real studies outside demo mode."""

    def find(
        self,
        features: Features,
        indication: str,
        department: str,
        lengths: Mapping[str, int] | None = None,
        told: Callable[[str, int], None] = quiet,
    ) -> Found:
        """The findings of a study; with the department's report where it is written in the same call. Raises ModelMissing, NotAllowed,
        ServiceUnavailable or BadDraft."""

    def write(
        self,
        features: Features,
        indication: str,
        found: Found,
        department: str,
        lengths: Mapping[str, int] | None = None,
        told: Callable[[str, int], None] = quiet,
        kept: Kept | None = None,
    ) -> DraftAnswer:
        """A whole report's JSON text with exactly the frozen findings; sections that are kept are not written again. Raises as `find`."""


class Doorbell(Protocol):
    """Tells workers to look. Carries no study; losing or doubling a ring changes nothing."""

    def ring(self, step: Step) -> None:
        """Never raises: a broker that is down is logged, the sweeper rings again."""
