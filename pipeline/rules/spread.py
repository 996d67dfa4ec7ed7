"""What spreads over a side and has no region of its own (pleural fluid, emphysema, fibrosis): its side in 描述, in 诊断意见, in the list,
and where the images show it, if anybody looked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pipeline.checking import CheckContext, Hit
from pipeline.model import Severity, Side
from pipeline.rules.analysis import FINDINGS, IMPRESSION, Analysis
from pipeline.rules.listed import has_list
from pipeline.rules.said import Stated, said

Sides = frozenset[str]


@dataclass(frozen=True, slots=True)
class Spread:
    """One such finding: its rule, its word in the list, the terms that name it, those that may, and where the images show it."""

    id: str
    version: int
    kind: str
    terms: frozenset[str]
    perhaps: frozenset[str]  # speak of it only where it is listed or seen
    seen: Callable[[CheckContext], tuple[Side, ...] | None]

    def agree(self, analysis: Analysis) -> tuple[Hit, ...]:
        """Sides that exclude each other block; any other difference is flagged. An impression that is silent is no difference."""
        if not analysis.lexicon.terms:
            return ()
        known = said(analysis)
        hits = []
        if has_list(analysis):
            listed = frozenset(side for one in analysis.report.findings if one.kind == self.kind for side in sides_of(one.side))
            hits += self._compared(FINDINGS, self._told(known.findings, analysis, listed), listed, "结构化结果")
            concluded = self._told(known.impression, analysis, listed)
            hits += self._compared(IMPRESSION, concluded, listed, "结构化结果") if concluded else []
        seen = self.seen(analysis.context)
        if seen is not None:
            shown = frozenset(side.value for side in seen)
            hits += self._compared(FINDINGS, self._told(known.findings, analysis, shown), shown, "图像测得")
        return tuple(hits)

    def _told(self, stated: Sequence[Stated], analysis: Analysis, other: Sides) -> list[Stated]:
        """Statements that it is there; words that only may mean it count where nothing else says it and it is known of."""
        own = [one for one in stated if self._is(one, self.terms, analysis)]
        certain = [one for one in own if one.certain]
        return certain or ([*own, *(one for one in stated if self._is(one, self.perhaps, analysis))] if other else [])

    @staticmethod
    def _is(one: Stated, terms: frozenset[str], analysis: Analysis) -> bool:
        return any(not terms.isdisjoint(analysis.lexicon.lines.get(term, ())) for term in one.terms)

    def _compared(self, section: str, told: Sequence[Stated], other: Sides, source: str) -> list[Hit]:
        prose = frozenset(side for one in told for side in one.sides)
        open_side = any(not one.sides for one in told)
        if prose == other:
            return [self._hit(section, one, one.sides, other, source) for one in _narrower(told, other)]
        if open_side and not prose and other:  # 胸腔有积液 beside 左侧胸腔见积液 opens nothing
            return []
        return [self._hit(section, told[0] if told else None, prose, other, source)]

    def _hit(self, section: str, at: Stated | None, prose: Sides, other: Sides, source: str) -> Hit:
        wrong = bool(prose and other and not prose & other)
        where = "描述" if section == FINDINGS else section
        message = f"{where}写{self.kind}：{_named(prose, at is not None)}，{source}：{_named(other)}，请核对"
        start, end = (at.mention.start, at.mention.end) if at else (0, 0)
        return Hit(self.id, self.version, Severity.BLOCK if wrong else Severity.FLAG, section, start, end, message)


def _narrower(told: Sequence[Stated], other: Sides) -> list[Stated]:
    """左侧胸腔积液 in another sentence than 双侧胸腔积液: one of both is wrong."""
    whole = {one.mention.sentence for one in told if one.sides == other}
    return [one for one in told if whole and one.sides and one.sides < other and one.mention.sentence not in whole]


def sides_of(side: str) -> Sides:
    """左 and 右 as a word of the list names them."""
    return frozenset("左右" if side[:1] == "双" else side[:1])


def _named(sides: Sides, open_side: bool = False) -> str:
    if not sides:
        return "有（未写侧别）" if open_side else "无"
    return "双侧" if len(sides) > 1 else f"{next(iter(sides))}侧"


EFFUSION = Spread("effusion.side", 2, "胸腔积液", frozenset({"胸腔积液"}), frozenset(), lambda context: context.effusion)
EMPHYSEMA = Spread("emphysema.side", 1, "肺气肿", frozenset({"肺气肿"}), frozenset({"透亮影"}), lambda context: context.emphysema)
FIBROSIS = Spread(
    "fibrosis.side", 1, "纤维化", frozenset({"肺纤维化"}), frozenset({"网格影", "蜂窝肺", "网结影", "间质性肺炎"}), lambda context: context.fibrosis
)
SPREADS = (EFFUSION, EMPHYSEMA, FIBROSIS)
