"""Rules as TOML that `reading` reads back: what `ctreport rules show` prints for a hospital to edit."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from pipeline.entry import Entry

FIELDS = ("term", "synonyms", "forbidden", "side", "parent", "organ", "level", "scope", "tags", "english")


def lexicon_toml(entries: Iterable[Entry]) -> str:
    """One [[group]] per kind and source."""
    ordered = sorted(entries, key=lambda entry: (entry.kind, entry.source, entry.term))
    groups = groupby(ordered, key=lambda entry: (entry.kind, entry.source))
    return "\n".join(_group(kind, source, list(found)) for (kind, source), found in groups)


def tables_toml(table: str, rows: Iterable[Mapping[str, object]]) -> str:
    """One [[table]] per row; empty values are left out."""
    return "\n".join(_table(table, row) for row in rows)


def _group(kind: str, source: str, entries: Sequence[Entry]) -> str:
    lines = "\n".join(f"    {{ {_inline(entry)} }}," for entry in entries)
    return f"[[group]]\nkind = {_value(kind)}\nsource = {_value(source)}\nentries = [\n{lines}\n]\n"


def _inline(entry: Entry) -> str:
    return ", ".join(f"{name} = {_value(value)}" for name in FIELDS if (value := getattr(entry, name)))


def _table(table: str, row: Mapping[str, object]) -> str:
    return f"[[{table}]]\n" + "".join(f"{key} = {_value(value)}\n" for key, value in row.items() if value not in (None, "", ()))


def _value(value: object) -> str:
    """A TOML basic string, number or list. JSON's escapes are TOML's; DEL is the one character that only JSON leaves as it is."""
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_value, value))}]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
