"""Critical findings (危急值): what a report says is, or may be, there, and somebody must be told of at once. A draft suspects, it never confirms."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from pipeline.checking import Hit, RuleSet, Suspected
from pipeline.entry import DESCRIBING, OBSERVED
from pipeline.errors import BadInput
from pipeline.guidance import CriticalRule
from pipeline.model import Severity
from pipeline.rules.analysis import Analysis
from pipeline.rules.lexicon import Lexicon, compiled
from pipeline.rules.mentions import Mention, Section
from pipeline.rules.spans import Span, any_overlap, folded, quotations

ID, VERSION = "critical.finding", 1
# 建议CTPA除外肺栓塞 asks a question; 不除外, 不能排除 say that it may be there
_ASKED = re.compile(r"(?:建议|请|需|注意|以|进一步|为).*(?<![不未])(?<!不能)(?<!难以)(?<!不完全)(?:除外|排除|明确有无|了解有无)")
_COLLAPSED = re.compile(r"(?:压缩|萎陷|受压)[^，。；;]{0,8}?(?:(\d+(?:\.\d+)?)\s*[%％]|(\d)\s*/\s*(\d))")
_STILL = re.compile("较前|增多|增大|进展|加重|扩大|未见(?:明显)?变化|变化不(?:大|明显)")  # 原右侧气胸较前增多 is there now
_JUDGED_NOT = re.compile("(?:无法|不能|难以)(?:准确)?(?:评估|评价|判断)(?:是否有?|有无|对)?\\Z")  # 平扫不能评估肺栓塞
_NOT_JUDGED = re.compile("的?(?:无法|不能|难以)(?:准确)?(?:评估|评价|判断)|的?(?:诊断|评估|评价)?价值有限")
_GONE = "gone"  # tag of 消失, 完全吸收
Listed = tuple[CriticalRule, str]  # and the organ that the finding must lie in; empty: anywhere


@dataclass(frozen=True, slots=True)
class Found:
    """Where a report first speaks of one critical finding, certainly if it does so anywhere."""

    rule: CriticalRule
    mention: Mention


def critical(analysis: Analysis) -> tuple[Hit, ...]:
    """One flag per critical finding, at the place that speaks of it."""
    return tuple(_hit(analysis, one) for one in _found(analysis))


def suspected(analysis: Analysis) -> tuple[Suspected, ...]:
    """The same findings as alerts to be raised."""
    return tuple(Suspected(one.rule, analysis.ruleset.version, not one.mention.uncertain, one.mention.section) for one in _found(analysis))


def _found(analysis: Analysis) -> tuple[Found, ...]:
    """At most one place per rule: the first certain one, else the first. What 建议 names is a question or an examination."""
    by_term = _by_term(analysis.ruleset)
    found: dict[str, Found] = {}
    for section in (analysis.findings, analysis.impression):
        for mention in section.mentions:
            listed = by_term.get(mention.term)
            if listed is None or mention.negated or not _now(mention, section):
                continue
            rule = next((one for one, organ in listed if _speaks_of(one, organ, mention, section, analysis.lexicon)), None)
            if rule is None or any_overlap(Span(mention.start, mention.end), quotations(section.text, analysis.context.indication)):
                continue
            before = found.get(rule.id)
            if before is None or (before.mention.uncertain and not mention.uncertain):
                found[rule.id] = Found(rule, mention)
    return tuple(found.values())


@lru_cache(maxsize=8)
def _by_term(ruleset: RuleSet) -> Mapping[str, tuple[Listed, ...]]:
    """Every term that means a critical finding → the rules, nearest first: 张力性气胸 has its own before that of 气胸."""
    if not ruleset.critical:
        return {}
    lexicon = compiled(ruleset)
    listed: dict[str, list[Listed]] = {}
    for rule in ruleset.critical:
        for word, _, organ in (one.partition("@") for one in rule.words):
            listed.setdefault(lexicon.entries[folded(word)].term, []).append((rule, organ))
    every = {term: tuple(one for above in lexicon.above(term) for one in listed.get(above.term, ())) for term in lexicon.terms}
    return {term: rules for term, rules in every.items() if rules}


def _speaks_of(rule: CriticalRule, organ: str, mention: Mention, section: Section, lexicon: Lexicon) -> bool:
    """Does the text say that this is, or may be, there now?"""
    if mention.uncertain and _ASKED.search(section.text, mention.clause.start, mention.start):
        return False
    if _JUDGED_NOT.search(section.text, mention.clause.start, mention.start) or _NOT_JUDGED.match(section.text, mention.end, mention.clause.end):
        return False
    if organ and not any(lexicon.is_a(place, organ) for place in _places(mention)):
        return False
    said = set(_said_of(mention, section))
    plain = not rule.qualifiers and rule.percent is None
    return (plain or _any(rule.qualifiers, said, lexicon) or _collapsed(rule, mention, section)) and not _any(rule.unless, said, lexicon)


def _now(mention: Mention, section: Section) -> bool:
    """Is it said of today, and not as gone: 肺栓塞较前消失, 胸腔积血已吸收? 肺纹理消失 beside a 气胸 is another matter."""
    for detail in mention.details:
        if _GONE in detail.tags and not detail.negated:
            word = section.text[detail.start : detail.end]
            if word != "消失" or section.text.endswith(("较前", "均", "已"), 0, detail.start):
                return False
    return not mention.historical or _STILL.search(section.text, mention.end, mention.clause.end) is not None


def _collapsed(rule: CriticalRule, mention: Mention, section: Section) -> bool:
    """Does the sentence say that the lung is collapsed by as much?"""
    found = _COLLAPSED.search(section.text, mention.sentence.start, mention.sentence.end)
    if found is None or rule.percent is None:
        return False
    return float(found[1]) >= rule.percent if found[1] else int(found[2]) * 100 >= rule.percent * int(found[3])


def _places(mention: Mention) -> Iterator[str]:
    yield mention.organ
    for location in mention.locations:
        yield location.term
        yield location.organ


def _said_of(mention: Mention, section: Section) -> Iterator[str]:
    """Terms that describe the finding, and other findings of its sentence, as far as they are there."""
    for other in (*mention.details, *section.mentions):
        near = other in mention.details or (other.sentence == mention.sentence and other.observed)
        if near and other.start != mention.start and not other.negated:
            yield other.term


def _any(words: tuple[str, ...], said: set[str], lexicon: Lexicon) -> bool:
    return any((entry.term if (entry := lexicon.entries.get(folded(word))) is not None else word) in said for word in words)


def refuse_unreadable(ruleset: RuleSet) -> None:
    """Raises BadInput for a word of `qualifiers`, `unless` or `organs` that no text can ever be read as saying."""
    lexicon = compiled(ruleset)
    for rule in ruleset.critical:
        organs = (word.partition("@")[2] for word in rule.words)
        words = (*unknown_qualifiers(rule, lexicon), *(organ for organ in organs if organ and organ not in lexicon.places))
        if words:
            raise BadInput(
                f"the critical finding '{rule.id}' asks for '{words[0]}', which the lexicon does not have as a description, a finding or an organ; "
                "add it with `ctreport rules set lexicon --add`, or correct the word"
            )


def unknown_qualifiers(rule: CriticalRule, lexicon: Lexicon) -> tuple[str, ...]:
    """Words of `qualifiers` and `unless` that can never be said of a finding: the lexicon has them neither as a description nor as a finding."""
    entries = ((word, lexicon.entries.get(folded(word))) for word in (*rule.qualifiers, *rule.unless))
    return tuple(word for word, entry in entries if entry is None or not (entry.kind in DESCRIBING or entry.kind in OBSERVED))


def _hit(analysis: Analysis, one: Found) -> Hit:
    text = analysis.sections[one.mention.section].text[one.mention.start : one.mention.end]
    doubt = "（草稿自身尚不确定）" if one.mention.uncertain else ""
    message = (
        f"【疑似危急值】{one.rule.finding}：草稿写有「{text}」{doubt}，未经核实；请立即核对图像，属实则在 {one.rule.minutes} 分钟内通知临床，"
        "并登记通知人、接收人、时间、方式与复述"
    )
    return Hit(ID, VERSION, Severity.FLAG, one.mention.section, one.mention.start, one.mention.end, message)
