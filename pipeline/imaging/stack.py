"""Images → stacks: what belongs together, in order, and what is wrong with it, told with place and number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from pipeline import geometry
from pipeline.errors import Permanent
from pipeline.geometry import Run, Spacing
from pipeline.imaging.frames import Frame
from pipeline.imaging.kinds import NAMES, NO_VOLUME, Kind, kind_of
from pipeline.imaging.phases import along, frames_of_reference, phases
from pipeline.imaging.pixels import hounsfield

MIN_SLICES = 8
MIN_PIXEL_MM, MAX_PIXEL_MM = 0.02, 10.0
MAX_FIELD_MM, MAX_LENGTH_MM = 1200.0, 3000.0  # no gantry is wider, no patient longer; whoever resamples to millimetres takes memory for it
BOLUS_PLACES = 2
BOLUS_IMAGES = 3
NEEDED = (("position_mm", "ImagePositionPatient"), ("cosines", "ImageOrientationPatient"), ("spacing_mm", "PixelSpacing"))


@dataclass(frozen=True, slots=True)
class Hole:
    """Slices missing after slice `after` (1-based from the low end of the normal). `numbers` are the InstanceNumbers on both sides, as viewers show
    them: they may run the other way."""

    after: int
    missing: int
    step_mm: float
    numbers: tuple[int, int] | None = None

    def __str__(self) -> str:
        place = f"第 {self.after} 层后" if self.numbers is None else f"图像 {self.numbers[0]} 与 {self.numbers[1]} 之间"
        return f"{place}间距 {self.step_mm:.1f} mm，疑缺 {self.missing} 层"


@dataclass(frozen=True)
class Stack:
    """Images of one series in one plane, rising along their normal. `reason` says why they are no volume; empty: they are one."""

    kind: Kind
    frames: tuple[Frame, ...]
    reason: str = ""
    along_mm: tuple[float, ...] = ()  # of each frame; () without geometry
    step_mm: float = 0.0  # the median one
    even: bool = False
    holes: tuple[Hole, ...] = ()
    flags: tuple[str, ...] = ()
    fault: Permanent | None = None  # pixels that cannot be read, where they had to be looked at already


def stacks_of(frames: Sequence[Frame], min_slices: int = MIN_SLICES) -> tuple[Stack, ...]:
    """Every frame in just one stack; those that may be read come first, reformats after others, the larger before the smaller."""
    found = [stack for series in _by(frames, lambda frame: frame.series_uid) for stack in _series(series, min_slices)]
    return tuple(sorted(found, key=lambda stack: (stack.reason != "", stack.kind is Kind.REFORMAT, -len(stack.frames))))


def _by(frames: Iterable[Frame], key: object) -> list[list[Frame]]:
    assert callable(key)
    groups: dict[object, list[Frame]] = {}
    for frame in frames:
        groups.setdefault(key(frame), []).append(frame)
    return list(groups.values())


def _series(frames: Sequence[Frame], min_slices: int) -> Iterable[Stack]:
    for alike in _by(frames, lambda frame: _family(kind_of(frame))):
        kind = Counter(map(kind_of, alike)).most_common(1)[0][0]
        if kind in NO_VOLUME:
            yield Stack(kind, tuple(alike), NO_VOLUME[kind])
        elif absent := next((name for field, name in NEEDED if any(getattr(frame, field) is None for frame in alike)), ""):
            yield Stack(kind, tuple(alike), f"图像缺少 {absent}，无法确定层面位置")
        else:
            yield from _planes(alike, min_slices)


def _family(kind: Kind) -> object:
    """Planes are told apart by their orientation, later and more sharply than by name."""
    return kind if kind in NO_VOLUME or kind is Kind.REFORMAT else None


def _planes(frames: Sequence[Frame], min_slices: int) -> Iterable[Stack]:
    for comparable in frames_of_reference(frames):
        chosen = [frames[index] for index in comparable]
        for group in geometry.by_orientation([frame.cosines or () for frame in chosen]):
            yield from _one_plane([chosen[index] for index in group], min_slices)


def _one_plane(frames: Sequence[Frame], min_slices: int) -> Iterable[Stack]:
    unique = {(frame.sop_uid or id(frame), frame.number, frame.position_mm): frame for frame in frames}  # the same object twice is one
    ordered = sorted(unique.values(), key=lambda frame: (along(frame), frame.instance_number or 0))
    kind = kind_of(ordered[0])
    told = ("重组或后处理图像，不是原始重建",) if kind is Kind.REFORMAT else ()
    stack = Stack(kind, tuple(ordered), along_mm=tuple(map(along, ordered)), flags=told)
    if reason := _mixed(ordered):
        yield replace(stack, reason=reason)
        return
    places = geometry.by_place(stack.along_mm)
    if len(places) == len(ordered):
        yield _judged(stack, min_slices)
    else:
        yield from _apart(stack, places, min_slices)


def _mixed(frames: Sequence[Frame]) -> str:
    """Matrix and pixel spacing must be those of every slice."""
    sizes = [f"{frame.pixels.rows}×{frame.pixels.columns}" for frame in frames if frame.pixels is not None]
    if len(set(sizes)) > 1:
        return f"序列内矩阵大小不一致：{_counted(sizes)}"
    spacings = [frame.spacing_mm for frame in frames if frame.spacing_mm is not None]
    if not all(MIN_PIXEL_MM <= value <= MAX_PIXEL_MM for spacing in spacings for value in spacing):
        return f"像素间距不合理：{_counted([f'{rows:.4g}×{columns:.4g} mm' for rows, columns in spacings])}，不构成容积"
    if (field := _field_mm(frames)) > MAX_FIELD_MM:
        return f"视野 {field:.0f} mm 不合理（PixelSpacing 或矩阵有误），不构成容积"
    if np.ptp(np.array(spacings), axis=0).max() > geometry.COSINE_TOLERANCE * min(spacings[0]):
        return f"序列内像素间距不一致：{_counted([f'{rows:.4g}×{columns:.4g} mm' for rows, columns in spacings])}"
    return ""


def _field_mm(frames: Sequence[Frame]) -> float:
    """The longest side of any slice."""
    known = [(frame.pixels, frame.spacing_mm) for frame in frames if frame.pixels is not None and frame.spacing_mm is not None]
    return max((max(pixels.rows * rows, pixels.columns * columns) for pixels, (rows, columns) in known), default=0.0)


def _counted(words: Sequence[str]) -> str:
    """Each word with its number, and where the rarer ones stand."""
    ordered = Counter(words).most_common()
    told = [f"{ordered[0][0]} {ordered[0][1]} 层"]
    for word, count in ordered[1:]:
        first = [str(index + 1) for index, other in enumerate(words) if other == word][:3]
        told.append(f"{word} {count} 层（第 {'、'.join(first)}{' …' if count > len(first) else ''} 层）")
    return "，".join(told)


def _apart(stack: Stack, places: Sequence[Sequence[int]], min_slices: int) -> Iterable[Stack]:
    """Several images at one place: bolus tracking, phases, or doubles."""
    most = max(map(len, places))
    if len(places) <= BOLUS_PLACES and most >= BOLUS_IMAGES:
        yield replace(stack, kind=Kind.BOLUS, reason=f"{most} 层位于同一位置（定点追踪），不构成容积")
        return
    if found := phases(stack.frames, places):
        for number, phase in enumerate(found, start=1):
            members = sorted(phase.members)
            flag = f"同一位置有 {most} 幅图像，按{phase.by}分为 {len(found)} {phase.noun}，此为第 {number} {phase.noun}"
            part = Stack(
                stack.kind, tuple(stack.frames[i] for i in members), along_mm=tuple(stack.along_mm[i] for i in members), flags=(*stack.flags, flag)
            )
            yield _judged(part, min_slices)
        return
    yield _without_doubles(stack, places, min_slices)


def _without_doubles(stack: Stack, places: Sequence[Sequence[int]], min_slices: int) -> Stack:
    """Images that are pixel for pixel the same count once; others at one place are refused, never averaged."""
    repeated = [(number, place) for number, place in enumerate(places, start=1) if len(place) > 1]
    extra = sum(len(place) - 1 for _, place in repeated)
    try:
        alike = 2 * len(repeated) <= len(places) and all(_same([stack.frames[i] for i in place]) for _, place in repeated)
    except Permanent as error:  # their pixels cannot be read: this stack's fault, and no other's
        return replace(stack, reason=str(error), fault=error)
    if not alike:
        where = f"第 {'、'.join(str(number) for number, _ in repeated[:3])}{' …' if len(repeated) > 3 else ''} 层"
        told = f"{extra + 1} 层位于同一位置" if len(repeated) == 1 else f"{len(repeated)} 处各有多层位于同一位置，共多出 {extra} 层"
        return replace(stack, reason=f"{told}（{where}；重复、多期或定点追踪），不构成单一容积")
    kept = [place[0] for place in places]
    flags = tuple(f"第 {number} 层有 {len(place)} 幅相同的图像，取其一" for number, place in repeated)
    return _judged(_part(stack, kept, *flags), min_slices)


def _part(stack: Stack, members: Sequence[int], *flags: str) -> Stack:
    """Some images of a stack, in their order."""
    frames, alongs = tuple(stack.frames[i] for i in members), tuple(stack.along_mm[i] for i in members)
    return Stack(stack.kind, frames, along_mm=alongs, flags=(*stack.flags, *flags))


def _same(frames: Sequence[Frame]) -> bool:
    hu = hounsfield(frames, workers=1)
    return bool((hu == hu[:1]).all())


def _judged(stack: Stack, min_slices: int) -> Stack:
    """One image a place: are there enough, and what is missing between them?"""
    numbers = [frame.instance_number for frame in stack.frames]
    if (spacing := geometry.spacing(stack.along_mm, numbers)) is None:
        return replace(stack, reason=_few(1, min_slices) if min_slices > 1 else "")
    mixed = geometry.lasting_runs(stack.along_mm)
    holes = tuple(_shown(hole, numbers) for hole in _holes(stack.along_mm, spacing, mixed))
    reason = _few(len(stack.frames), min_slices) if len(stack.frames) < min_slices else ""
    if not reason and geometry.torn(stack.along_mm):
        reason = f"缺层过多（{'；'.join(map(str, holes))}），不构成容积"
    if not reason and (length := stack.along_mm[-1] - stack.along_mm[0]) > MAX_LENGTH_MM:
        reason = f"层面范围 {length:.0f} mm 不合理（ImagePositionPatient 有误），不构成容积"
    told = (f"层间距不一致：{'，'.join(f'第 {run.first}–{run.last} 层 {run.step_mm:.1f} mm' for run in mixed)}",) if mixed else ()
    flags = (*stack.flags, *told, *map(str, holes))
    return replace(stack, reason=reason, step_mm=spacing.step_mm, even=spacing.even or bool(mixed), holes=holes, flags=flags)


def _few(count: int, min_slices: int) -> str:
    return f"序列仅 {count} 层，少于 {min_slices} 层，不构成容积"


def _shown(hole: Hole, numbers: Sequence[int | None]) -> Hole:
    before, behind = numbers[hole.after - 1], numbers[hole.after]
    return hole if before is None or behind is None or before == behind else replace(hole, numbers=(before, behind))


def _holes(alongs: Sequence[float], spacing: Spacing, mixed: Sequence[Run]) -> tuple[Hole, ...]:
    """Wide steps. In a series of two steps, those that are wide beside the run before or after them."""
    if not mixed:
        return tuple(Hole(hole.after, hole.missing, hole.step_mm) for hole in spacing.holes)
    found = []
    for after, (low, high) in enumerate(pairwise(alongs), start=1):
        beside = max((run.step_mm for run in mixed if run.last == after or run.first == after + 1), default=0.0)
        if beside and high - low >= geometry.WIDE * beside and not any(run.first <= after < run.last for run in mixed):
            found.append(Hole(after, max(1, round((high - low) / beside) - 1), high - low))
    return tuple(found)


def named(stack: Stack) -> str:
    """What a stack is, with its number of images, for a sentence."""
    return f"{NAMES[stack.kind]} {len(stack.frames)} 幅"
