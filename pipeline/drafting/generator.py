"""What every engine that writes does: one prompt, one schema, one text. All that is above it does not know which engine wrote."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from pipeline.model import DraftSource, Features, Generation

WHOLE = ""  # the section of a whole report that is written in one call


@dataclass(frozen=True, slots=True)
class Ask:
    """One text to write. `prompt` holds one placeholder for each feature row; `schema` is byte-identical for the same section."""

    section: str  # one of schema.SECTIONS, or WHOLE
    prompt: str
    schema: str
    max_tokens: int
    k: int | Mapping[str, int] | None = None  # tokens drafted per step, a mapping of sections in a whole report only; None: the engine's own policy
    prior: str = ""  # the patient's prior report, which may be drafted from; it never changes the text


@dataclass(frozen=True, slots=True)
class Generated:
    """One text, how it was made and by whom. `ended` is False when it was cut at `max_tokens`."""

    text: str
    generation: Generation
    source: DraftSource
    ended: bool


class Generator(Protocol):
    """An engine that writes texts. The same ask and features give the same text."""

    @property
    def phantom_only(self) -> bool:
        """True unless the model's card says `live`. Raises ModelMissing."""

    def generate(self, ask: Ask, features: Features) -> Generated:
        """Write one text. Raises ModelMissing, ServiceUnavailable, BadDraft or NotAllowed; a cut text is returned with `ended` False."""
