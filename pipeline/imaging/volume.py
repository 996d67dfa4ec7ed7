"""One CT series → one volume in HU with its geometry. Position along the slice normal is the truth, never InstanceNumber or SliceLocation."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydicom import Dataset
from pydicom.tag import BaseTag

from pipeline.errors import UnreadableDicom, Unsupported
from pipeline.imaging.acquisition import Acquisition, acquisition
from pipeline.imaging.frames import Frame, frames_of
from pipeline.imaging.pixels import AIR_HU, Hu, hounsfield, refuse_colour
from pipeline.imaging.stack import Stack, named, stacks_of
from pipeline.imaging.stored import MAX_VOXELS, refuse_volume
from pipeline.imaging.tilt import Shift, grown, shift_of, straightened

__all__ = ["AIR_HU", "Acquisition", "Hu", "Volume", "acquisition", "read_stack", "read_volume"]

ROUNDING_MM = 1e-6  # a point of the first or last slice is in it, whatever its sums were rounded to
Tilt = Literal["resample", "refuse"]
ODD = (TypeError, ValueError, IndexError, AttributeError, KeyError, OverflowError, RecursionError)


@dataclass(frozen=True)
class Volume:
    """HU on a grid that is regular in plane. Voxel (z, y, x) lies at `origin_mm + along_mm[z]·axes[0] + y·step_y·axes[1] + x·step_x·axes[2]` in
    patient LPS; where slices are missing, `along_mm` says so and values between are interpolated over the true distance."""

    hu: Hu  # (Z, Y, X)
    spacing_mm: tuple[float, float, float]  # z (median step), y, x
    along_mm: NDArray[np.float64]  # (Z,) distance of each slice from the first along the normal, rising from 0
    origin_mm: tuple[float, float, float]
    axes: NDArray[np.float64]  # (3, 3): unit vectors of z, y, x in LPS
    sop_uids: tuple[str, ...]  # per slice
    acquisition: Acquisition
    flags: tuple[str, ...] = ()
    frames: tuple[int, ...] = ()  # frame number per slice in its object, 1-based; () is the same as 1 for every slice
    lossy: bool = False

    def nearest(self, point_mm: Sequence[float] | NDArray[np.float64]) -> int:
        """z of the slice nearest to a point (LPS, mm), also beyond the ends."""
        along = float((np.asarray(point_mm) - np.asarray(self.origin_mm)) @ self.axes[0])
        return int(np.argmin(np.abs(self.along_mm - along)))

    def named(self, z: int) -> tuple[str, int]:
        """SOP Instance UID and frame number (1-based) of a slice."""
        return self.sop_uids[z], self.frames[z] if self.frames else 1

    def to_patient(self, index: NDArray[np.float64]) -> NDArray[np.float64]:
        """Voxel coordinates (…, 3) as z, y, x → patient LPS in mm (…, 3)."""
        z_mm = np.interp(index[..., 0], np.arange(len(self.along_mm)), self.along_mm)
        offset = np.stack([z_mm, index[..., 1] * self.spacing_mm[1], index[..., 2] * self.spacing_mm[2]], axis=-1)
        return np.asarray(self.origin_mm) + offset @ self.axes

    def to_index(self, point_mm: NDArray[np.float64]) -> NDArray[np.float64]:
        """Patient LPS in mm (…, 3) → voxel coordinates (…, 3) as z, y, x; beyond the first and last slice z leaves the array."""
        offset = (point_mm - np.asarray(self.origin_mm)) @ self.axes.T
        last = len(self.along_mm)
        inside = np.clip(offset[..., 0], self.along_mm[0], self.along_mm[-1])
        z_mm = np.where(np.abs(inside - offset[..., 0]) < ROUNDING_MM, inside, offset[..., 0])
        z = np.interp(z_mm, self.along_mm, np.arange(last), left=-2.0, right=last + 1.0)
        return np.stack([z, offset[..., 1] / self.spacing_mm[1], offset[..., 2] / self.spacing_mm[2]], axis=-1)


def read_volume(paths: Sequence[Path], *, tilt: Tilt = "resample", workers: int | None = None, max_voxels: int = MAX_VOXELS) -> Volume:
    """Read the one volume of a series: classic, Enhanced or Legacy Converted Enhanced CT. Of several phases, the largest first one, with a flag.

    Raises Unsupported (no volume: why and where), UnreadableDicom or BadInput, or Permanent where pixels cannot be decoded or are too many.
    """
    try:
        stacks = stacks_of([frame for path in paths for frame in frames_of(path)])
        stack = _the_one(stacks)
        return read_stack(stack, tilt=tilt, workers=workers, max_voxels=max_voxels)
    except ODD as error:
        raise UnreadableDicom(
            f"the geometry or rescale values of the series cannot be understood ({type(error).__name__}); mend the sender and send it again"
        ) from error


def read_stack(stack: Stack, *, tilt: Tilt = "resample", workers: int | None = None, max_voxels: int = MAX_VOXELS) -> Volume:
    """The volume of one stack. Raises as `read_volume`."""
    if stack.fault:
        raise stack.fault
    if stack.reason:
        raise Unsupported(stack.reason)
    frames = stack.frames
    row, column = np.array(frames[0].cosines).reshape(2, 3)  # (3,) each
    spacing_mm = frames[0].spacing_mm or (1.0, 1.0)
    shift = shift_of_frames(frames)
    if not shift.straight and tilt == "refuse":
        raise Unsupported(f"{shift.sentence()}，按设置不读")
    _refuse_size(frames, shift, spacing_mm, max_voxels)
    hu = hounsfield(frames, workers)
    volume = Volume(
        hu=hu,
        spacing_mm=(stack.step_mm, *spacing_mm),
        along_mm=np.asarray(shift.along_mm - shift.along_mm[0]),
        origin_mm=_vector(np.array(frames[0].position_mm)),
        axes=np.stack([np.cross(row, column), column, row]),
        sop_uids=tuple(frame.sop_uid for frame in frames),
        acquisition=_acquisition(frames[0]),
        flags=(*stack.flags, *_pixel_flags(frames)),
        frames=tuple(frame.number for frame in frames),
        lossy=any(frame.pixels is not None and frame.pixels.lossy for frame in frames),
    )
    return volume if shift.straight else _upright(volume, shift)


def shift_of_frames(frames: Sequence[Frame]) -> Shift:
    """How far each slice lies beside the first. Every frame has a place, in one orientation."""
    row, column = np.array(frames[0].cosines).reshape(2, 3)  # (3,) each
    return shift_of(np.array([frame.position_mm for frame in frames]), row, column)


def _upright(volume: Volume, shift: Shift) -> Volume:
    """The same volume on a rectangular grid."""
    spacing_mm = (volume.spacing_mm[1], volume.spacing_mm[2])
    origin = np.asarray(volume.origin_mm) + shift.down_mm.min() * volume.axes[1] + shift.across_mm.min() * volume.axes[2]
    flag = f"{shift.sentence()}，已在层面内移位重采样为直角网格"
    return replace(volume, hu=straightened(volume.hu, shift, spacing_mm), origin_mm=_vector(origin), flags=(*volume.flags, flag))


def _refuse_size(frames: Sequence[Frame], shift: Shift, spacing_mm: tuple[float, float], max_voxels: int) -> None:
    """Before memory is taken: one grey value a pixel, and no more voxels than allowed, shifted or not."""
    pixels = [frame.pixels for frame in frames if frame.pixels is not None]
    for one in pixels:
        refuse_colour(one)
    shape = (len(pixels), pixels[0].rows, pixels[0].columns)
    refuse_volume(*shape, max_voxels)
    wide = grown(shift, shape, spacing_mm)
    if not shift.straight and wide[1] * wide[2] > 4 * shape[1] * shape[2]:
        raise Unsupported(f"{shift.sentence()}，超出图像范围，不构成容积")
    refuse_volume(*wide, max_voxels)


def _the_one(stacks: Sequence[Stack]) -> Stack:
    """The stack that is the volume, with a flag for what beside it is not read. Raises Unsupported with the reasons where there is none."""
    good = [stack for stack in stacks if not stack.reason]
    if not good and (fault := next((stack.fault for stack in stacks if stack.fault), None)):
        raise fault
    if not good:
        raise Unsupported("；".join(dict.fromkeys(_orientations(stacks) or [stack.reason for stack in stacks])) or "没有图像")
    if (several := len({stack.frames[0].series_uid for stack in stacks})) > 1:
        raise Unsupported(f"给出的图像属于 {several} 个序列（{len(good)} 个容积可读），一次只读一个序列")
    if told := _orientations(stacks):
        raise Unsupported(told[0])
    beside = [named(stack) for stack in stacks if stack is not good[0]]
    return replace(good[0], flags=(*good[0].flags, f"同一序列另有 {'、'.join(beside)}，未读")) if beside else good[0]


def _orientations(stacks: Sequence[Stack]) -> list[str]:
    """The reason where one series has planes of several orientations."""
    planes = [stack for stack in stacks if stack.along_mm]
    normals = {stack.frames[0].cosines for stack in planes}
    if len(planes) < 2 or all(np.allclose(one or (), planes[0].frames[0].cosines or (), atol=1e-3) for one in normals):
        return []
    return [f"序列内层面方向不一致（{'，'.join(named(stack) for stack in planes)}），不构成容积"]


def _acquisition(frame: Frame) -> Acquisition:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about values that are written against the standard: they read as absent
        return acquisition(Dataset({BaseTag(tag): element for tag, element in frame.header.elements.items()}))


def _pixel_flags(frames: Sequence[Frame]) -> tuple[str, ...]:
    flags = []
    if lossy := [frame.pixels for frame in frames if frame.pixels is not None and frame.pixels.lossy]:
        methods = "、".join(dict.fromkeys(pixels.syntax.name.split(" (")[0] if pixels.compressed else "压缩后还原" for pixels in lossy))
        flags.append(f"图像经有损压缩（{methods}），CT 值与细节可能失真")
    if bare := sum(not (frame.header.texts("RescaleIntercept") or frame.header.items("ModalityLUTSequence")) for frame in frames):
        flags.append(f"{bare} 层没有 RescaleIntercept，存储值按 HU 读取")
    return tuple(flags)


def _vector(values: NDArray[np.float64]) -> tuple[float, float, float]:
    return float(values[0]), float(values[1]), float(values[2])
