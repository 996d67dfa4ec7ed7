"""Several images at one place: phases of one scan, told apart by what their headers say; what cannot be told apart is never mixed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pipeline import geometry
from pipeline.imaging.frames import Frame

RECONSTRUCTIONS = frozenset({"图像类型", "卷积核", "层厚", "管电压", "堆栈"})
FEW = 3  # groups this small are no phase of a scan unless there are just as many groups as images at a place

Key = Callable[[Frame], object]


@dataclass(frozen=True, slots=True)
class Phase:
    """One image a place; `by` says in Chinese what told it from the others."""

    members: tuple[int, ...]
    by: str

    @property
    def noun(self) -> str:
        """As a reader calls such parts: what differs by kernel, thickness or voltage is no phase."""
        return "组" if self.by in RECONSTRUCTIONS else "期"


def _field(*keywords: str) -> Key:
    def value(frame: Frame) -> object:
        return next((text for text in map(frame.header.text, keywords) if text), None)

    return value


def _number(*keywords: str) -> Key:
    def value(frame: Frame) -> object:
        return next((number for number in (frame.header.number(word, "H") for word in keywords) if number is not None), None)

    return value


# In the order in which they are tried. Times last: on some scanners every image has its own.
KEYS: tuple[tuple[str, Key], ...] = (
    ("采集号", lambda frame: frame.acquisition_number),
    ("时相", _number("TemporalPositionIndex", "TemporalPositionIdentifier")),
    ("心动期相", _number("NominalPercentageOfCardiacPhase", "TriggerTime")),
    ("图像类型", lambda frame: "\\".join(frame.image_type)),
    ("卷积核", _field("ConvolutionKernel")),
    ("层厚", _number("SliceThickness")),
    ("管电压", _number("KVP")),
    ("堆栈", _field("StackID")),
    ("采集时间", _field("FrameAcquisitionDateTime", "AcquisitionDateTime", "AcquisitionTime")),
    ("图像时间", _field("ContentTime")),
)


def phases(frames: Sequence[Frame], places: Sequence[Sequence[int]]) -> tuple[Phase, ...]:
    """Frames that share places, split so that each phase has one image a place; () where nothing tells them apart.

    `places` are the indexes of the frames at each place. A header value counts where it makes about as many groups as images share a place;
    where every place has the same number of images and no value counts, their order by InstanceNumber does.
    """
    most = max(map(len, places))
    for name, key in KEYS:
        groups = _groups(frames, key)
        if groups and _tells(groups, places, most):
            return tuple(Phase(tuple(group), name) for group in groups)
    return _ranked(frames, places, most)


def _groups(frames: Sequence[Frame], key: Key) -> list[list[int]]:
    """Indexes by value, in rising order of the value where it has one; [] where a frame has none."""
    found: dict[object, list[int]] = {}
    for index, frame in enumerate(frames):
        found.setdefault(key(frame), []).append(index)
    if None in found or len(found) < 2:
        return []
    return [found[value] for value in sorted(found, key=lambda value: (isinstance(value, str), value))]


def _tells(groups: Sequence[Sequence[int]], places: Sequence[Sequence[int]], most: int) -> bool:
    of_frame = {index: number for number, group in enumerate(groups) for index in group}
    alone = all(len({of_frame[index] for index in place}) == len(place) for place in places)
    return alone and (len(groups) == most or min(map(len, groups)) > FEW)


def _ranked(frames: Sequence[Frame], places: Sequence[Sequence[int]], most: int) -> tuple[Phase, ...]:
    """The n-th image of every place is the n-th phase, where each place has equally many and InstanceNumber follows the places in each phase."""
    numbers = [frame.instance_number for frame in frames]
    if len(places) < 2 or any(len(place) != most for place in places) or None in numbers or len(set(numbers)) < len(numbers):
        return ()
    ordered = [sorted(place, key=lambda index: frames[index].instance_number or 0) for place in places]
    ranks = [tuple(place[rank] for place in ordered) for rank in range(most)]
    if not all(_follow([frames[index].instance_number or 0 for index in rank]) for rank in ranks):
        return ()
    return tuple(Phase(rank, "图像序号") for rank in ranks)


def _follow(numbers: Sequence[int]) -> bool:
    """Numbers that rise, or fall, from place to place; others say nothing of phases."""
    return all(a < b for a, b in pairwise(numbers)) or all(a > b for a, b in pairwise(numbers))


def frames_of_reference(frames: Sequence[Frame]) -> tuple[tuple[int, ...], ...]:
    """Indexes of the frames of each frame of reference, where it means something: positions of two cannot be compared.

    Anonymisers give each slice one of its own; then they say nothing, and the positions are taken as they are.
    """
    groups = _groups(frames, lambda frame: frame.header.text("FrameOfReferenceUID"))
    if not groups or min(map(len, groups)) <= FEW:
        return (tuple(range(len(frames))),)
    return tuple(map(tuple, groups))


def along(frame: Frame) -> float:
    """Place in mm along the frame's own normal. It has position and orientation."""
    assert frame.cosines is not None
    assert frame.position_mm is not None
    return geometry.along(frame.cosines, frame.position_mm)
