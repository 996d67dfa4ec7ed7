"""A report as the rules see it: what it says is read once and shared; a section is read again only when a rule has changed its text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from pipeline.checking import CheckContext, RuleSet
from pipeline.model import Report
from pipeline.rules.dose import warning_spans
from pipeline.rules.extract import read
from pipeline.rules.lexicon import Lexicon, compiled
from pipeline.rules.mentions import Mention, Section

FINDINGS, IMPRESSION, ADVICE = "检查所见", "诊断意见", "建议"


@dataclass(frozen=True, slots=True, eq=False)
class Analysis:
    """What every rule gets: the report, the rules in force, what is known besides the text, and the typed sections. Known by identity."""

    report: Report
    ruleset: RuleSet
    context: CheckContext
    lexicon: Lexicon
    sections: Mapping[str, Section]
    shared: dict[str, object] = field(default_factory=dict)  # what one rule has worked out of it and others use again

    @property
    def findings(self) -> Section:
        """检查所见."""
        return self.sections[FINDINGS]

    @property
    def impression(self) -> Section:
        """诊断意见."""
        return self.sections[IMPRESSION]

    @property
    def advice(self) -> Section:
        """建议."""
        return self.sections[ADVICE]

    def mentions(self) -> Iterator[Mention]:
        """Every mention, section by section."""
        return (mention for section in self.sections.values() for mention in section.mentions)

    def observations(self) -> Iterator[Mention]:
        """Every finding, disease and device, section by section."""
        return (mention for mention in self.mentions() if mention.observed)

    def of(self, report: Report) -> Analysis:
        """The same for a report that a rule has edited."""
        if report is self.report:
            return self
        sections = {name: self._section(name, text) for name, text in report.sections().items()}
        return replace(self, report=report, sections=sections, shared={})

    def _section(self, name: str, text: str) -> Section:
        before = self.sections[name]
        return before if before.text == text else _read(name, text, self.lexicon, self.ruleset)


def analysed(report: Report, ruleset: RuleSet, context: CheckContext) -> Analysis:
    """Read a report. The lexicon is compiled when its rule set is first used."""
    lexicon = compiled(ruleset)
    sections = {name: _read(name, text, lexicon, ruleset) for name, text in report.sections().items()}
    return Analysis(report, ruleset, context, lexicon, sections)


def _read(name: str, text: str, lexicon: Lexicon, ruleset: RuleSet) -> Section:
    """The dose warning at the head of 建议 is this project's own text: no rule reads it."""
    behind = warning_spans(text, ruleset.dose) if name == ADVICE else ()
    return read(name, text, lexicon, behind[-1].end if behind else 0)
