"""Strict validation of a JSON value against the report's schema. No message holds text of the report: paths come from the schema."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any

Schema = Mapping[str, Any]


def faults(value: object, schema: Schema, path: str = "report") -> Iterator[str]:
    """One sentence per violation, outermost first: where it is and what is expected there."""
    if "enum" in schema:
        if not isinstance(value, str) or value not in schema["enum"]:
            yield f"{path} must be one of {', '.join(schema['enum'])}"
    else:
        yield from _BY_TYPE[schema["type"]](value, schema, path)


def _object(value: object, schema: Schema, path: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{path} must be an object"
        return
    wanted: Mapping[str, Schema] = schema["properties"]
    yield from (f"{path}.{key} is missing" for key in wanted if key not in value)
    unknown = sum(key not in wanted for key in value)
    if unknown:
        yield f"{path} has {unknown} unknown keys; it may hold {', '.join(wanted)}"
    for key, part in wanted.items():
        if key in value:
            yield from faults(value[key], part, f"{path}.{key}")


def _array(value: object, schema: Schema, path: str) -> Iterator[str]:
    if not isinstance(value, list):
        yield f"{path} must be a list"
        return
    if len(value) > schema["maxItems"]:
        yield f"{path} has {len(value)} items, at most {schema['maxItems']} are allowed"
        return
    for index, item in enumerate(value):
        yield from faults(item, schema["items"], f"{path}[{index}]")


def _integer(value: object, schema: Schema, path: str) -> Iterator[str]:
    low, high = schema["minimum"], schema["maximum"]
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        yield f"{path} must be a whole number from {low} to {high}"


def _string(value: object, schema: Schema, path: str) -> Iterator[str]:
    low, high = schema["minLength"], schema["maxLength"]
    if not isinstance(value, str):
        yield f"{path} must be text"
    elif not low <= len(value) <= high:
        yield f"{path} has {len(value)} characters, {low} to {high} are allowed"
    elif any(_unprintable(character) for character in value):
        yield f"{path} holds control characters or half of a surrogate pair; only text and line breaks are allowed"


def _unprintable(character: str) -> bool:
    """Neither PostgreSQL nor a page can hold these."""
    return character != "\n" and unicodedata.category(character) in ("Cc", "Cs")


_BY_TYPE = {"object": _object, "array": _array, "integer": _integer, "string": _string}
