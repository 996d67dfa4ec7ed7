"""A comparison with an earlier examination where there is none."""

from __future__ import annotations

import re

from pipeline.checking import Hit
from pipeline.model import Severity
from pipeline.rules.analysis import Analysis
from pipeline.rules.said import clause_at

ID, VERSION = "prior.missing", 1
_DATED = r"\d{2,4}[年./-]\d{1,2}[月./-]?(?:\d{1,2}日?)?"
_OLD = r"(?:前片|前次|上次|旧片|老片|原片|既往|以往|先前|之前|前)"
_WHAT = r"(?:检查|胸部|CT|片|图像|影像|胸片|报告)*"
_ALIKE = r"(?:比较|对比|对照|相比|相仿|相似)"
_SPAN = r"(?:\d+|[半一二两三四五六七八九十]+)(?:余)?(?:个月|年|周|天|日)(?:半)?前"
_WITH = rf"(?:本院|外院|我院)?(?:{_DATED}|{_OLD}|{_SPAN}){_WHAT}{_ALIKE}"
_BESIDE = rf"(?:{_DATED}|{_OLD}{_WHAT})(?![方壁缘])"
# every alternative begins with a character of its own: the matcher then skips all others in C
_COMPARED = re.compile(
    rf"较前(?![方部缘上下壁外内侧后])片?|较(?:{_DATED}|{_SPAN}|上次|前次|旧片|老片|原片|原先|之前|以前|既往|先前)|与{_WITH}|同{_WITH}|比{_WITH}"
    rf"|对比{_BESIDE}|比较{_BESIDE}|对照{_BESIDE}|大致同前(?![方列])|基本同前(?![方列])|同前(?![方列])|前片(?:所见|示|显示)"
)
_NONE = re.compile("请|建议|无|未提供|未见前片|缺|如有|若有|必要时|以便|待")


def missing(analysis: Analysis) -> tuple[Hit, ...]:
    """One flag per clause of findings and impression that compares, where no earlier examination is at hand."""
    if analysis.context.has_prior:
        return ()
    hits = []
    for section in (analysis.findings, analysis.impression):
        reached = 0
        for found in _COMPARED.finditer(section.text):
            clause = clause_at(section, found.start())
            if found.start() < reached or _NONE.search(section.text, clause.start, found.start()):
                continue
            reached = clause.end
            message = f"报告写有「{found[0]}」，系统内没有该患者的既往检查可供比较，请核对"
            hits.append(Hit(ID, VERSION, Severity.FLAG, section.name, found.start(), found.end(), message))
    return tuple(hits)
