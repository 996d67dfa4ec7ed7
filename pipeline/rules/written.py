"""A report that somebody wrote as text → its sections, and what the rules say with offsets into the whole."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TypedDict

from pipeline.checking import Checked
from pipeline.errors import BadInput
from pipeline.model import Report
from pipeline.rules.sections import ID as EMPTY

NAMES = ("检查所见", "诊断意见", "建议")
HEADINGS = {
    "检查所见": "检查所见|影像所见|影像表现|CT所见|所见",
    "诊断意见": "诊断意见|影像诊断|诊断印象|印象|诊断|意见",
    "建议": "建议",
}
_HEADING = re.compile("|".join(rf"^[ \t【\[]*(?P<h{n}>{HEADINGS[name]})[】\]]?[ \t]*[:：\n]" for n, name in enumerate(NAMES)), re.MULTILINE)


class Said(TypedDict):
    """One hit as `ctreport check` answers it; `start:end` count characters of the whole text."""

    rule: str
    version: int
    severity: str
    section: str
    start: int
    end: int
    message: str
    original: str


class Told(TypedDict):
    """What `ctreport check` answers."""

    text: str
    hits: list[Said]


@dataclass(frozen=True, slots=True)
class Written:
    """A report, and which sections its text had."""

    report: Report
    given: tuple[str, ...]

    def told(self, checked: Checked) -> Told:
        """The text after the rules, section by section, and the hits in it. A section that was never given is not missed."""
        parts, starts, position = [], {}, 0
        for name, text in checked.report.sections().items():
            if name in self.given or text:
                heading = f"{name}：\n"
                starts[name] = position + len(heading)
                parts.append(f"{heading}{text}\n")
                position += len(parts[-1])
        hits = [hit for hit in checked.hits if hit.rule != EMPTY or hit.section in self.given]
        return {
            "text": "".join(parts),
            "hits": [
                {
                    "rule": hit.rule,
                    "version": hit.version,
                    "severity": hit.severity.value,
                    "section": hit.section,
                    "start": starts.get(hit.section, 0) + hit.start,
                    "end": starts.get(hit.section, 0) + hit.end,
                    "message": hit.message,
                    "original": hit.original,
                }
                for hit in hits
            ],
        }


def written(text: str) -> Written:
    """JSON with the sections as keys, or text with headings at line beginnings; text without any is 检查所见. Raises BadInput."""
    sections = _from_json(text) if text.lstrip().startswith("{") else _from_text(text)
    try:
        "".join(sections.values()).encode()
    except UnicodeEncodeError:
        raise BadInput("the report holds half a character (a lone surrogate such as \\ud800); write it anew as UTF-8") from None
    if not any(sections.values()):
        raise BadInput("the report holds no text; write 检查所见：, 诊断意见： and 建议：, each with its text")
    findings, impression, advice = (sections.get(name, "") for name in NAMES)
    return Written(Report(findings, impression, advice), tuple(sections))


def _from_json(text: str) -> dict[str, str]:
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise BadInput(f"the report is no JSON (line {error.lineno}, column {error.colno}); write text with headings, or correct it") from None
    return {name: _plain(document[name], name) for name in NAMES if name in document}


def _plain(value: object, name: str) -> str:
    """A section's text; 检查所见 may be the drafter's object, whose text is 描述."""
    if isinstance(value, dict):
        value = value.get("描述")
    if not isinstance(value, str):
        raise BadInput(f"'{name}' of the report is no text; give a string")
    return value.strip()


def _from_text(text: str) -> dict[str, str]:
    found = list(_HEADING.finditer(text))
    if not found:
        return {NAMES[0]: text.strip()}
    sections: dict[str, str] = {}
    for heading, following in zip(found, [*found[1:], None], strict=True):
        name = NAMES[int((heading.lastgroup or "h0")[1:])]
        body = text[heading.end() : following.start() if following else len(text)].strip()
        sections[name] = f"{sections[name]}\n{body}" if name in sections else body
    return sections
