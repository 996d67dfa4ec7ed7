"""From what a report states to its impression, numbered in the order of its list, and to its advice; both follow from the findings alone.

The list has the largest lesion first; what is no lung lesion follows by its kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pipeline.training.phrases import (
    ADVICE,
    ADVICE_DIFFUSE,
    ADVICE_EFFUSION,
    ADVICE_LIVER,
    ADVICE_NODE,
    ADVICE_OF,
    CALCIUM,
    CONCLUDED_CONSOLIDATION,
    CONCLUDED_NODULE,
    CONCLUDED_SUSPECT,
    CONCLUDED_WITH,
    IMPRESSION_EFFUSION,
    IMPRESSION_EMPHYSEMA,
    IMPRESSION_FIBROSIS,
    IMPRESSION_LIVER,
    IMPRESSION_NODE,
    NORMAL_IMPRESSION,
)
from pipeline.training.radiology import key_of
from pipeline.training.reasons import Reason
from pipeline.training.scene import NOWHERE, Said, Scene

SUSPECT, INFLAMED, SOON = 5, 4, 3


def urgency_of(lesion: Said) -> int:
    """How soon one lesion is looked at again: index into ADVICE, from its density, its size and what speaks for malignancy."""
    if lesion.consolidated:
        return INFLAMED
    if lesion.calcified and not lesion.signs:
        return 0
    if lesion.density == "磨玻璃":
        usual = 2 if lesion.size_mm >= 6 else 1
        return SOON if lesion.signs and usual == 2 else usual
    if lesion.signs and lesion.size_mm >= 8:
        return SUSPECT
    if lesion.density == "部分实性":
        return SOON if lesion.size_mm >= 6 else 1
    return 1 if lesion.size_mm < 6 else 2 if lesion.size_mm < 9 else SOON


def most_urgent(scene: Scene) -> int:
    """Of all lesions; 0 where there is none."""
    return max(map(urgency_of, scene.lesions), default=0)


def impression(scene: Scene) -> str:
    """The numbered conclusions of radiology."""
    return numbered([*(concluded(lesion, scene.reason) for lesion in scene.lesions), *others(scene)], NORMAL_IMPRESSION[scene.contrast][scene.reason])


def concluded(lesion: Said, reason: Reason) -> str:
    """One lesion as radiology concludes on it."""
    key = key_of(lesion)
    place = {"lung": lesion.lung, "lobe": lesion.lobe, "size": lesion.size_mm}
    if lesion.consolidated:
        return key + CONCLUDED_CONSOLIDATION.format(**place)
    besides = [*lesion.signs, *([CALCIUM] if lesion.calcified else [])]
    told = CONCLUDED_WITH.format(signs=" 、 ".join(besides)) if besides else ""
    doubt = CONCLUDED_SUSPECT if urgency_of(lesion) == SUSPECT else ""
    return key + CONCLUDED_NODULE[reason].format(**place, density=lesion.density, told=f"{told}{doubt}")


def others(scene: Scene) -> Iterator[str]:
    """The conclusions on everything that is no lung lesion."""
    yield from (key_of(node) + IMPRESSION_NODE.format(size=node.size_mm) for node in scene.nodes)
    if scene.effusion != NOWHERE:
        yield IMPRESSION_EFFUSION.format(side=scene.effusion)
    if scene.fibrosis != NOWHERE:
        yield IMPRESSION_FIBROSIS[scene.fibrosis]
    if scene.emphysema != NOWHERE:
        yield IMPRESSION_EMPHYSEMA[scene.emphysema]
    yield from (key_of(lesion) + IMPRESSION_LIVER[lesion.kind].format(size=lesion.size_mm) for lesion in scene.liver)


def numbered(sentences: Iterable[str], normal: str) -> str:
    """Each sentence behind its number; the normal one where there is none."""
    return " ".join(f"{number}. {line}" for number, line in enumerate(list(sentences) or [normal], 1))


def advice(scene: Scene) -> str:
    """What is to be done, the most urgent first."""
    urgency = most_urgent(scene)
    lines = [ADVICE[urgency]] if scene.lesions or scene.clear else []
    lines += [ADVICE_NODE] if scene.nodes and urgency != SUSPECT else []
    lines += [ADVICE_EFFUSION] if scene.effusion != NOWHERE else []
    lines += [ADVICE_DIFFUSE] if {scene.emphysema, scene.fibrosis} != {NOWHERE} else []
    lines += dict.fromkeys(ADVICE_LIVER[lesion.kind] for lesion in scene.liver)
    lines += [ADVICE_OF[scene.reason]] if not scene.clear and scene.reason in ADVICE_OF else []
    return " ".join(lines)
