"""Sides and lobes that the impression names must stand in the findings as well."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pipeline.checking import Hit
from pipeline.model import Severity
from pipeline.rules.analysis import IMPRESSION, Analysis
from pipeline.rules.mentions import Location
from pipeline.rules.said import clause_at, past, region_of, said, sides_of

ID, VERSION = "side.impression", 2
EVERYWHERE = frozenset({"肺", "胸膜腔"})  # always described: a place of theirs that the findings do not have is told even without a contradiction
BOTH = ("右", "左")
OTHER = {"左": "右", "右": "左"}


def agree(analysis: Analysis) -> tuple[Hit, ...]:
    """A place with something found in the impression that the findings do not have is flagged; one that they have on the other side only blocks."""
    known = said(analysis)
    described: dict[str, list[Location]] = {}
    for one in known.described:
        if one.side:
            described.setdefault(region_of(one.organ), []).append(one)
    hits: dict[Hit, None] = {}
    for place in known.concluded:
        region = region_of(place.organ)
        same = described.get(region, [])
        if not place.side or (not same and region not in EVERYWHERE):
            continue
        for side in BOTH if place.side == "双" else (place.side,):
            if not any(_covers(one, place, side) for one in same) and not _past(analysis, place):
                hits[_hit(analysis, place, side, same)] = None
    return tuple(hits)


def _past(analysis: Analysis, place: Location) -> bool:
    return past(analysis.impression, clause_at(analysis.impression, place.start))


def _covers(described: Location, concluded: Location, side: str) -> bool:
    """True when both may be the same place: what one of them leaves open fits."""
    lobes = not described.lobe or not concluded.lobe or described.lobe == concluded.lobe
    segments = not described.segment or not concluded.segment or described.segment == concluded.segment
    return described.side in (side, "双") and lobes and segments


def _hit(analysis: Analysis, place: Location, side: str, described: Sequence[Location]) -> Hit:
    named = analysis.impression.text[place.start : place.end]
    wrong = place.side != "双" and side not in sides_of(described) and _on(OTHER[side], place, described)
    severity = Severity.BLOCK if wrong else Severity.FLAG
    seen = f"检查所见仅描述{OTHER[side]}侧" if wrong else f"检查所见没有相应的{side}侧描述"
    return Hit(ID, VERSION, severity, IMPRESSION, place.start, place.end, f"诊断意见写「{named}」，{seen}，请核对侧别")


def _on(side: str, place: Location, described: Iterable[Location]) -> bool:
    return any(_covers(one, place, side) for one in described)
