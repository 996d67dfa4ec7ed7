"""Rules as TOML → values. What cannot be meant is refused with its line and the reason."""

from __future__ import annotations

import itertools
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NoReturn, TypeVar

from pipeline.entry import CUES, Entry, Kind, Level, Scope
from pipeline.errors import BadInput
from pipeline.rules.spans import folded

LISTS = ("synonyms", "forbidden", "tags")
TEXTS = ("side", "parent", "organ", "level", "scope", "english")
SHARED = ("kind", "source", *TEXTS, "tags")
SIDES = ("", "左", "右", "双")
MEANT = ("the side", "a number", "a unit", "a denial")
UNITS = {"毫米": "MM", "厘米": "CM", "公分": "CM"}
_UNIT = re.compile(r"MM|CM|毫米|厘米|公分|%")
Member = TypeVar("Member", Kind, Scope, Level)


def read_terms(text: str, name: str = "terms.toml") -> dict[str, str]:
    """`[[term]] forbidden, standard, reason` → forbidden form → standard term. Raises BadInput."""
    terms: dict[str, str] = {}
    for number, entry in enumerate(read_tables(text, "term", name)):
        line = _line(text, "[[term]]", number)
        _known(entry, ("forbidden", "standard", "reason"), name, line)
        forbidden, standard = (_word(entry, key, name, line) for key in ("forbidden", "standard"))
        if forbidden in terms:
            _refuse(name, line, f"the form '{forbidden}' stands here a second time; keep one of them")
        _meant_alike(forbidden, standard, name, line)
        terms[forbidden] = standard
    return terms


def _meant_alike(forbidden: str, standard: str, name: str, line: int) -> None:
    """A replacement that nobody looks at must change no side, number, unit or denial."""
    for what, one, other in zip(MEANT, _meaning(forbidden), _meaning(standard), strict=True):
        if one != other:
            _refuse(name, line, f"'{forbidden}' → '{standard}' would change {what} of a report; a replacement changes words only")


def _meaning(form: str) -> tuple[list[str], ...]:
    flat = _UNIT.sub(lambda found: UNITS.get(found[0], found[0]), folded(form))
    return re.findall("[左右]", flat), re.findall(r"\d", flat), _UNIT.findall(flat), re.findall("未|无|没有|否认|除外|排除", flat)


def read_reasons(text: str, name: str = "terms.toml") -> dict[str, str]:
    """Forbidden form → why it is not used. Raises BadInput."""
    return {str(entry["forbidden"]): str(entry.get("reason", "")) for entry in read_tables(text, "term", name)}


def read_lexicon(text: str, name: str = "lexicon.toml") -> tuple[Entry, ...]:
    """`[[group]]` tables (shared fields and `entries`) and `[[template]]` tables (patterns over `each` and `rows`) → entries. Raises BadInput."""
    document = _document(text, name)
    unknown = set(document) - {"group", "template"}
    if unknown:
        _refuse(name, _line(text, sorted(unknown)[0]), f"'{sorted(unknown)[0]}' is neither [[group]] nor [[template]]")
    found: list[Entry] = []
    for number, group in enumerate(document.get("group", [])):
        line = _line(text, "[[group]]", number)
        found += [_entry(text, name, line, fields) for fields in _of_group(group, name, line)]
    for number, template in enumerate(document.get("template", [])):
        line = _line(text, "[[template]]", number)
        found += [_entry(text, name, line, fields) for fields in _of_template(template, name, line)]
    return tuple(found)


def _of_group(group: Mapping[str, Any], name: str, line: int) -> Iterator[dict[str, Any]]:
    """An entry is a string (the term), a list (the term and its synonyms) or a table."""
    shared = {key: value for key, value in group.items() if key != "entries"}
    _known(shared, SHARED, name, line)
    for entry in group.get("entries", []):
        if isinstance(entry, list) and entry:
            yield shared | {"term": entry[0], "synonyms": entry[1:]}
        elif isinstance(entry, Mapping):
            yield shared | dict(entry)
        elif isinstance(entry, str):
            yield shared | {"term": entry}
        else:
            _refuse(name, line, f'an entry of this group is {type(entry).__name__}; write "term", ["term", "synonym"] or {{term = …}}')


def _of_template(template: Mapping[str, Any], name: str, line: int) -> Iterator[dict[str, Any]]:
    """Every combination of the `each` lists with every row; `{name}` in a pattern stands for its value."""
    each, rows = template.get("each", {}), template.get("rows", [{}])
    patterns = {key: value for key, value in template.items() if key not in ("each", "rows")}
    for row in rows:
        for values in itertools.product(*each.values()):
            known = dict(zip(each, values, strict=True)) | row
            try:
                fields = {key: _filled(value, known) for key, value in patterns.items()}
            except KeyError as error:
                _refuse(name, line, f"the pattern names {error}, which neither `each` nor every row has")
            yield {key: value for key, value in fields.items() if value not in ("", [])}


def _filled(pattern: object, values: Mapping[str, str]) -> object:
    if isinstance(pattern, str):
        return pattern.format_map(values)
    if isinstance(pattern, list):
        return [form for part in pattern if (form := str(part).format_map(values))]
    return pattern


def _entry(text: str, name: str, line: int, fields: Mapping[str, Any]) -> Entry:
    """One checked entry; the line told is where its term stands, else where its table begins."""
    term = fields.get("term")
    line = _line(text, f'"{term}"') or line
    _known(fields, ("term", "synonyms", "forbidden", *SHARED), name, line)
    lists = {key: _words(fields, key, name, line) for key in LISTS}
    texts = {key: _word(fields, key, name, line) for key in TEXTS if fields.get(key) not in (None, "")}
    kind = _member(Kind, _word(fields, "kind", name, line), name, line)
    scope = _member(Scope, texts.pop("scope"), name, line) if "scope" in texts else None
    level = _member(Level, texts.pop("level"), name, line) if "level" in texts else None
    if texts.get("side", "") not in SIDES:
        _refuse(name, line, f"side '{texts['side']}' is none of 左, 右, 双")
    if (scope is not None) != (kind in CUES):
        _refuse(name, line, f"'{term}': a cue (negation, uncertainty, history) has a scope, nothing else has one")
    for form in lists["forbidden"]:
        _meant_alike(form, str(term), name, line)
    return Entry(
        term=_word(fields, "term", name, line),
        kind=kind,
        source=_word(fields, "source", name, line),
        synonyms=lists["synonyms"],
        forbidden=lists["forbidden"],
        side=texts.get("side", ""),
        parent=texts.get("parent", ""),
        organ=texts.get("organ", ""),
        level=level,
        scope=scope,
        tags=lists["tags"],
        english=texts.get("english", ""),
    )


def checked(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """The entries, when every form stands once (in any width and case) and every parent and organ is a term. Raises BadInput."""
    entries = tuple(entries)
    owner: dict[str, str] = {}
    for entry in entries:
        for form in map(folded, entry.forms()):
            if form in owner:
                raise BadInput(f"the lexicon has '{form}' under '{owner[form]}' and again under '{entry.term}'; keep one of them")
            owner[form] = entry.term
    terms = {entry.term: entry for entry in entries}
    for entry in entries:
        for role, named in (("parent", entry.parent), ("organ", entry.organ)):
            if named and named not in terms:
                raise BadInput(f"'{entry.term}' names the {role} '{named}', which is no term of the lexicon; add it or correct the name")
    _no_circle(terms)
    return entries


def _no_circle(terms: Mapping[str, Entry]) -> None:
    for entry in terms.values():
        seen, above = {entry.term}, entry.parent
        while above:
            if above in seen:
                raise BadInput(f"the parents of '{entry.term}' run in a circle at '{above}'; cut it")
            seen.add(above)
            above = terms[above].parent


def _document(text: str, name: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"{name} is no TOML: {error}") from None


def read_tables(text: str, table: str, name: str) -> list[dict[str, Any]]:
    """The tables of a document that holds nothing else. Raises BadInput."""
    document = _document(text, name)
    found = document.get(table)
    if set(document) != {table} or not isinstance(found, list):
        raise BadInput(f"{name} must hold [[{table}]] tables and nothing else; `ctreport rules show` prints one to begin with")
    return found


def _known(fields: Mapping[str, Any], allowed: Sequence[str], name: str, line: int) -> None:
    for key in fields:
        if key not in allowed:
            _refuse(name, line, f"unknown field '{key}'; known are {', '.join(allowed)}")


def _word(fields: Mapping[str, Any], key: str, name: str, line: int) -> str:
    value = fields.get(key)
    if not isinstance(value, str) or not value.strip():
        _refuse(name, line, f"'{key}' must be a text that is not empty")
    return value


def _words(fields: Mapping[str, Any], key: str, name: str, line: int) -> tuple[str, ...]:
    value = fields.get(key, [])
    if not isinstance(value, list) or not all(isinstance(word, str) and word.strip() for word in value):
        _refuse(name, line, f"'{key}' must be a list of texts")
    return tuple(dict.fromkeys(value))


def _member(enum: type[Member], value: str, name: str, line: int) -> Member:
    try:
        return enum(value)
    except ValueError:
        _refuse(name, line, f"'{value}' is no {enum.__name__.lower()}; known are {', '.join(enum)}")


def line_of(text: str, table: str, number: int) -> int:
    """Line of the `number`-th [[table]], from 1."""
    return _line(text, f"[[{table}]]", number - 1)


def _line(text: str, needle: str, number: int = 0) -> int:
    """Line of the `number`-th occurrence, from 1; 0 when there is none."""
    places = itertools.islice(re.finditer(re.escape(needle), text), number, None)
    return next((text.count("\n", 0, place.start()) + 1 for place in places), 0)


def _refuse(name: str, line: int, reason: str) -> NoReturn:
    raise BadInput(f"{name}, line {line}: {reason}" if line else f"{name}: {reason}")
