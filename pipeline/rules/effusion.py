"""Pleural fluid: its side in the prose, in the list, and where the images show it, if anybody looked."""

from __future__ import annotations

from pipeline.checking import Hit
from pipeline.model import Severity
from pipeline.rules.analysis import FINDINGS, Analysis
from pipeline.rules.said import EFFUSION, Stated, said

ID, VERSION = "effusion.side", 1
TERM = "胸腔积液"
Sides = frozenset[str]


def agree(analysis: Analysis) -> tuple[Hit, ...]:
    """Sides that exclude each other block; any other difference is flagged."""
    if not analysis.lexicon.terms:
        return ()
    told = [one for one in said(analysis).findings if EFFUSION in one.groups and one.certain]
    prose = frozenset(side for one in told for side in one.sides)
    open_side = any(not one.sides for one in told)
    hits = []
    if analysis.context.structured or analysis.report.findings:
        listed = frozenset(side for one in analysis.report.findings if one.kind == TERM for side in _sides(one.side))
        hits += _compared(prose, listed, open_side, told, "结构化结果")
    if analysis.context.effusion is not None:
        hits += _compared(prose, frozenset(side.value for side in analysis.context.effusion), open_side, told, "图像测得")
    return tuple(hits)


def _sides(side: str) -> Sides:
    return frozenset("左右" if side[:1] == "双" else side[:1])


def _compared(prose: Sides, other: Sides, open_side: bool, told: list[Stated], source: str) -> list[Hit]:
    if prose == other or (open_side and other):
        return []
    wrong = bool(prose and other and not prose & other)
    severity = Severity.BLOCK if wrong else Severity.FLAG
    message = f"描述写胸腔积液：{_named(prose, open_side)}，{source}：{_named(other)}，请核对"
    first = told[0].mention if told else None
    return [Hit(ID, VERSION, severity, FINDINGS, first.start if first else 0, first.end if first else 0, message)]


def _named(sides: Sides, open_side: bool = False) -> str:
    if not sides:
        return "有（未写侧别）" if open_side else "无"
    return "双侧" if len(sides) > 1 else f"{next(iter(sides))}侧"
