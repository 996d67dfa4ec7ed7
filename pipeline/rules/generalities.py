"""Conclusory generalities (综上所述…具有恶性潜能): words that say nothing which can be checked."""

from __future__ import annotations

import re
from dataclasses import replace

from pipeline.checking import CheckContext, Hit, RuleSet
from pipeline.entry import Kind
from pipeline.model import Report, Severity
from pipeline.rules.analysis import ADVICE, Analysis
from pipeline.rules.dose import warning_spans
from pipeline.rules.extract import read
from pipeline.rules.lexicon import compiled
from pipeline.rules.mentions import Section
from pipeline.rules.outcome import Outcome
from pipeline.rules.said import clause_at
from pipeline.rules.spans import Span, any_overlap, quotations

ID, VERSION = "generality.dropped", 1
STATED_ID, STATED_VERSION = "generality.stated", 2
_LEADS = r"综上所述|综上|总而言之|总之|总的来说|总体而言|总体来看|总体来说|综合以上|综合上述|综合来看|综合分析|由此可见|概括而言|归纳起来"
_EMPTY = (
    r"(?:恶性|恶变|癌变|侵袭|侵袭性)(?:的)?潜能|潜在(?:的)?(?:恶性|恶变|风险)|恶性(?:的)?(?:风险|可能性?)(?:不容忽视|值得(?:关注|重视|警惕)|需(?:要)?(?:关注|重视|警惕))|不容忽视|不可忽视"
    r"|(?:引起|予以|给予|需要?|应)(?:足够的?|高度|充分|临床)*(?:重视|关注|警惕)|高度(?:重视|警惕)|值得(?:高度|进一步)?(?:关注|重视|警惕)|具有(?:一定|重要|较大|较高)?的?(?:临床意义|临床价值|提示意义|风险)|病情(?:较为?|相对)?复杂"
    r"|具有(?:一定|较高|较大)的?恶性(?:程度|倾向|可能性?)|密切关注病情(?:变化|发展)"
)
# some word of each: a quick way past most texts
_HINT = re.compile("潜能|潜在|忽视|重视|关注|警惕|意义|价值|风险|复杂|恶性程度|恶性倾向|恶性可能|的恶性")
_SENTENCE = re.compile(r"[^。！!？?\n]+[。！!？?]?")
_LEAD = re.compile(rf"\s*(?:[（(]?\d{{1,2}}[）).、]\s*)?(?:{_LEADS})")
_GENERAL = re.compile(_EMPTY)
# a place with its side, a number or a count is a fact: a sentence is dropped only where the rest of the report keeps each of its facts
_FACT = re.compile(
    r"[左右双两]侧?肺?[上中下]?[肺叶]?|[0-9０-９]+(?:\.[0-9]+)?\s*(?:mm|cm|毫米|厘米)?|[一二三四五六七八九十]+\s*(?:枚|个|处|毫米|厘米)"
)
_JUDGES = re.compile("考虑|可能|除外|排除|倾向|符合|诊断|提示|未见|未发现|较前|良性|恶性")
ANYTHING = frozenset({"病灶", "病变", "改变", "异常"})  # name nothing by themselves
_CITED = re.compile("病理|活检|穿刺|镜下|镜检|免疫组化|WHO|组织学|细胞学|分级|基因检测")  # what the pathologist named: 恶性潜能未定的平滑肌肿瘤
_NAMED = re.compile("(?:未定|未明|不明|不确定|不能确定|待定)(?!，|。)|(?<=低度恶性潜能)|(?<=低恶性潜能)")  # WHO's names of tumours
_ASKS = re.compile("建议|复查|随访|活检|检查")
_NUMBERING = re.compile(r"\s*[（(]?\d{1,2}[）).、]\s*")


def drop(report: Report, ruleset: RuleSet, context: CheckContext) -> Outcome:
    """Sentences that begin as a conclusion, hold a generality and no fact of their own are left out; each hit keeps the sentence and points at no
    span."""
    texts = report.sections()
    hits = []
    for name in texts:
        for sentence in [] if _HINT.search(texts[name]) is None else _concluding(name, texts[name], ruleset, context):
            shorter = texts[name].replace(sentence, "", 1)
            rest = "\n".join(shorter if other == name else text for other, text in texts.items())
            if all(fact in rest for fact in _facts(sentence)) and not _says_more(sentence, rest, ruleset):
                texts[name] = shorter
                hits.append(_hit(name, sentence))
    if not hits:
        return Outcome(report)
    findings_text, impression, advice = texts.values()
    return Outcome(replace(report, findings_text=findings_text, impression=impression, advice=advice), tuple(hits))


def stated(analysis: Analysis) -> tuple[Hit, ...]:
    """A generality that was not dropped (it stands with facts, or without a conclusion's words) is flagged."""
    hits = []
    for section in analysis.sections.values():
        for found in _GENERAL.finditer(section.text) if _HINT.search(section.text) else ():
            span = Span(found.start(), found.end())
            if not _of_pathology(section, span) and not any_overlap(span, quotations(section.text, analysis.context.indication)):
                message = f"「{found[0]}」是无法核对的总结性套话，请改写为具体征象"
                hits.append(Hit(STATED_ID, STATED_VERSION, Severity.FLAG, section.name, span.start, span.end, message))
    return tuple(hits)


def _of_pathology(section: Section, span: Span) -> bool:
    """What a pathologist found, or how a tumour is called, is no phrase of the draft's own."""
    cited = _CITED.search(section.text, clause_at(section, span.start).start, span.start) is not None
    return cited or _NAMED.match(section.text, span.end) is not None


def _concluding(name: str, text: str, ruleset: RuleSet, context: CheckContext) -> list[str]:
    """Sentences of conclusory words, outside quotations of the indication and this project's own warning, that ask for nothing."""
    keep = (*quotations(text, context.indication), *(warning_spans(text, ruleset.dose) if name == ADVICE else ()))
    spans = (Span(found.start(), found.end()) for found in _SENTENCE.finditer(text) if _LEAD.match(text, found.start(), found.end()))
    outside = (text[span.start : span.end] for span in spans if not any_overlap(span, keep))
    return [sentence for sentence in outside if _GENERAL.search(sentence) and not _ASKS.search(sentence)]


def _facts(sentence: str) -> list[str]:
    numbering = _NUMBERING.match(sentence)
    return [found[0] for found in _FACT.finditer(sentence, numbering.end() if numbering else 0)]


def _says_more(sentence: str, rest: str, ruleset: RuleSet) -> bool:
    """Does it judge (考虑肺栓塞, 未见恶性征象), or name a finding or a change that the rest of the report does not have?"""
    bare = _GENERAL.sub("", sentence)
    named = (
        bare[one.start : one.end]
        for one in read("", bare, compiled(ruleset)).mentions
        if one.observed or (one.describing and one.kind is not Kind.NORMAL)
    )
    return _JUDGES.search(bare) is not None or any(word not in rest for word in named if word not in ANYTHING)


def _hit(section: str, sentence: str) -> Hit:
    return Hit(ID, VERSION, Severity.REPLACED, section, 0, 0, f"已删去无法核对的总结性套话「{sentence.strip()}」", sentence)
