"""Words that only a scan with contrast agent allows, in the report of one without."""

from __future__ import annotations

import re

from pipeline.checking import Hit
from pipeline.entry import Kind
from pipeline.model import Severity
from pipeline.rules.analysis import Analysis
from pipeline.rules.mentions import Mention, Section
from pipeline.rules.said import past
from pipeline.rules.spans import Span

ID, VERSION = "contrast.missing", 1
NEEDS = "needs-contrast"
_ASKED = re.compile("建议|必要时|请|进一步|可行|复查|未行|未做|缺少|缺乏|无法|不能|限于平扫|平扫")
_OTHER_DAY = re.compile("前片|既往|原片|外院|上次|前次|年.{0,6}增强")
_STAGE = re.compile("[三双多]期\\Z")  # 尘肺三期 is a stage of a disease


def missing(analysis: Analysis) -> tuple[Hit, ...]:
    """One flag per clause of findings and impression that speaks of enhancement, phases or what only they show. Unknown contrast: silent."""
    if analysis.context.contrast is not False:
        return ()
    hits: dict[Span, Hit] = {}
    for section in (analysis.findings, analysis.impression):
        for mention in section.mentions:
            if NEEDS in mention.tags and not _allowed(section, mention):
                hits.setdefault(mention.clause, _hit(section, mention))
    return tuple(hits.values())


def _allowed(section: Section, mention: Mention) -> bool:
    """In doubt, past, asked for, or another word altogether."""
    if mention.historical or (mention.uncertain and mention.observed):
        return True
    text, clause = section.text, mention.clause
    if _ASKED.search(text, clause.start, clause.end) or _OTHER_DAY.search(text, clause.start, clause.end) or past(section, clause):
        return True
    return mention.kind is Kind.PHASE and _STAGE.match(text[mention.start : mention.end]) is not None


def _hit(section: Section, mention: Mention) -> Hit:
    named = section.text[mention.start : mention.end]
    message = f"本次检查未用对比剂，「{named}」须有增强扫描才能判断，请核对"
    return Hit(ID, VERSION, Severity.FLAG, section.name, mention.start, mention.end, message)
