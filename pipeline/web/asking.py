"""What a caller asks for: the body of POST /api/v1/drafts and its X-Dept header, read strictly. openapi.json says the same."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import NoReturn

from pipeline.asking import Lengths
from pipeline.web.problems import Refused

STUDY, DEPARTMENT, LENGTHS = "study", "department", "num_speculative_tokens"
FIELDS = (STUDY, DEPARTMENT, LENGTHS)
HEADER, LIMIT = "X-Dept", "limit"
MAX_LENGTH = 16  # tokens drafted per step, as CTREPORT_DRAFT_K
MAX_BODY = 64 << 10  # bytes
STUDY_FORM = re.compile(r"(?:[0-9]+(?:\.[0-9]+)+|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})")
MAX_UID = 64  # characters, PS3.5 section 9.1; leading zeros, which it forbids, are seen in practice and let through
DIGITS = re.compile(r"[0-9]{1,4}")


@dataclass(frozen=True, slots=True)
class Choices:
    """What can be asked for. `department` is written for where nobody names one."""

    departments: Sequence[str]
    sections: Sequence[str]
    department: str


@dataclass(frozen=True, slots=True)
class Wanted:
    """One request as it was sent. `study` is a StudyInstanceUID or an internal id."""

    study: str
    department: str
    lengths: Lengths


def read_wanted(media_type: str, body: bytes, header: str | None, choices: Choices) -> Wanted:
    """The request of a body of this media type and an X-Dept header. Raises Refused: 415, 400 (no JSON), 422, or 409 where
    they name different departments."""
    if media_type.partition(";")[0].strip().lower() != "application/json":
        raise Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "send the body as application/json")
    value = _object(body)
    for name in value:
        if name not in FIELDS:
            _refuse(f"the body has a field that is not known here; use {', '.join(FIELDS)}")
    return Wanted(_study(value.get(STUDY)), _department(value, header, choices), read_lengths(value.get(LENGTHS), choices.sections))


def read_lengths(value: object, sections: Sequence[str]) -> Lengths:
    """A number, one number per section, or None. Raises Refused (422)."""
    if value is None:
        return None
    if isinstance(value, dict):
        if not value:
            _refuse(f"{LENGTHS} names no section; leave it out, or name some of {'、'.join(sections)}")
        for name in value:
            if name not in sections:
                _refuse(f"{LENGTHS} names a section that no report has; use {'、'.join(sections)}")
        return {name: _length(one) for name, one in value.items()}
    return _length(value)


def read_limit(query: Sequence[tuple[str, str]], default: int, most: int) -> int:
    """The query parameter `limit`, the only one that there is. Raises Refused (422)."""
    if not query:
        return default
    if [name for name, _ in query] != [LIMIT]:
        _refuse(f"the query has a parameter that is not known here, or one twice; there is {LIMIT} alone")
    text = query[0][1]
    if not DIGITS.fullmatch(text) or not 1 <= int(text) <= most:
        _refuse(f"{LIMIT} must be a number from 1 to {most}")
    return int(text)


def _object(body: bytes) -> Mapping[str, object]:
    """The body's JSON object."""
    try:
        value = json.loads(body.decode("utf-8"), parse_constant=_no_constant, object_pairs_hook=_unique)
    except (ValueError, RecursionError):
        raise Refused(HTTPStatus.BAD_REQUEST, "the body is no JSON text in UTF-8 with each name once; /api/v1/openapi.json has an example") from None
    if not isinstance(value, dict):
        _refuse("the body must be a JSON object; /api/v1/openapi.json has an example")
    return value


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands twice")
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _study(value: object) -> str:
    if not isinstance(value, str) or len(value) > MAX_UID or not STUDY_FORM.fullmatch(value):
        _refuse(f"{STUDY} must be a StudyInstanceUID or the internal id that `ctreport status --json -` shows")
    return value


def _department(value: Mapping[str, object], header: str | None, choices: Choices) -> str:
    """The department that body or header name; where both do they must agree."""
    named = [one for one in (value.get(DEPARTMENT), header) if one is not None]
    for one in named:
        if one not in choices.departments:
            _refuse(f"{DEPARTMENT} or {HEADER} is none that reports are written for; use one of {', '.join(choices.departments)}")
    if len(set(map(str, named))) > 1:
        raise Refused(HTTPStatus.CONFLICT, f"{DEPARTMENT} in the body and {HEADER} in the header differ; send one of them")
    return str(named[0]) if named else choices.department


def _length(value: object) -> int:
    """JSON Schema counts 3.0 as an integer, and so do we; true is none."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_LENGTH:
        _refuse(f"{LENGTHS} must be whole numbers from 0 to {MAX_LENGTH}")
    return value


def _refuse(detail: str) -> NoReturn:
    raise Refused(HTTPStatus.UNPROCESSABLE_ENTITY, detail)
