"""What any set of files holds: every stack, read or refused, with its reason, place and number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline import geometry
from pipeline.errors import Permanent
from pipeline.imaging.frames import Frame, frames_of
from pipeline.imaging.kinds import Kind
from pipeline.imaging.stack import Stack, stacks_of
from pipeline.imaging.stored import MAX_VOXELS
from pipeline.imaging.volume import ODD, Tilt, Volume, read_stack, shift_of_frames


@dataclass(frozen=True, slots=True)
class Surveyed:
    """One stack. Shape and spacing are z, y, x; direction holds the unit vectors of z, y, x in patient LPS."""

    series_uid: str
    series_number: int | None
    accepted: bool
    reason: str
    kind: Kind
    images: int
    shape: tuple[int, ...] = ()
    spacing_mm: tuple[float, ...] = ()
    origin_mm: tuple[float, ...] = ()
    direction: tuple[tuple[float, ...], ...] = ()
    hu_min: float | None = None
    hu_max: float | None = None
    gaps: tuple[tuple[int, int], ...] = ()  # after which slice, how many are missing
    flags: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """As `ctreport volume --json` writes it."""
        return {
            "series_uid": self.series_uid,
            "series_number": self.series_number,
            "accepted": self.accepted,
            "reason": self.reason,
            "kind": self.kind.value,
            "images": self.images,
            "shape": list(self.shape),
            "spacing_mm": list(self.spacing_mm),
            "origin_mm": list(self.origin_mm),
            "direction": [list(axis) for axis in self.direction],
            "hu_min": self.hu_min,
            "hu_max": self.hu_max,
            "gaps": [{"after": after, "missing": missing} for after, missing in self.gaps],
            "flags": list(self.flags),
        }


def survey(paths: Sequence[Path], *, tilt: Tilt = "resample", workers: int | None = None, max_voxels: int = MAX_VOXELS) -> tuple[Surveyed, ...]:
    """Every stack in the files, the readable ones first; files that cannot be read are counted by reason. Raises nothing of theirs."""
    frames: list[Frame] = []
    unreadable: dict[str, int] = {}
    for path in paths:
        try:
            frames.extend(frames_of(path))
        except Permanent as error:
            unreadable[str(error)] = unreadable.get(str(error), 0) + 1
    found = [_surveyed(stack, tilt, workers, max_voxels) for stack in stacks_of(frames)]
    found += [Surveyed("", None, False, reason, Kind.UNREADABLE, count) for reason, count in unreadable.items()]
    return tuple(sorted(found, key=lambda one: not one.accepted))


def files_in(paths: Sequence[Path]) -> Iterator[Path]:
    """The files themselves, and every file below the folders; hidden ones are left out."""
    for path in paths:
        if path.is_dir():
            yield from sorted(one for one in path.rglob("*") if one.is_file() and not one.name.startswith("."))
        else:
            yield path


def _surveyed(stack: Stack, tilt: Tilt, workers: int | None, max_voxels: int) -> Surveyed:
    if stack.reason:
        return _told(stack, stack.reason)
    try:
        return _told(stack, "", read_stack(stack, tilt=tilt, workers=workers, max_voxels=max_voxels))
    except Permanent as error:
        return _told(stack, str(error))
    except ODD as error:
        return _told(stack, f"geometry or rescale values cannot be understood ({type(error).__name__})")


def _told(stack: Stack, reason: str, volume: Volume | None = None) -> Surveyed:
    first = stack.frames[0]
    own = (*stack.flags, *_leaning(stack)) if volume is None else volume.flags
    return Surveyed(
        series_uid=first.series_uid,
        series_number=first.series_number,
        accepted=volume is not None,
        reason=reason,
        kind=stack.kind,
        images=len(stack.frames),
        shape=_claimed_shape(stack) if volume is None else volume.hu.shape,
        spacing_mm=_claimed_spacing(stack) if volume is None else volume.spacing_mm,
        origin_mm=(first.position_mm or ()) if volume is None else volume.origin_mm,
        direction=_direction(stack),
        hu_min=None if volume is None else float(volume.hu.min()),
        hu_max=None if volume is None else float(volume.hu.max()),
        gaps=tuple((hole.after, hole.missing) for hole in stack.holes),
        flags=(*_missing(stack), *own),
    )


def _missing(stack: Stack) -> tuple[str, ...]:
    """The sum of what is missing, by the number of its series."""
    if not (count := sum(hole.missing for hole in stack.holes)):
        return ()
    number = stack.frames[0].series_number
    return (f"{'本' if number is None else f'第 {number} '}序列{'缺' if stack.even else '疑缺'} {count} 层",)


def _leaning(stack: Stack) -> tuple[str, ...]:
    """A tilt is told of a stack that is too small to be read as well."""
    if not stack.step_mm:
        return ()
    shift = shift_of_frames(stack.frames)
    return () if shift.straight else (shift.sentence(),)


def _direction(stack: Stack) -> tuple[tuple[float, ...], ...]:
    """Unit vectors of z, y, x."""
    cosines = stack.frames[0].cosines
    return () if cosines is None or not stack.along_mm else (geometry.normal(cosines), cosines[3:], cosines[:3])


def _claimed_shape(stack: Stack) -> tuple[int, ...]:
    pixels = stack.frames[0].pixels
    return () if pixels is None else (len(stack.frames), pixels.rows, pixels.columns)


def _claimed_spacing(stack: Stack) -> tuple[float, ...]:
    spacing = stack.frames[0].spacing_mm
    return () if spacing is None or not stack.step_mm else (stack.step_mm, *spacing)
