"""Nothing is both absent and there: 双肺未见结节, and a nodule of the left lung elsewhere."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping

from pipeline.checking import Hit
from pipeline.entry import Kind
from pipeline.model import Severity
from pipeline.rules.analysis import FINDINGS, IMPRESSION, Analysis
from pipeline.rules.lexicon import Lexicon
from pipeline.rules.mentions import Location, Mention, Section
from pipeline.rules.said import REGIONS, Stated, region_of, said

ID, VERSION = "presence.contradiction", 2
# 余肺未见结节 leaves out what was told before, 病灶内未见空洞 speaks of one lesion
_REST = re.compile(r"余|其他|其它|另|此外|除|别处|再|复发|残留|新|(?:其|灶|结节|肿块|影|变|瘤|区)(?:内|周围|旁)")
NODES = "淋巴结"  # named after the place where they lie: 腋窝未见肿大淋巴结 denies 腋窝淋巴结肿大
HOLDS: Mapping[str, tuple[str, ...]] = {
    "骨骼": tuple(organ for organ, region in REGIONS.items() if region == "骨"),
    "胸廓": ("肋骨", "胸骨", "锁骨", "肩胛骨"),
}
NARROWING = frozenset({Kind.CHANGE, Kind.DENSITY, Kind.SHAPE, Kind.STRUCTURE, Kind.ENHANCEMENT, Kind.MARGIN, Kind.DISTRIBUTION})


def contradictions(analysis: Analysis) -> tuple[Hit, ...]:
    """One flag per finding that is stated although the same report says of its place that it is not there."""
    known = said(analysis)
    stated: dict[str, list[Stated]] = {}
    for one in (*known.findings, *known.impression):
        if one.certain:
            for term in {wide for own in one.terms for wide in analysis.lexicon.lines.get(own, (own,))}:
                stated.setdefault(term, []).append(one)
    hits: dict[tuple[str, int], Hit] = {}
    for section, mention in _denied(analysis, stated.keys()):
        for one in stated[mention.term]:
            place = one.mention.section, one.mention.start
            if place not in hits and _denies(mention, one, analysis.lexicon):
                against = section.text[mention.clause.start : mention.clause.end].strip()
                hits[place] = _hit(analysis, one.mention, against)
    return tuple(hits[place] for place in sorted(hits))


def _denied(analysis: Analysis, terms: Container[str]) -> Iterator[tuple[Section, Mention]]:
    """Which of these terms the report says are absent, without any narrowing."""
    for section in (analysis.findings, analysis.impression):
        for mention in section.mentions:
            if mention.negated and mention.term in terms and mention.observed and _whole(section, mention):
                yield section, mention


def _whole(section: Section, mention: Mention) -> bool:
    """Is all of its kind denied, here and today, and not only what is large, new or left over?"""
    if mention.historical or mention.uncertain or mention.measures or any(detail.kind in NARROWING for detail in mention.details):
        return False
    return _REST.search(section.text, mention.clause.start, mention.start) is None


def _denies(absent: Mention, stated: Stated, lexicon: Lexicon) -> bool:
    """The place of what is stated lies inside that of the denial."""
    if not absent.locations:
        return not absent.organ or not stated.region or region_of(absent.organ) == stated.region
    named = stated.mention.term
    return bool(stated.locations) and all(any(_inside(place, wide, named, lexicon) for wide in absent.locations) for place in stated.locations)


def _inside(place: Location, wide: Location, named: str, lexicon: Lexicon) -> bool:
    """Is all of `place`, where the finding `named` lies, part of `wide`? 胸椎未见骨折 denies no broken rib, 胆囊未见结石 no stone of a duct."""
    if place.organ == NODES:
        part = place.organ == wide.organ or wide.organ in place.term or wide.organ in named
    else:
        part = place.organ == wide.organ or place.organ in HOLDS.get(wide.organ, ()) or lexicon.is_a(place.term, wide.term)
    if not part:
        return False
    sides = wide.side in ("", "双") or place.side == wide.side
    lobes = not wide.lobe or place.lobe == wide.lobe
    segments = not wide.segment or place.segment == wide.segment
    return sides and lobes and segments


def _hit(analysis: Analysis, stated: Mention, against: str) -> Hit:
    text = analysis.sections[stated.section].text[stated.start : stated.end]
    where = FINDINGS if stated.section == FINDINGS else IMPRESSION
    message = f"{where}写有「{text}」，而报告另处写「{against}」，前后矛盾，请核对"
    return Hit(ID, VERSION, Severity.FLAG, stated.section, stated.start, stated.end, message)
