"""Margin (边缘), inner structure (内部结构) and surroundings (周围改变) of each listed lung lesion, as 描述 tells them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from pipeline.checking import Hit
from pipeline.model import Finding, Severity
from pipeline.rules.analysis import FINDINGS, Analysis
from pipeline.rules.listed import LUNG, REGION_OF, Pair, described, has_list, name
from pipeline.rules.mentions import Mention
from pipeline.rules.said import Stated, said

ID, VERSION = "structure.look", 1
MARGINS: Mapping[str, str] = MappingProxyType({"边缘光滑": "光滑", "分叶征": "分叶", "毛刺征": "毛刺", "边缘毛糙": "毛刺", "边界模糊": "模糊"})
CALCIFIED, RETRACTED = "钙化", "胸膜牵拉"
CALCIUM = frozenset({"钙化灶", "钙化密度", "钙化结节"})
RETRACTION = "胸膜凹陷征"


def agree(analysis: Analysis) -> tuple[Hit, ...]:
    """What the text says otherwise than the list is flagged; what it leaves out is not."""
    if not has_list(analysis):
        return ()
    pairs = [pair for pair in described(analysis).pairs if REGION_OF[pair.finding.kind] == LUNG]
    alone = [pair for pair in pairs if sum(other.stated is pair.stated for other in pairs) == 1]  # what is said of several is said of none alone
    hits = [hit for pair in alone for hit in _differences(analysis, pair)]
    return tuple(sorted(hits, key=lambda hit: (hit.start, hit.message)))


def _differences(analysis: Analysis, pair: Pair) -> Iterator[Hit]:
    told = tuple(_about(analysis, pair.stated))
    finding = pair.finding
    yield from _margin(finding, told)
    calcium = [one for one in told if _calcium(one, analysis)]
    yield from _present(finding, finding.internal, CALCIFIED, calcium, "内部结构")
    yield from _present(finding, finding.surround, RETRACTED, [one for one in told if one.term == RETRACTION], "周围改变")


def _about(analysis: Analysis, one: Stated) -> Iterator[Mention]:
    """The finding's own details, and what its sentence says up to the next lesion."""
    yield from one.mention.details
    others = (other.mention.start for other in said(analysis).findings if other.mention.start > one.mention.start and other.groups & one.groups)
    stop = min((start for start in others), default=one.mention.sentence.end)
    for mention in analysis.findings.mentions:
        if mention.sentence == one.mention.sentence and one.mention.start <= mention.start < stop and mention not in one.mention.details:
            yield mention


def _margin(finding: Finding, told: tuple[Mention, ...]) -> Iterator[Hit]:
    said_of = [(MARGINS[one.term], one) for one in told if one.term in MARGINS]
    named = {margin for margin, one in said_of if not one.negated}
    denied = {margin for margin, one in said_of if one.negated}
    if finding.margin and ((named and finding.margin not in named) or finding.margin in denied - named):
        at = said_of[0][1]
        other = "、".join(sorted(named)) or f"未见{finding.margin}"
        yield _hit(at, f"病灶列表写{name(finding)}边缘{finding.margin}，描述写{other}，请核对边缘")


def _present(finding: Finding, listed: str | None, word: str, told: list[Mention], what: str) -> Iterator[Hit]:
    """The list says that it is there and the text that it is not, or the other way round."""
    if listed is None or not told:
        return
    there = any(not one.negated for one in told)
    if there != (listed == word):
        yield _hit(told[0], f"病灶列表写{name(finding)}{what}：{listed}，描述写{'有' if there else '无'}{word}，请核对")


def _calcium(one: Mention, analysis: Analysis) -> bool:
    return CALCIFIED in one.term or not CALCIUM.isdisjoint(analysis.lexicon.lines.get(one.term, ()))


def _hit(at: Mention, message: str) -> Hit:
    return Hit(ID, VERSION, Severity.FLAG, FINDINGS, at.start, at.end, message)
