"""The rules that a new installation starts with. A hospital edits its own copy in PostgreSQL, not these files."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib.resources import files
from types import MappingProxyType
from typing import Any

from pipeline.errors import BadInput
from pipeline.model import DoseRule

FIRST_VERSION = 1


def seed_terms() -> Mapping[str, str]:
    """Forbidden form → standard term. A form that maps to itself is kept: it guards a word in which a forbidden form hides."""
    terms: dict[str, str] = {}
    for entry in _entries("terms.toml", "term"):
        forbidden = str(entry["forbidden"])
        if forbidden in terms:
            raise BadInput(f"terms.toml holds a form twice, at entry {len(terms) + 1}; keep one of them")
        terms[forbidden] = str(entry["standard"])
    return MappingProxyType(terms)


def seed_reasons() -> Mapping[str, str]:
    """Forbidden form → why it is not used."""
    return MappingProxyType({str(entry["forbidden"]): str(entry["reason"]) for entry in _entries("terms.toml", "term")})


def seed_dose_rules() -> tuple[DoseRule, ...]:
    """The dose rules of a new installation."""
    return tuple(
        DoseRule(
            id=str(entry["id"]),
            version=FIRST_VERSION,
            window_months=int(entry["window_months"]),
            threshold_msv=float(entry["threshold_msv"]),
            triggers=tuple(str(trigger) for trigger in entry["triggers"]),
            message=str(entry["message"]),
        )
        for entry in _entries("dose.toml", "rule")
    )


def _entries(name: str, table: str) -> list[dict[str, Any]]:
    text = files(__name__).joinpath(name).read_text(encoding="utf-8")
    entries: list[dict[str, Any]] = tomllib.loads(text)[table]
    return entries
