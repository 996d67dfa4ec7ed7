"""What radiology describes: every region in the order in which it is read, each with its finding or the sentence that it is normal."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.training import phrases as say
from pipeline.training.scene import NOWHERE, Said, SaidLiver, SaidNode, Scene

LUNG_OF = {"左侧": "左肺", "右侧": "右肺", "双侧": "双肺"}


def describe(scene: Scene) -> str:
    """The whole description, sentence after sentence."""
    return " ".join([*_frame(scene), *_lungs(scene), *_chest(scene), *_abdomen(scene), say.BONE[scene.reason]])


def lesion_sentence(lesion: Said, place: int, scene: Scene) -> str:
    """One lesion, `place` 0 for the first of the list: side, lobe, density, size, margin, inside, surroundings."""
    large, verb, key = lesion.size_mm >= say.LARGE_MM, verb_at(place), key_of(lesion)
    if lesion.consolidated:
        return key + say.CONSOLIDATION[scene.reason].format(lung=lesion.lung, lobe=lesion.lobe, verb=verb, size=lesion.size_mm) + " 。"
    parts = [
        say.NODULE[scene.reason, large].format(lung=lesion.lung, lobe=lesion.lobe, verb=verb, density=lesion.density, size=lesion.size_mm),
        say.MARGIN_FORM[lesion.margin, large],
        say.CALCIFIED[large] if lesion.calcified else say.DENSITY_FORM[lesion.density, large],
        *([say.RETRACTION[large]] if lesion.retraction else []),
    ]
    return key + " ， ".join(parts) + " 。"


def key_of(listed: Said | SaidNode | SaidLiver) -> str:
    """What a sentence about something listed begins with: its proposal, so that reader and model find it in the list, the description and the
    impression."""
    return say.KEY.format(key=listed.candidate)


def verb_at(place: int) -> str:
    """见, then 另见, then 亦见."""
    return say.VERBS[min(place, len(say.VERBS) - 1)]


def spread_sentences(scene: Scene, emphysema: str, fibrosis: str) -> Iterator[str]:
    """Emphysema and fibrosis where there are any, each in its own sentence with {lung}."""
    if scene.emphysema != NOWHERE:
        yield emphysema.format(lung=LUNG_OF[scene.emphysema])
    if scene.fibrosis != NOWHERE:
        yield fibrosis.format(lung=LUNG_OF[scene.fibrosis])


def node_sentences(scene: Scene) -> Iterator[str]:
    """One for each enlarged node."""
    return (key_of(node) + say.NODE.format(verb=verb_at(place), size=node.size_mm) for place, node in enumerate(scene.nodes))


def liver_sentences(scene: Scene) -> Iterator[str]:
    """One for each lesion of the liver."""
    return (key_of(lesion) + say.LIVER[lesion.kind].format(verb=verb_at(place), size=lesion.size_mm) for place, lesion in enumerate(scene.liver))


def _frame(scene: Scene) -> Iterator[str]:
    if scene.low_dose:
        yield say.LOW_DOSE[scene.reason]
    if scene.contrast:
        yield say.CONTRAST[scene.reason]
    yield say.THORAX[scene.reason]


def _lungs(scene: Scene) -> Iterator[str]:
    if {scene.emphysema, scene.fibrosis} == {NOWHERE}:
        yield say.TEXTURE[scene.sharp, scene.low_dose]
    yield from spread_sentences(scene, say.EMPHYSEMA[scene.sharp], say.FIBROSIS[scene.sharp])
    yield from (lesion_sentence(lesion, place, scene) for place, lesion in enumerate(scene.lesions))
    yield (say.REST_CLEAR if scene.lesions else say.LUNGS_CLEAR)[scene.reason]
    if not scene.lesions:
        yield say.HILA_CLEAR


def _chest(scene: Scene) -> Iterator[str]:
    yield from node_sentences(scene)
    if not scene.nodes:
        yield say.MEDIASTINUM[scene.reason]
    yield say.HEART[scene.reason]
    seen = scene.effusion != NOWHERE
    yield say.EFFUSION_SEEN[scene.reason].format(side=scene.effusion) if seen else say.EFFUSION_UNSEEN[scene.reason]


def _abdomen(scene: Scene) -> Iterator[str]:
    yield from liver_sentences(scene)
    yield say.SPLEEN if scene.liver else say.ABDOMEN[scene.reason]
