"""A drafter's answer → a report, or BadDraft: the grammar constrained it, it is validated anyway."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NoReturn

from pipeline.drafting.schema import ADVICE, DESCRIPTION, FINDINGS, IMPRESSION, SECTIONS, answer_schema, dumps, report_schema
from pipeline.drafting.validate import Schema, faults
from pipeline.drafting.vocabulary import PACKAGED, Vocabulary
from pipeline.errors import BadDraft
from pipeline.model import Finding, Report

MAX_CHARACTERS = 20_000
NOWHERE = "无"
SPREAD_KINDS = ("胸腔积液", "肺气肿", "纤维化")
NODE, LIVER = "淋巴结", "肝脏"
NEXT_STEP = "`ctreport retry` drafts the study again"


def parse(text: str, words: Vocabulary = PACKAGED) -> Report:
    """The report in `text`. Raises BadDraft, whose message names place and expectation and holds nothing of the text."""
    value = _checked(text, _whole(words), "report")
    written = value[FINDINGS]
    return Report(
        findings_text=written[DESCRIPTION],
        impression=value[IMPRESSION],
        advice=value[ADVICE],
        findings=findings_of(written),
    )


def parse_section(section: str, text: str, words: Vocabulary = PACKAGED) -> dict[str, Any]:
    """One section's answer (SECTIONS), validated against its schema. Raises BadDraft as `parse` does."""
    return _checked(text, _of(section, words), section)


def put_together(answers: Sequence[Mapping[str, Any]]) -> str:
    """The whole report's JSON text from the sections' answers, in the order of SECTIONS; `parse` reads it."""
    found, *texts = (dict(answer) for _, answer in zip(SECTIONS, answers, strict=True))
    description, impression, advice = texts
    return dumps({FINDINGS: found | description, **impression, **advice})


def findings_of(written: Mapping[str, Any]) -> tuple[Finding, ...]:
    """The structured findings of a validated findings object: lesions, nodes, liver, then what has no candidate."""
    return (
        *(_lesion(item) for item in written["病灶"]),
        *(Finding(item["候选"], NODE, item["部位"], None, None, item["短径mm"]) for item in written[NODE]),
        *(Finding(item["候选"], f"肝{item['类型']}", LIVER, None, None, item["大小mm"]) for item in written[LIVER]),
        *(Finding(None, kind, written[kind], None, None, None) for kind in SPREAD_KINDS if written[kind] != NOWHERE),
    )


def _lesion(item: Mapping[str, Any]) -> Finding:
    return Finding(
        candidate=item["候选"],
        kind=item["类型"],
        side=item["侧别"],
        lobe=item["肺叶"],
        density=item["密度"],
        size_mm=item["大小mm"],
        margin=item["边缘"],
        internal=item["内部结构"],
        surround=item["周围改变"],
    )


def _checked(text: str, schema: Schema, name: str) -> dict[str, Any]:
    value: dict[str, Any] = _loads(text)
    fault = next(faults(value, schema, name), None)
    if fault is not None:
        raise BadDraft(f"the model's answer does not fit the report schema: {fault}; {NEXT_STEP}")
    return value


def _loads(text: str) -> Any:
    if len(text) > MAX_CHARACTERS:
        raise BadDraft(f"the model's answer has {len(text)} characters, at most {MAX_CHARACTERS} are read; {NEXT_STEP}")
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        how = "is cut" if error.pos >= len(text.rstrip()) else "is not JSON"
        raise BadDraft(f"the model's answer {how} at character {error.pos} of {len(text)}; {NEXT_STEP}") from None
    except (ValueError, RecursionError):  # a number of thousands of digits, or nesting without end
        raise BadDraft(f"the model's answer is JSON that no report can be: its numbers or its nesting are too long; {NEXT_STEP}") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise BadDraft(f"the model's answer gives {len(pairs) - len(value)} keys twice in one object; {NEXT_STEP}")
    return value


def _no_constant(_: str) -> NoReturn:
    raise BadDraft(f"the model's answer holds NaN or Infinity where a whole number belongs; {NEXT_STEP}")


@cache
def _whole(words: Vocabulary) -> Schema:
    return report_schema(words)


@cache
def _of(section: str, words: Vocabulary) -> Schema:
    return answer_schema(section, words)
