"""From what a phantom holds and what the encoder proposed to the report that the language model learns to write.

Only what follows from the truth is said: phrases are chosen by conditions (density, size, dose, why the scan was asked for), never at random, so
that the best next token is never a tie. Lesions that the encoder did not propose are left out: the model must not learn to invent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pipeline.drafting.departments import RADIOLOGY
from pipeline.drafting.schema import ADVICE, DESCRIPTION, FINDINGS, IMPRESSION, SECTIONS, dumps
from pipeline.model import Candidate
from pipeline.training.departments import VOICES
from pipeline.training.phantom import Truth
from pipeline.training.reasons import Reason
from pipeline.training.scene import Said, Scene, scene

NODE_SITE = "纵隔"


def pair(candidates: Sequence[Candidate], truth: Truth, department: str = RADIOLOGY, reason: Reason = Reason.UNKNOWN) -> dict[str, Any]:
    """The report of one scan as the schema's object. Sizes are the proposals' measures, every other word is the truth's."""
    return report(scene(candidates, truth, reason), department)


def report(seen: Scene, department: str) -> dict[str, Any]:
    """The whole report of a department."""
    voice = VOICES[department]
    described = findings(seen) | {DESCRIPTION: spaceless(voice.describe(seen))}
    return {FINDINGS: described, IMPRESSION: spaceless(voice.conclude(seen)), ADVICE: spaceless(voice.advise(seen))}


def answers(seen: Scene, department: str) -> tuple[str, ...]:
    """The JSON answer of each section, in the order of SECTIONS."""
    voice = VOICES[department]
    texts = dict(zip(SECTIONS[1:], (voice.describe, voice.conclude, voice.advise), strict=True))
    return (dumps(findings(seen)), *(dumps({section: spaceless(write(seen))}) for section, write in texts.items()))


def findings(seen: Scene) -> dict[str, Any]:
    """The frozen findings, which are the same for every department."""
    return {
        "病灶": [_item(lesion) for lesion in seen.lesions],
        "淋巴结": [{"候选": node.candidate, "部位": NODE_SITE, "短径mm": node.size_mm} for node in seen.nodes],
        "肝脏": [{"候选": lesion.candidate, "类型": lesion.kind, "大小mm": lesion.size_mm} for lesion in seen.liver],
        "胸腔积液": seen.effusion,
        "肺气肿": seen.emphysema,
        "纤维化": seen.fibrosis,
    }


def spaceless(words: str) -> str:
    """The text without the spaces that mark the words."""
    return "".join(words.split())


def _item(lesion: Said) -> dict[str, object]:
    return {
        "候选": lesion.candidate,
        "类型": lesion.kind,
        "侧别": lesion.lung,
        "肺叶": lesion.lobe,
        "密度": lesion.density,
        "大小mm": lesion.size_mm,
        "边缘": lesion.margin,
        "内部结构": "钙化" if lesion.calcified else "均匀",
        "周围改变": "胸膜牵拉" if lesion.retraction else "无",
    }
