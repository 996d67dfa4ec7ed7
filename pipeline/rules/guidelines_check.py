"""Guidelines over a report: suggestions that a reader sees beside the draft, and why there is none. They never change the text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pipeline.checking import Hit
from pipeline.model import Severity
from pipeline.rules.analysis import Analysis
from pipeline.rules.guidelines import Refusal, Suggestion, suggest
from pipeline.rules.guidelines_inputs import Nodule, nodules
from pipeline.rules.guidelines_refused import Refused, sentence

ID, VERSION = "guideline.suggestion", 1
REFUSED_ID, REFUSED_VERSION = "guideline.refusal", 1


def asked(analysis: Analysis) -> tuple[Hit, ...]:
    """One flag per guideline row that fits a nodule, at the first such nodule; and one for all that could not be suggested."""
    hits: dict[tuple[str, str], Hit] = {}
    refused: list[Refused] = []
    answers = tuple(_answers(analysis))
    for nodule, answer in answers:
        if isinstance(answer, Suggestion):
            hits.setdefault((answer.guideline.id, answer.row.id), _hit(nodule, answer))
        else:
            refused.append((nodule, answer))
    return (*hits.values(), *_refused(refused, len({nodule.mention.start for nodule, _ in answers})))


def _refused(refused: Sequence[Refused], nodules: int) -> Iterator[Hit]:
    for nodule, _ in refused[:1]:
        mention, message = nodule.mention, sentence(refused, nodules)
        yield Hit(REFUSED_ID, REFUSED_VERSION, Severity.FLAG, mention.section, mention.start, mention.end, message)


def _answers(analysis: Analysis) -> Iterator[tuple[Nodule, Suggestion | Refusal]]:
    if not any(guideline.enabled for guideline in analysis.ruleset.guidelines):
        return
    for nodule in nodules(analysis):
        for guideline in analysis.ruleset.guidelines:
            answer = suggest(guideline, nodule.inputs)
            if nodule.special and answer is not None:
                answer = Refusal(guideline, reason=nodule.special)
            if answer is not None:
                yield nodule, answer


def _hit(nodule: Nodule, answer: Suggestion) -> Hit:
    category = f" {answer.row.category} 类" if answer.row.category else ""
    source = f"{answer.guideline.source}；{answer.row.source}"
    message = f"【指南建议，供参考】{answer.guideline.name}{category}：{answer.row.advice}。依据：{answer.used}。出处：{source}"
    mention = nodule.mention
    return Hit(ID, VERSION, Severity.FLAG, mention.section, mention.start, mention.end, message)
