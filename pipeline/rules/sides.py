"""Sides and lobes that the impression names must stand in the findings text as well."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from pipeline.model import CheckContext, Hit, Report, RuleSet, Severity
from pipeline.rules.outcome import Outcome
from pipeline.rules.spans import Span, clauses

ID, VERSION = "side.impression", 1
SECTION = "诊断意见"
LUNG, PLEURA = "肺", "胸腔"
# 左肺上叶, 左上肺, 左上叶 (lobe), 左肺 (lung), 左侧胸腔, 左胸腔 (pleura)
_PLACE = re.compile(r"(?P<side>[左右双两])侧?(?:(?P<pleura>胸腔)|肺?(?P<lobe>[上中下])(?:肺叶|叶|肺)|(?P<lung>肺))")
_ABSENT = re.compile(r"未见|未发现|无(?!法)|清晰|正常|对称|通畅")


@dataclass(frozen=True, slots=True)
class Place:
    """One side of the lungs (with a lobe, or None) or of the pleural space."""

    organ: str
    side: str
    lobe: str | None

    def covers(self, other: Place) -> bool:
        """True when both may be the same place: a lobe that one of them leaves open fits."""
        return (self.organ, self.side) == (other.organ, other.side) and (self.lobe == other.lobe or None in (self.lobe, other.lobe))


def agree(report: Report, ruleset: RuleSet, context: CheckContext) -> Outcome:
    """A place with something found in the impression that the findings do not have is flagged."""
    described = {place for place, _ in places(report.findings_text)}
    hits = []
    for place, span in places(report.impression):
        if not any(known.covers(place) for known in described):
            named = report.impression[span.start : span.end]
            message = f"诊断意见写「{named}」，检查所见没有相应的{place.side}侧描述，请核对侧别"
            hits.append(Hit(ID, VERSION, Severity.FLAG, SECTION, span.start, span.end, message))
    return Outcome(report, tuple(dict.fromkeys(hits)))


def places(text: str) -> Iterator[tuple[Place, Span]]:
    """Places where the text finds something, with their spans; clauses that say that nothing is there are left out."""
    for clause in clauses(text):
        if _ABSENT.search(text, clause.start, clause.end):
            continue
        for match in _PLACE.finditer(text, clause.start, clause.end):
            organ = PLEURA if match["pleura"] else LUNG
            for side in "左右" if match["side"] in "双两" else match["side"]:
                yield Place(organ, side, match["lobe"]), Span(match.start(), match.end())
