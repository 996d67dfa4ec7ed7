"""Required sections are present and hold words of their own."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pipeline.checking import CheckContext, Hit, RuleSet
from pipeline.model import Report, Severity
from pipeline.rules.outcome import Outcome

ID, VERSION = "section.empty", 2
ADVICE = "建议"
# a section of nothing but one of these points elsewhere or was left to be filled in; 无 is an advice, and neither findings nor impression
_FILLER = re.compile(
    r"[\W_]*(?:(?:从|省)?略|[详请参]{0,2}[见如同](?:上|(?:以上|上面|前|前面|上)?(?:述|所述|文|描述|内容|(?:检查|影像)?所见|诊断(?:意见)?|报告))|待(?:补|补充|填|填写|写|完善|续)"
    r"|(?:请|需)(?:补充|填写|补写)|空白?|N/?A|NULL|NONE|NIL|TBD|X{2,})[\W_]*",
    re.IGNORECASE,
)
_NOTHING = re.compile(r"[\W_]*(?:暂?无)[\W_]*")
_LONGEST = 20  # characters; nothing longer is tried


def required(report: Report, ruleset: RuleSet, context: CheckContext) -> Outcome:
    """A section without a letter, digit or Chinese character, or with a filler for its text, blocks the report."""
    return Outcome(report, tuple(_hits(report)))


def _hits(report: Report) -> Iterator[Hit]:
    for name, text in report.sections().items():
        if not any(c.isalnum() for c in text):
            yield Hit(ID, VERSION, Severity.BLOCK, name, 0, 0, f"「{name}」为空，请补写后再签发")
        elif len(text) <= _LONGEST and (_FILLER.fullmatch(text) or (name != ADVICE and _NOTHING.fullmatch(text))):
            yield Hit(ID, VERSION, Severity.BLOCK, name, 0, len(text), f"「{name}」仅写「{text.strip()}」，没有实际内容，请补写后再签发")
