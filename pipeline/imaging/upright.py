"""A volume turned so that its array axes run superior, posterior and left: permuted and flipped, never resampled."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
from numpy.typing import NDArray

from pipeline import geometry
from pipeline.errors import Unsupported
from pipeline.imaging.volume import Volume


def upright(volume: Volume) -> Volume:
    """The same voxels at the same patient coordinates; the array is a view. Raises Unsupported where slices are not axial."""
    if abs(float(volume.axes[0][2])) < geometry.AXIAL_COSINE:
        raise Unsupported("序列不是轴位")
    turned = _transposed(volume) if abs(float(volume.axes[1][0])) > abs(float(volume.axes[1][1])) else volume
    for axis, patient_axis in enumerate((2, 1, 0)):
        if turned.axes[axis][patient_axis] < 0:
            turned = _flipped(turned, axis)
    return turned


def _transposed(volume: Volume) -> Volume:
    z, y, x = volume.spacing_mm
    return replace(volume, hu=volume.hu.transpose(0, 2, 1), spacing_mm=(z, x, y), axes=volume.axes[[0, 2, 1]])


def _flipped(volume: Volume, axis: int) -> Volume:
    """One array axis the other way round; what stands per slice turns with the slices."""
    last = np.zeros(3)
    last[axis] = volume.hu.shape[axis] - 1
    origin = volume.to_patient(last)
    axes: NDArray[np.float64] = volume.axes.copy()
    axes[axis] *= -1
    flipped = replace(volume, hu=np.flip(volume.hu, axis), origin_mm=(float(origin[0]), float(origin[1]), float(origin[2])), axes=axes)
    if axis > 0:
        return flipped
    per_slice = {f.name: getattr(volume, f.name)[::-1] for f in fields(volume) if f.name in ("sop_uids", "frames")}
    return replace(flipped, along_mm=volume.along_mm[-1] - volume.along_mm[::-1], **per_slice)
