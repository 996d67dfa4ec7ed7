"""From what a phantom holds and what the encoder proposed to the report that the language model learns to write.

Only what follows from the truth is said: phrases are chosen by conditions (density, size, low dose), never at random, so that the best
next token is never a tie. Lesions that the encoder did not propose are left out: the model must not learn to invent.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import dist
from typing import Any

from pipeline.model import Candidate
from pipeline.training.phantom import Lesion, Truth
from pipeline.training.phrases import (
    ADVICE,
    ADVICE_EFFUSION,
    DENSITY_FORM,
    EFFUSION_NAMES,
    EFFUSION_SEEN,
    EFFUSION_UNSEEN,
    LOW_DOSE,
    LUNGS_CLEAR,
    MEDIASTINUM,
    NORMAL_IMPRESSION,
    THORAX,
)

MATCH_MM = 10.0  # a proposal this near, or within half the lesion's size, is that lesion


@dataclass(frozen=True, slots=True)
class Said:
    """One lesion as the report states it."""

    candidate: int
    kind: str
    lung: str
    lobe: str
    density: str
    size_mm: int


def match(candidates: Sequence[Candidate], lesions: Sequence[Lesion]) -> dict[int, Lesion]:
    """Candidate index → lesion, nearest pairs first, each used once, in the order of the candidates."""
    pairs = sorted(
        (dist(candidate.center_mm, lesion.center_mm), candidate.index, number)
        for candidate in candidates
        for number, lesion in enumerate(lesions)
        if dist(candidate.center_mm, lesion.center_mm) <= max(MATCH_MM, lesion.size_mm / 2)
    )
    found: dict[int, int] = {}
    for _, index, number in pairs:
        if index not in found and number not in found.values():
            found[index] = number
    return {index: lesions[found[index]] for index in sorted(found)}


def pair(candidates: Sequence[Candidate], truth: Truth) -> dict[str, Any]:
    """The report of one scan as the schema's object. Sizes are the proposals' measures, every other word is the truth's."""
    measured = {candidate.index: candidate.size_mm for candidate in candidates}
    said = [
        Said(index, lesion.kind, f"{lesion.side}肺", lesion.lobe, lesion.density, _whole_mm(measured[index]))
        for index, lesion in match(candidates, truth.lesions).items()
    ]
    effusion = EFFUSION_NAMES[truth.effusion]
    findings = {
        "病灶": [_item(lesion) for lesion in said],
        "胸腔积液": effusion,
        "描述": _describe(said, effusion, truth.low_dose),
    }
    return {"检查所见": findings, "诊断意见": _impression(said, effusion), "建议": _advice(said, effusion)}


def _whole_mm(size_mm: float) -> int:
    return min(140, max(1, round(size_mm)))


def _item(lesion: Said) -> dict[str, object]:
    return {
        "候选": lesion.candidate,
        "类型": lesion.kind,
        "侧别": lesion.lung,
        "肺叶": lesion.lobe,
        "密度": lesion.density,
        "大小mm": lesion.size_mm,
    }


def _describe(said: Sequence[Said], effusion: str, low_dose: bool) -> str:
    lines = [LOW_DOSE] if low_dose else []
    lines += [THORAX, *(_sentence(lesion) for lesion in said)]
    lines += [] if said else [LUNGS_CLEAR]
    lines += [MEDIASTINUM, EFFUSION_UNSEEN if effusion == "无" else EFFUSION_SEEN.format(side=effusion)]
    return _join(lines)


def _sentence(lesion: Said) -> str:
    form = "片状 实变 影" if lesion.kind == "实变" else DENSITY_FORM[lesion.density]
    measure = "范围" if lesion.kind == "实变" else "大小"
    return f"{lesion.lung} {lesion.lobe} 见 {form} ， {measure} 约 {lesion.size_mm} mm 。"


def _impression(said: Sequence[Said], effusion: str) -> str:
    lines = [f"{lesion.lung} {lesion.lobe} {_name(lesion)} ， 约 {lesion.size_mm} mm 。" for lesion in said]
    lines += [] if effusion == "无" else [f"{effusion} 胸腔积液 。"]
    return _join(f"{number}. {line}" for number, line in enumerate(lines or [NORMAL_IMPRESSION], 1))


def _name(lesion: Said) -> str:
    return "实变" if lesion.kind == "实变" else f"{lesion.density} 结节"


def _advice(said: Sequence[Said], effusion: str) -> str:
    urgency = max((urgency_of(lesion) for lesion in said), default=0)
    lines = [] if urgency == 0 and effusion != "无" else [ADVICE[urgency]]
    return _join([*lines, *([] if effusion == "无" else [ADVICE_EFFUSION])])


def urgency_of(lesion: Said) -> int:
    """How soon one lesion is looked at again: index into ADVICE, from its density and size."""
    if lesion.kind == "实变":
        return 4
    if lesion.density == "实性":
        return 1 if lesion.size_mm < 6 else 2 if lesion.size_mm < 9 else 3
    if lesion.density == "部分实性":
        return 3 if lesion.size_mm >= 6 else 1
    return 2 if lesion.size_mm >= 6 else 1


def _join(lines: Iterable[str]) -> str:
    """Sentences without the spaces that mark the words."""
    return "".join("".join(line.split()) for line in lines)
