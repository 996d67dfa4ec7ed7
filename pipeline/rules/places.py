"""Places that nobody has: the left lung has no middle lobe, the right one no lingula."""

from __future__ import annotations

from pipeline.checking import Hit
from pipeline.model import Severity
from pipeline.rules.analysis import Analysis
from pipeline.rules.mentions import Location, Section

ID, VERSION = "place.impossible", 1
LUNG = "肺"
ONLY_RIGHT_LOBES = frozenset({"中叶"})
ONLY_LEFT_SEGMENTS = frozenset({"舌段", "上舌段", "下舌段", "尖后段", "前内基底段"})
ONLY_RIGHT_SEGMENTS = frozenset({"内基底段", "内侧段", "外侧段"})  # TA2: S7 is part of the left anteromedial basal segment
_JOINTS = frozenset("、及和与或并 ")


def impossible(analysis: Analysis) -> tuple[Hit, ...]:
    """Side or lobe of such a place is wrong: it blocks."""
    hits = []
    for section in analysis.sections.values():
        before: Location | None = None
        for place in section.locations:
            if place.organ == LUNG and (place.lobe or place.segment):
                side = _side(section, before, place)
                lacking = _lacking(side, place)
                if lacking:
                    start = place.start - (len(side) if section.text[: place.start].endswith(side) else 0)
                    message = f"「{section.text[start : place.end]}」：{side}肺没有{lacking}，请核对侧别与肺叶"
                    hits.append(Hit(ID, VERSION, Severity.BLOCK, section.name, start, place.end, message))
            before = place
    return tuple(hits)


def _side(section: Section, before: Location | None, place: Location) -> str:
    """The side that its own words, or those of the list in which it stands, give it."""
    if any(side in section.text[place.start : place.end] for side in ("左", "右", "双")):
        return place.side
    ahead = section.text[: place.start]
    near = next((side for side in ("左", "右", "双") if ahead.endswith((side, f"{side}侧"))), "")
    if near:
        return near
    listed = before is not None and before.organ == LUNG and _JOINTS.issuperset(section.text[before.end : place.start])
    return place.side if listed else ""


def _lacking(side: str, place: Location) -> str:
    """What that side's lung does not have; empty where all is well."""
    if side in ("左", "双") and place.lobe in ONLY_RIGHT_LOBES:
        return place.lobe
    if side in ("右", "双") and place.segment in ONLY_LEFT_SEGMENTS:
        return place.segment
    return place.segment if side == "左" and place.segment in ONLY_RIGHT_SEGMENTS else ""
