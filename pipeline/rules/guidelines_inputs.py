"""What a report, its indication and the examinations before say of each lung nodule, as the inputs of a guideline."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from pipeline.checking import RuleSet
from pipeline.entry import Kind
from pipeline.guidance import Count, Course, Density, HistoryCue, Risk
from pipeline.rules.analysis import Analysis
from pipeline.rules.growth import Compared, Outcome, compared
from pipeline.rules.guidelines import Inputs
from pipeline.rules.lexicon import Lexicon
from pipeline.rules.measures import Measure
from pipeline.rules.mentions import Mention, Section
from pipeline.rules.spans import Matcher, folded

NODULE, LUNG_NODULE, LUNG, OPACITY = "结节", "肺结节", "肺", "磨玻璃影"
DENSITIES = {
    "部分实性结节": Density.PART_SOLID,
    "磨玻璃结节": Density.GROUND_GLASS,
    "实性结节": Density.SOLID,
    "部分实性": Density.PART_SOLID,
    "磨玻璃": Density.GROUND_GLASS,
    "纯磨玻璃": Density.GROUND_GLASS,
    "实性": Density.SOLID,
}
# nodules that the tables treat by their look, which the text does not tell well enough
SPECIAL = {
    "钙化结节": "钙化结节须核对是否为良性钙化，表中另列",
    "叶间裂结节": "叶间裂（近胸膜）结节须看形态，表中另列",
    "胸膜下结节": "胸膜下（近胸膜）结节须看形态，表中另列",
    "空洞结节": "空洞结节不在表中",
    "粟粒结节": "粟粒结节不在表中",
    "小叶中心结节": "小叶中心结节不在表中",
    "淋巴管周围结节": "淋巴管周围结节不在表中",
}
BENIGN_LOOK = {"钙化密度": SPECIAL["钙化结节"], "脂肪密度": "含脂肪的结节，表中另列"}
SUSPICIOUS = {"毛刺征", "毛刺", "分叶征", "分叶"}
UPPER = "上叶"
SAME_MM = 1.0
_SOLID_PART = re.compile(r"实性(?:成分|部分)[^，,。；;]*\Z")
_FOLLOWED = re.compile("复查|随访|随诊|复诊")
_COMPARED = re.compile("较前|较旧片|前片|原片|旧片|老片|原约|新增|前次|上次|与[^，。；]{0,20}(?:比较|对比|对照|相比)")
Answers = Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class Nodule:
    """One nodule (or group) that the text speaks of, what is known of it, and why no table is asked, where that is so."""

    mention: Mention
    inputs: Inputs
    special: str = ""


def nodules(analysis: Analysis) -> tuple[Nodule, ...]:
    """The lung nodules of 检查所见, or of 诊断意见 where that names none."""
    lexicon = analysis.lexicon
    found = _in(analysis.findings, lexicon) or _in(analysis.impression, lexicon)
    if not found:
        return ()
    history = _patient(analysis)
    counts = _counts(found, lexicon)
    courses = _Courses(analysis)
    return tuple(_nodule(one, lexicon, history, counts, courses, analysis.sections[one.section]) for one in found)


def _in(section: Section, lexicon: Lexicon) -> list[Mention]:
    return [one for one in section.mentions if one.observed and one.present and lexicon.is_a(one.term, NODULE) and _in_lung(one, lexicon)]


def _in_lung(mention: Mention, lexicon: Lexicon) -> bool:
    return lexicon.is_a(mention.term, LUNG_NODULE) or LUNG in {mention.organ, *(place.organ for place in mention.locations)}


def _nodule(mention: Mention, lexicon: Lexicon, history: Inputs, counts: Mapping[bool, Count | None], courses: _Courses, section: Section) -> Nodule:
    density = _density(mention, lexicon)
    sizes = mention.sizes or tuple(size for one in section.mentions if _looks_of(one, mention) for size in one.sizes)
    solid = [one for one in sizes if _SOLID_PART.search(section.text, mention.clause.start if one.start >= mention.clause.start else 0, one.start)]
    whole = [one for one in sizes if one not in solid]
    size, mean = _diameter(whole)
    inputs = replace(
        history,
        density=density,
        size_mm=size,
        mean=mean,
        solid_mm=_diameter(solid)[0],
        count=counts[density is Density.SOLID],
        course=courses.of(mention, size),
        risk=_risk(history.risk, mention),
    )
    return Nodule(mention, inputs, _special(mention, lexicon))


def _looks_of(other: Mention, nodule: Mention) -> bool:
    """部分实性结节，磨玻璃影内见实性成分，大小约14mm: the opacity is the nodule's own, in its sentence and place, and so is the size behind it."""
    return (
        other.term == OPACITY
        and other.present
        and other.start > nodule.start
        and other.sentence == nodule.sentence
        and other.locations == nodule.locations
    )


def _diameter(sizes: Sequence[Measure]) -> tuple[float | None, bool]:
    """The mean of long and short axis of the largest, and whether both are written."""
    largest = max(sizes, key=lambda one: one.largest_mm, default=None)
    if largest is None:
        return None, True
    axes = sorted(largest.values, reverse=True)[:2] if len(largest.values) < 3 else largest.values[:2]
    return round(sum(axes) / len(axes), 4), len(axes) == 2


def _density(mention: Mention, lexicon: Lexicon) -> Density | None:
    """By the nodule's own name, else by the one density that is said of it."""
    named = next((DENSITIES[above.term] for above in lexicon.above(mention.term) if above.term in DENSITIES), None)
    said = {DENSITIES[one.term] for one in mention.details if one.kind is Kind.DENSITY and one.term in DENSITIES and not one.negated}
    return named or (said.pop() if len(said) == 1 else None)


def _special(mention: Mention, lexicon: Lexicon) -> str:
    for above in lexicon.above(mention.term):
        if above.term in SPECIAL:
            return SPECIAL[above.term]
    return next((BENIGN_LOOK[one.term] for one in mention.details if one.term in BENIGN_LOOK and not one.negated), "")


def _counts(found: Sequence[Mention], lexicon: Lexicon) -> Mapping[bool, Count | None]:
    """For solid nodules and for the others. The tables do not say how nodules of both kinds side by side count: then it is unknown."""
    solid = [one for one in found if _density(one, lexicon) is Density.SOLID]
    if any(_many(one) for one in found):
        return {True: Count.MULTIPLE, False: Count.MULTIPLE}
    groups = {True: len(solid), False: len(found) - len(solid)}
    mixed = all(groups.values())
    return {key: Count.MULTIPLE if number > 1 else None if mixed else Count.SINGLE for key, number in groups.items()}


def _many(mention: Mention) -> bool:
    return mention.count is not None and mention.count != 1


def _risk(risk: Risk | None, mention: Mention) -> Risk | None:
    """A spiculated nodule or one of an upper lobe is not called low because its patient does not smoke."""
    looks = mention.lobe == UPPER or any(one.term in SUSPICIOUS and not one.negated for one in mention.details)
    return None if risk is Risk.LOW and looks else risk


def _patient(analysis: Analysis) -> Inputs:
    answers = history(analysis.ruleset, analysis.context.indication)

    def yes(name: str) -> bool | None:
        answer = answers.get(name)
        return None if answer is None else answer == "yes"

    risk = answers.get("risk")
    return Inputs(
        risk=Risk(risk) if risk else None,
        age_years=analysis.context.age_years,
        screening=yes("screening"),
        cancer=yes("cancer"),
        immunosuppressed=yes("immunosuppressed"),
    )


def history(ruleset: RuleSet, indication: str) -> Answers:
    """Input → what the indication says of it; None where it says nothing, or both."""
    text = folded(indication)
    matcher, cues = _cues(ruleset)
    said: dict[str, set[str]] = {}
    for span in matcher.longest(text) if text else ():
        for cue in cues[text[span.start : span.end]]:
            said.setdefault(cue.input, set()).add(cue.answer)
    return {name: next(iter(answers)) if len(answers) == 1 else None for name, answers in said.items()}


@lru_cache(maxsize=8)
def _cues(ruleset: RuleSet) -> tuple[Matcher, Mapping[str, Sequence[HistoryCue]]]:
    cues: dict[str, list[HistoryCue]] = {}
    for cue in ruleset.cues:
        for word in cue.words:
            cues.setdefault(folded(word), []).append(cue)
    return Matcher(cues), cues


class _Courses:
    """How the text's nodules compare with the examination before: by the structured finding that a nodule of the text is."""

    def __init__(self, analysis: Analysis) -> None:
        context = analysis.context
        text = f"{analysis.report.findings_text}\n{analysis.report.impression}"
        elsewhere = _FOLLOWED.search(context.indication) or _COMPARED.search(text)  # nobody here knows what that showed
        self._unseen = not context.has_prior and not context.priors
        self._first = self._unseen and elsewhere is None
        self._compared = () if self._unseen else compared(analysis.report, context, analysis.ruleset.growth)
        self._growth_mm = max((one.growth_mm for one in analysis.ruleset.guidelines if one.growth_mm is not None), default=0.0)

    def of(self, mention: Mention, size_mm: float | None) -> Course | None:
        """BASELINE without any prior; None where the nodule cannot be compared, or has grown by less than is certain."""
        if self._first:
            return Course.BASELINE
        found = [one for one in self._compared if _is(one, mention, size_mm)]
        return self._course(found[0]) if len(found) == 1 else None

    def _course(self, one: Compared) -> Course | None:
        if one.outcome is Outcome.NEW:
            return Course.NEW
        if one.outcome is Outcome.GROWN:
            return Course.GROWING
        if one.outcome is Outcome.SAME and one.before_mm is not None and one.now_mm - one.before_mm <= self._growth_mm:
            return Course.STABLE
        return None


def _is(one: Compared, mention: Mention, size_mm: float | None) -> bool:
    largest = mention.largest_mm
    sizes = [size for size in (size_mm, largest) if size is not None]
    near = any(abs(size - one.now_mm) <= SAME_MM for size in sizes)
    return near and mention.side == one.side and (not one.lobe or not mention.lobe or mention.lobe == one.lobe)
