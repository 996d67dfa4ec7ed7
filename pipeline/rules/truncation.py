"""A text that breaks off, or that holds pieces of the form in which the model writes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pipeline.checking import Hit
from pipeline.model import Severity
from pipeline.rules.analysis import Analysis
from pipeline.rules.mentions import Section

ID, VERSION = "text.truncated", 2
LONGEST_TAIL = 16  # characters in which a break shows
ENDS = "。！？!?；;…”」』）)】"
FORM_ENDS = '"}]>\\\ufffd'  # the form's own end
_FORM = re.compile(r'\{"|"\}|"\s*[,:]\s*["\[{]|"(?:检查所见|诊断意见|建议|病灶|描述|候选|侧别|肺叶)"|\\[nu"]|</?\w+>|\ufffd')
# words and marks that nothing can end with
_OPEN = re.compile(
    r"(?:[，,、：:（(\[【“「『×*~～+\-–]|[及和与或并伴其约呈为于在的以将被把之]|大小|范围|直径|长径|短径|CT值|边界|边缘|形态|(?<![高低等])密度|其内|其中|较?大者|未见|可见|另见|并见|见于|位于|伴有|建议|考虑|明确"
    r"|[左右双](?:侧|肺)?|上腹|第|见)\s*\Z|[，,、][^，,。；;、\d]\Z"
)
_BARE_NUMBER = re.compile(r"(?:约|大小|直径|径|范围|为|×)\s*\d+(?:\.\d*)?\s*\Z|\d\.\Z|\d\s*[mc]\Z")
_PAIRS = (("（", "）"), ("(", ")"), ("“", "”"), ("「", "」"), ("【", "】"))


def truncated(analysis: Analysis) -> tuple[Hit, ...]:
    """A section that breaks off, or holds such a piece, blocks; one whose last sentence alone lacks its mark is flagged."""
    return tuple(hit for section in analysis.sections.values() for hit in _of(section))


def _of(section: Section) -> Iterator[Hit]:
    text = section.text.rstrip()
    end = len(text)
    sentences = [span for span in section.sentences if span.start < end]
    if not sentences:
        return
    found = _FORM.search(text)
    if found is not None:
        message = f"「{section.name}」混有模型输出的格式字符，文字可能不完整，请补写"
        yield Hit(ID, VERSION, Severity.BLOCK, section.name, found.start(), found.end(), message)
    *before, last = sentences
    tail = max(last.start, end - LONGEST_TAIL)
    if found is not None and text[-1] in FORM_ENDS:
        return
    if _OPEN.search(text, tail) or _BARE_NUMBER.search(text, tail) or _unclosed(text):
        yield Hit(ID, VERSION, Severity.BLOCK, section.name, last.start, end, f"「{section.name}」在句中中断，请补写后再签发")
    elif text[-1] not in ENDS and before and text[before[-1].end] == "。":
        yield Hit(ID, VERSION, Severity.FLAG, section.name, last.start, end, f"「{section.name}」末句没有句号，请核对是否完整")


def _unclosed(text: str) -> bool:
    return any(text.count(opening) > text.count(closing) for opening, closing in _PAIRS)
