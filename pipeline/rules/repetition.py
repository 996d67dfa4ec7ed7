"""The same sentence twice, or a clause that goes round in a loop."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from pipeline.checking import Hit
from pipeline.model import Finding, Report, Severity
from pipeline.rules.analysis import Analysis
from pipeline.rules.mentions import Section
from pipeline.rules.spans import Span

ID, VERSION = "text.repeated", 1
LEAST_CHARACTERS = 6  # 未见异常。 may come again
LOOP = 3  # clauses in a row
_NUMBERING = " \n\t（(0123456789）).、"
_STUTTER = re.compile(r"([\u4e00-\u9fff]{2,6}?)\1{2,}")


def repeated(analysis: Analysis) -> tuple[Hit, ...]:
    """A flag at each further copy. Lesions that are listed twice alike may be told twice alike."""
    hits = []
    for section in analysis.sections.values():
        hits += [_hit(section, span) for span in _merged([*_sentences(section, analysis.report), *_loops(section)])]
    return tuple(hits)


def _sentences(section: Section, report: Report) -> Iterator[Span]:
    texts = [section.text[span.start : span.end].lstrip(_NUMBERING).rstrip() for span in section.sentences]
    if len(set(texts)) == len(texts):
        return
    seen: Counter[str] = Counter()
    for span, text in zip(section.sentences, texts, strict=True):
        seen[text] += len(text) >= LEAST_CHARACTERS
        if seen[text] > 1 and seen[text] > _lesions(text, report):
            yield span


def _lesions(text: str, report: Report) -> int:
    """How many of the listed lesions the sentence fits."""
    return sum(_where(finding) in text and (finding.lobe or "") in text and str(finding.size_mm or "") in text for finding in report.findings)


def _where(finding: Finding) -> str:
    """As texts write it: 肝内 of what the list places in 肝脏."""
    return finding.side.removesuffix("脏")


def _loops(section: Section) -> Iterator[Span]:
    """A clause that stands three times in a row, and a word that does."""
    before, row = "", 1
    for clause in section.clauses:
        text = section.text[clause.start : clause.end]
        row = row + 1 if text == before and clause.end - clause.start > 1 else 1
        before = text
        if row >= LOOP:
            yield clause
    for found in _STUTTER.finditer(section.text):
        yield Span(found.start() + len(found[1]), found.end())


def _merged(spans: list[Span]) -> Iterator[Span]:
    """Spans in order; one inside another is left out."""
    reached = -1
    for span in sorted(spans, key=lambda one: (one.start, -one.end)):
        if span.start >= reached:
            yield span
            reached = span.end


def _hit(section: Section, span: Span) -> Hit:
    return Hit(ID, VERSION, Severity.FLAG, section.name, span.start, span.end, f"「{section.name}」中文字重复，请核对是否为误生成")
