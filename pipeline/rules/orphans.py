"""Impression without finding, and finding without impression."""

from __future__ import annotations

from pipeline.checking import Hit
from pipeline.model import Severity
from pipeline.rules.analysis import FINDINGS, IMPRESSION, Analysis
from pipeline.rules.lexicon import Lexicon
from pipeline.rules.mentions import Mention
from pipeline.rules.said import EFFUSION, NODULE, OPACITY, Stated, explains, region_of, said, same_thing
from pipeline.rules.spans import Span, any_overlap, quotations

ID, VERSION = "impression.unfounded", 1
MISSED_ID, MISSED_VERSION = "finding.unconcluded", 1
# what an impression may not leave out; calcification, scars and degenerative changes often are
WEIGHTY_GROUPS = frozenset({NODULE, OPACITY, EFFUSION})
WEIGHTY_TERMS = frozenset({"气胸", "液气胸", "心包积液", "肺不张", "骨折", "骨质破坏", "空洞", "淋巴结肿大", "腹腔积液"})
GENERAL = frozenset({"病灶", "异常密度影"})  # say nothing of their own
HARMLESS = frozenset({"钙化结节", "叶间裂结节"})
WEIGHTY_TAGS = frozenset({"critical", "malignant"})


def unfounded(analysis: Analysis) -> tuple[Hit, ...]:
    """What the impression names and the findings do not describe at all. A wrong place is told by `side.impression`."""
    if not analysis.findings.sentences:
        return ()
    known = said(analysis)
    described = {region_of(place.organ) for place in known.described}
    hits = []
    for one in known.impression:
        if one.mention.term in GENERAL:
            continue
        founded = any(explains(one, finding, analysis.lexicon) for finding in known.findings) or _past(one.mention, analysis)
        shown = one.free and one.region in described
        if not founded and not shown and not _quoted(one.mention, analysis):
            hits.append(_hit(ID, VERSION, one.mention, analysis, "检查所见没有相应描述"))
    return tuple(hits)


def unconcluded(analysis: Analysis) -> tuple[Hit, ...]:
    """What the findings describe, weighs something, and the impression does not take up on that side; each kind and side once."""
    known = said(analysis)
    if not any(c.isalnum() for c in analysis.impression.text):
        return ()
    hits: dict[tuple[str, frozenset[str]], Hit] = {}
    for one in known.findings:
        if not one.certain or one.again or not _weighty(one, analysis.lexicon):
            continue
        taken_up = any(_takes_up(other, one, analysis.lexicon) for other in known.impression)
        if not taken_up and not _told_as_past(one, analysis):
            hits.setdefault((one.mention.term, one.sides), _hit(MISSED_ID, MISSED_VERSION, one.mention, analysis, "诊断意见没有提及"))
    return tuple(hits.values())


def _weighty(one: Stated, lexicon: Lexicon) -> bool:
    line = lexicon.lines.get(one.mention.term, ())
    if not HARMLESS.isdisjoint(line) or any(detail.term == "钙化密度" for detail in one.mention.details):
        return False
    return not (WEIGHTY_GROUPS.isdisjoint(one.groups) and WEIGHTY_TAGS.isdisjoint(one.mention.tags) and WEIGHTY_TERMS.isdisjoint(line))


def _takes_up(conclusion: Stated, finding: Stated, lexicon: Lexicon) -> bool:
    """The same thing, or a disease of its organ, on the same side as far as both name one."""
    if conclusion.sides and finding.sides and not conclusion.sides & finding.sides:
        return False
    near = not conclusion.region or not finding.region or conclusion.region == finding.region
    return same_thing(conclusion, finding, lexicon) or (near and (conclusion.inferred or not (conclusion.groups and finding.groups)))


def _told_as_past(one: Stated, analysis: Analysis) -> bool:
    """A finding that the impression says is past (术后) is taken up."""
    return any(m.historical and (region_of(m.organ) == one.region or not m.organ) for m in analysis.impression.observations())


def _past(mention: Mention, analysis: Analysis) -> bool:
    """The findings say the same of the past."""
    return any(other.historical and analysis.lexicon.is_a(other.term, mention.term) for other in analysis.findings.observations())


def _quoted(mention: Mention, analysis: Analysis) -> bool:
    return any_overlap(Span(mention.start, mention.end), quotations(analysis.impression.text, analysis.context.indication))


def _hit(rule: str, version: int, mention: Mention, analysis: Analysis, what: str) -> Hit:
    section = IMPRESSION if rule == ID else FINDINGS
    text = analysis.sections[section].text[mention.start : mention.end]
    return Hit(rule, version, Severity.FLAG, section, mention.start, mention.end, f"{section}写有「{text}」，{what}，请核对")
