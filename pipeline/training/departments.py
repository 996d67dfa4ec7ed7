"""The same frozen findings in the words of each department: description, impression and advice."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from pipeline.drafting.departments import ONCOLOGY, PULMONOLOGY, RADIOLOGY
from pipeline.training import phrases as say
from pipeline.training import phrases_departments as dept
from pipeline.training.conclusions import SUSPECT, advice, impression, numbered, others, urgency_of
from pipeline.training.radiology import LUNG_OF, describe, key_of, liver_sentences, node_sentences, spread_sentences, verb_at
from pipeline.training.radiology import lesion_sentence as radiology_lesion
from pipeline.training.reasons import Reason
from pipeline.training.scene import NOWHERE, Said, Scene


@dataclass(frozen=True, slots=True)
class Voice:
    """How one department writes. Every function gives words with spaces between them."""

    lesion: Callable[[Said, int, Scene], str]  # the sentence about one lesion of the list
    describe: Callable[[Scene], str]
    conclude: Callable[[Scene], str]
    advise: Callable[[Scene], str]


def oncology_lesion(lesion: Said, place: int, _: Scene) -> str:
    """Place, size, and what speaks for malignancy."""
    values, key = _place(lesion) | {"verb": verb_at(place)}, key_of(lesion)
    if lesion.consolidated:
        return key + dept.ONCOLOGY_CONSOLIDATION.format(**values) + " 。"
    signs = dept.SIGNS_SEEN.format(signs=" 、 ".join(lesion.signs)) if lesion.signs else dept.SIGNS_UNSEEN
    inside = f" ， {dept.ONCOLOGY_CALCIFIED}" if lesion.calcified else ""
    return f"{key}{dept.ONCOLOGY_NODULE.format(**values)}{inside} ， {signs} 。"


def pulmonology_lesion(lesion: Said, _: int, __: Scene) -> str:
    """Place, size, risk and when to look again."""
    urgency, values = urgency_of(lesion), _place(lesion)
    told = dept.PULMONOLOGY_CONSOLIDATION if lesion.consolidated else dept.PULMONOLOGY_NODULE
    return key_of(lesion) + told.format(**values, risk=dept.RISKS[urgency], follow=dept.FOLLOWS[urgency]) + " 。"


def _oncology(scene: Scene) -> Iterator[str]:
    yield from (oncology_lesion(lesion, place, scene) for place, lesion in enumerate(scene.lesions))
    yield from [say.REST_CLEAR[scene.reason]] if scene.lesions else [dept.ONCOLOGY_CLEAR, dept.ONCOLOGY_BESIDES]
    yield from node_sentences(scene)
    if not scene.nodes:
        yield dept.ONCOLOGY_NODES_UNSEEN
    yield from spread_sentences(scene, say.EMPHYSEMA[scene.sharp], say.FIBROSIS[scene.sharp])
    yield dept.ONCOLOGY_EFFUSION[scene.effusion != NOWHERE].format(side=scene.effusion)
    yield from liver_sentences(scene)
    if not scene.liver:
        yield dept.ONCOLOGY_LIVER_CLEAR
    yield dept.ONCOLOGY_BONE
    if scene.lesions:
        yield dept.STAGING.format(items=" ， ".join(_staging(scene)))


def _staging(scene: Scene) -> Iterator[str]:
    yield dept.STAGING_SIZE.format(size=max(lesion.size_mm for lesion in scene.lesions))
    yield dept.STAGING_NODES[bool(scene.nodes)].format(size=max((node.size_mm for node in scene.nodes), default=0))
    yield dept.STAGING_FLUID[scene.effusion != NOWHERE].format(side=scene.effusion)


def _pulmonology(scene: Scene) -> Iterator[str]:
    yield dept.PULMONOLOGY_AIRWAYS
    yield from (pulmonology_lesion(lesion, place, scene) for place, lesion in enumerate(scene.lesions))
    if not scene.lesions:
        yield dept.PULMONOLOGY_CLEAR
        yield dept.PULMONOLOGY_BESIDES
    yield dept.PULMONOLOGY_EMPHYSEMA[scene.emphysema != NOWHERE].format(lung=LUNG_OF.get(scene.emphysema, ""))
    yield dept.PULMONOLOGY_FIBROSIS[scene.fibrosis != NOWHERE].format(lung=LUNG_OF.get(scene.fibrosis, ""))
    yield from node_sentences(scene)
    if not scene.nodes:
        yield dept.PULMONOLOGY_NODES_UNSEEN
    yield dept.PULMONOLOGY_EFFUSION[scene.effusion != NOWHERE].format(side=scene.effusion)
    yield from liver_sentences(scene)


def _conclude_oncology(scene: Scene) -> str:
    return numbered([*(_suspicion(lesion, scene.reason) for lesion in scene.lesions), *others(scene)], dept.ONCOLOGY_NORMAL)


def _suspicion(lesion: Said, reason: Reason) -> str:
    if lesion.consolidated:
        return key_of(lesion) + dept.ONCOLOGY_CONSOLIDATED.format(**_place(lesion))
    doubt = say.CONCLUDED_SUSPECT if urgency_of(lesion) == SUSPECT else ""
    return key_of(lesion) + say.CONCLUDED_NODULE[reason].format(**_place(lesion), told=doubt)


def _conclude_pulmonology(scene: Scene) -> str:
    return numbered([*(_risk(lesion, scene.reason) for lesion in scene.lesions), *others(scene)], dept.PULMONOLOGY_NORMAL)


def _risk(lesion: Said, reason: Reason) -> str:
    if lesion.consolidated:
        return key_of(lesion) + say.CONCLUDED_CONSOLIDATION.format(**_place(lesion))
    return key_of(lesion) + say.CONCLUDED_NODULE[reason].format(
        **_place(lesion), told=dept.PULMONOLOGY_CONCLUDED.format(risk=dept.RISKS[urgency_of(lesion)])
    )


def _place(lesion: Said) -> dict[str, object]:
    return {"lung": lesion.lung, "lobe": lesion.lobe, "density": lesion.density, "size": lesion.size_mm}


VOICES: Mapping[str, Voice] = {
    RADIOLOGY: Voice(radiology_lesion, describe, impression, advice),
    ONCOLOGY: Voice(oncology_lesion, lambda scene: " ".join(_oncology(scene)), _conclude_oncology, advice),
    PULMONOLOGY: Voice(pulmonology_lesion, lambda scene: " ".join(_pulmonology(scene)), _conclude_pulmonology, advice),
}
