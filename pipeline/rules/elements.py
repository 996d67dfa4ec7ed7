"""What a report holds of each finding besides what its drafter wrote: where each element is from, and what follows from it. Pure; changes no text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from pipeline.checking import CheckContext, Elements, Grading, RuleSet
from pipeline.entry import Kind
from pipeline.model import Candidate, Finding, Report
from pipeline.rules.advised import advice_for
from pipeline.rules.analysis import Analysis, analysed
from pipeline.rules.grounding import MEASURED, differences
from pipeline.rules.guidelines import Suggestion, suggest
from pipeline.rules.guidelines_inputs import Nodule, nodules
from pipeline.rules.listed import described
from pipeline.rules.malignancy import malignancy
from pipeline.rules.mentions import Mention
from pipeline.rules.spread import SPREADS, sides_of

BY_IMAGE, BY_DRAFTER, BY_TEXT, BY_GUIDELINE, BY_FORMULA = "measured", "draft", "text", "guideline", "formula"
CALCIFIED, RETRACTED = "钙化", "胸膜牵拉"


def elements(report: Report, ruleset: RuleSet, context: CheckContext) -> tuple[Elements, ...]:
    """One for each finding of a report that the rules have edited, in its order."""
    if not report.findings:
        return ()
    analysis = analysed(report, ruleset, context)
    spoken = _spoken(analysis)
    graded = {one.mention: one for one in nodules(analysis)}
    return tuple(_of(position, finding, analysis, spoken.get(position), graded) for position, finding in enumerate(report.findings))


def _of(position: int, finding: Finding, analysis: Analysis, mention: Mention | None, graded: Mapping[Mention, Nodule]) -> Elements:
    seen = _candidate(finding, analysis.context)
    grading = _grading(graded.get(mention), analysis.ruleset) if mention is not None else None
    own = advice_for(finding, analysis)
    probability = malignancy(finding, seen, analysis) if seen is not None else None
    told = {"segment": _segment(mention), "shape": _detail(mention, Kind.SHAPE), "enhancement": _enhancement(mention, analysis.context)}
    sources = dict(_sources(finding, seen, analysis.context))
    sources |= {name: BY_TEXT for name, value in told.items() if value is not None}
    advice = own or (grading.advice if grading is not None else None)
    sources |= {"advice": BY_DRAFTER if own else BY_GUIDELINE} if advice else {}
    sources |= {"grading": BY_GUIDELINE} if grading is not None else {}
    sources |= {"malignancy": BY_FORMULA} if probability is not None else {}
    found = Elements(told["segment"], told["shape"], told["enhancement"], advice, grading, probability, sources=sources)
    if seen is None or seen.slice_sop_uid is None:
        return found
    return replace(found, slice_sop_uid=seen.slice_sop_uid, slice_frame=seen.slice_frame)


def _spoken(analysis: Analysis) -> dict[int, Mention]:
    """Place of a finding in the list → what 描述 says of it alone; a statement about several says nothing of one."""
    pairs = described(analysis).pairs if analysis.lexicon.terms else ()
    alone = [pair for pair in pairs if sum(other.stated is pair.stated for other in pairs) == 1]
    places = {id(finding): position for position, finding in enumerate(analysis.report.findings)}
    return {places[id(pair.finding)]: pair.stated.mention for pair in alone}


def _candidate(finding: Finding, context: CheckContext) -> Candidate | None:
    return next((one for one in context.candidates if one.index == finding.candidate), None)


def _sources(finding: Finding, seen: Candidate | None, context: CheckContext) -> Iterator[tuple[str, str]]:
    """Measured where the images give what is written, else the drafter's word alone."""
    if finding.kind not in MEASURED:
        shown = next((one.seen(context) for one in SPREADS if one.kind == finding.kind), None)
        same = shown is not None and sides_of(finding.side) == frozenset(side.value for side in shown)
        yield "site", BY_IMAGE if same else BY_DRAFTER
        return
    wrong = frozenset(differences(finding, seen)) if seen is not None else frozenset()
    looks = _looks(seen) if seen is not None else {}
    yield "site", BY_DRAFTER if seen is None or wrong & {"side", "lobe"} or (finding.lobe and seen.lobe is None) else BY_IMAGE
    if finding.size_mm is not None:
        yield "size_mm", BY_DRAFTER if seen is None or "size" in wrong else BY_IMAGE
    for name in ("density", "margin", "internal", "surround"):
        value = getattr(finding, name)
        if value is not None:
            yield name, BY_IMAGE if looks.get(name) == value else BY_DRAFTER


def _looks(seen: Candidate) -> dict[str, str | None]:
    """What was measured of a region, in the words of the list; None where nobody measured."""
    internal = None if seen.calcified is None else CALCIFIED if seen.calcified else "均匀"
    surround = None if seen.retraction is None else RETRACTED if seen.retraction else "无"
    return {"density": seen.density, "margin": seen.margin, "internal": internal, "surround": surround}


def _segment(mention: Mention | None) -> str | None:
    return (mention.segment or None) if mention is not None else None


def _detail(mention: Mention | None, kind: Kind) -> str | None:
    details = mention.details if mention is not None else ()
    return next((one.term for one in details if one.kind is kind and not one.negated), None)


def _enhancement(mention: Mention | None, context: CheckContext) -> str | None:
    """A scan without contrast agent, or of which nobody knows, shows none."""
    return _detail(mention, Kind.ENHANCEMENT) if context.contrast else None


def _grading(nodule: Nodule | None, ruleset: RuleSet) -> Grading | None:
    """The first guideline that names a class, else the first that advises; None where none answers for this nodule."""
    if nodule is None or nodule.special:
        return None
    answers = [suggest(guideline, nodule.inputs) for guideline in ruleset.guidelines]
    found = [answer for answer in answers if isinstance(answer, Suggestion)]
    best = next((answer for answer in found if answer.row.category), found[0] if found else None)
    if best is None:
        return None
    guideline, row = best.guideline, best.row
    return Grading(guideline.name, row.id, row.category, row.advice, best.used, f"{guideline.source}；{row.source}")
