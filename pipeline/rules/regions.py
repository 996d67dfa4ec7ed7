"""An organ that the scan does not show, or that a patient of this sex does not have."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType

from pipeline.checking import Hit
from pipeline.model import Severity
from pipeline.rules.analysis import Analysis
from pipeline.rules.mentions import Section
from pipeline.rules.said import clause_at, past
from pipeline.rules.spans import Span, any_overlap, quotations

ID, VERSION = "organ.unseen", 2
SEX_ID, SEX_VERSION = "organ.sex", 2
# Organ of the text → what a scan must show for it: names of `imaging/coverage.py` (where the slices lie beside the lungs), or the organ itself.
# A chest CT that shows the liver shows its neighbours in part; organs that are not listed are never missed.
_ABOVE = ("上腹", "上腹部", "腹部", "肝", "脾")
_LOWER = ("盆腔", "下腹部", "腹部")
SHOWN_WITH: Mapping[str, tuple[str, ...]] = MappingProxyType(
    dict.fromkeys(("肝", "门静脉", "胆囊", "胆管", "脾", "脾静脉", "脾动脉", "胰腺", "胃", "肾上腺", "肾"), _ABOVE)
    | dict.fromkeys(("十二指肠", "小肠", "结肠", "肠系膜", "大网膜", "输尿管"), ("上腹", "上腹部", "腹部"))
    | dict.fromkeys(("阑尾", "直肠", "肛管", "膀胱", "盆腔", "髋关节", "骶髂关节", "股骨", "骨盆", "髂总动脉", "髂总静脉"), _LOWER)
    | dict.fromkeys(("前列腺", "精囊", "睾丸", "附睾", "精索", "阴囊", "阴茎", "子宫", "附件", "卵巢", "输卵管", "阴道", "胎盘"), _LOWER)
    | dict.fromkeys(("颅内", "颅骨"), ("颅内", "头部"))
    | {"喉": ("颈部", "喉"), "甲状腺": ("甲状腺", "颈部"), "颈部": ("颈部", "甲状腺"), "心脏": ("心脏",), "心包": ("心脏",), "冠状动脉": ("心脏",)}
    | {"纵隔": ("纵隔", "心脏"), "胸腺": ("纵隔",), "主动脉": ("纵隔", "心脏", "腹部", "上腹"), "肺": ("肺",), "胸膜腔": ("肺",), "胸膜": ("肺",)}
)
SEXES = {"M": ("female", "男", "女性"), "F": ("male", "女", "男性")}
_VERTEBRAL = re.compile("椎|骨")  # 椎体及附件: the arches of the spine, not the adnexa
# a disease of somebody else
_FAMILY = re.compile("家族|亲属|母亲|父亲|外?祖[父母]|姐|妹|兄弟|哥哥|弟弟|姑(?!息)|姨|舅|叔|伯|女儿|儿子|妻|丈夫|配偶|爱人")
_NOT_SHOWN = re.compile(
    "(?:扫描|检查|成像|采集|显示)范围|范围(?:之|以)?外|[未没](?:能|有)?(?:完全|完整)?(?:包括|包含|包全|包入|扫及|扫描|扫到|涉及|覆盖)|[未不]在"
    "|(?:无法|不能|难以|未能|未予|不予|不作|未作|未做)(?:准确|全面|充分)?(?:评价|评估|观察|判断|显示|诊断)"
)
_SUPPLY = re.compile("转移|来源|原发")  # 结肠癌肺转移 names where it came from


def unseen(analysis: Analysis) -> tuple[Hit, ...]:
    """A statement about an organ outside the volume is flagged, once per organ and section. Where nobody knows what the volume shows, nothing is."""
    covers = analysis.context.covers
    if not covers:
        return ()
    outside = _outside(covers)
    hits: dict[tuple[str, str], Hit] = {}
    for section in (analysis.findings, analysis.impression):
        for organ, start, end in _organs(section):
            if organ not in outside or (section.name, organ) in hits:
                continue
            span = Span(start, end)
            if not _elsewhere(section, span, analysis):
                message = f"扫描范围未包括{organ}，报告却有相应描述，请核对"
                hits[section.name, organ] = Hit(ID, VERSION, Severity.FLAG, section.name, span.start, span.end, message)
    return tuple(hits.values())


@lru_cache(maxsize=64)
def _outside(covers: tuple[str, ...]) -> frozenset[str]:
    """Organs that a scan with these does not show."""
    return frozenset(organ for organ, shown in SHOWN_WITH.items() if organ not in covers and not any(one in covers for one in shown))


def other_sex(analysis: Analysis) -> tuple[Hit, ...]:
    """An organ or disease of the other sex blocks, in every section. Where the sex is not known, nothing does."""
    known = SEXES.get(analysis.context.sex.strip().upper()[:1])
    if known is None:
        return ()
    tag, patient, organ_of = known
    hits = []
    for section in analysis.sections.values():
        for term, span in dict.fromkeys(_tagged(section, analysis, tag)):
            if (
                not _of_spine(section, span, term)
                and not _of_family(section, span)
                and not any_overlap(span, quotations(section.text, analysis.context.indication))
            ):
                message = f"患者为{patient}性，报告写有{organ_of}特有的「{section.text[span.start : span.end]}」，请核对患者与报告"
                hits.append(Hit(SEX_ID, SEX_VERSION, Severity.BLOCK, section.name, span.start, span.end, message))
    return tuple(_widest(hits))


def _organs(section: Section) -> Iterator[tuple[str, int, int]]:
    """Organs that are named, or in which a finding is by its nature."""
    for place in section.locations:
        yield place.organ, place.start, place.end
    for mention in section.mentions:
        if mention.organ and mention.observed:
            yield mention.organ, mention.start, mention.end


def _elsewhere(section: Section, span: Span, analysis: Analysis) -> bool:
    """A history, the origin of a metastasis, what the request says, and what is asked for, need not be in the scan."""
    clause = clause_at(section, span.start)
    indication = analysis.context.indication
    if past(section, clause) or _SUPPLY.search(section.text, clause.start, clause.end) or "建议" in section.text[clause.start : clause.end]:
        return True
    if _NOT_SHOWN.search(section.text, clause.start, clause.end) or _FAMILY.search(section.text, clause.start, clause.end):
        return True
    return bool(indication) and section.text[span.start : span.end] in indication


def _tagged(section: Section, analysis: Analysis, tag: str) -> Iterator[tuple[str, Span]]:
    terms = analysis.lexicon.terms
    for place in section.locations:
        entry = terms.get(place.term)
        if entry is not None and tag in entry.tags:
            yield place.term, Span(place.start, place.end)
    for mention in section.mentions:
        if tag in mention.tags:
            yield mention.term, Span(mention.start, mention.end)


def _of_spine(section: Section, span: Span, term: str) -> bool:
    clause = clause_at(section, span.start)
    return term.endswith("附件") and _VERTEBRAL.search(section.text, clause.start, clause.end) is not None


def _of_family(section: Section, span: Span) -> bool:
    clause = clause_at(section, span.start)
    return _FAMILY.search(section.text, clause.start, span.start) is not None


def _widest(hits: list[Hit]) -> Iterator[Hit]:
    """One hit where 前列腺 and 前列腺癌 would be two."""
    for one in hits:
        if not any(other is not one and other.section == one.section and other.start <= one.start and one.end <= other.end for other in hits):
            yield one
