"""Required sections are present and hold words."""

from __future__ import annotations

from pipeline.model import CheckContext, Hit, Report, RuleSet, Severity
from pipeline.rules.outcome import Outcome

ID, VERSION = "section.empty", 1


def required(report: Report, ruleset: RuleSet, context: CheckContext) -> Outcome:
    """A section without a letter, digit or Chinese character blocks the report."""
    empty = [name for name, text in report.sections().items() if not any(c.isalnum() for c in text)]
    return Outcome(report, tuple(Hit(ID, VERSION, Severity.BLOCK, name, 0, 0, f"「{name}」为空，请补写后再签发") for name in empty))
