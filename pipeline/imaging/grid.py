"""Values of a volume on another grid whose axes are superior, posterior, left: averaged where it is coarser, interpolated where it is finer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage, sparse

from pipeline.imaging.volume import Volume

ALIGNED_COSINE = 0.99995  # half a degree: 2 mm at the edge of a chest
SLAB = 16  # planes sampled at once

Places = NDArray[np.float64]  # mm along one patient axis, rising
Rows = Callable[[Places, Places], Any]  # places of voxels, places wanted → sparse matrix (wanted, voxels)


@dataclass(frozen=True)
class Grid:
    """Values at `low_mm + (x, y, z) · step`, patient LPS."""

    hu: NDArray[np.float32]  # (Z, Y, X)
    low_mm: tuple[float, float, float]  # x, y, z of voxel (0, 0, 0)
    step_mm: tuple[float, float, float]  # z, y, x

    def to_patient(self, index: NDArray[np.float64]) -> NDArray[np.float64]:
        """Voxel coordinates (…, 3) as z, y, x → LPS in mm (…, 3) as x, y, z."""
        return np.asarray(np.asarray(self.low_mm) + np.asarray(index)[..., ::-1] * np.asarray(self.step_mm)[::-1], dtype=np.float64)


def bounds(volume: Volume) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Lowest and highest patient coordinate of any voxel centre, (3,) each as x, y, z."""
    corners = np.array([[z, y, x] for z in (0, 1) for y in (0, 1) for x in (0, 1)]) * (np.array(volume.hu.shape) - 1)
    points = volume.to_patient(corners.astype(float))  # (8, 3)
    return points.min(axis=0), points.max(axis=0)


def averaged(volume: Volume, low_mm: NDArray[np.float64], high_mm: NDArray[np.float64], step_mm: tuple[float, float, float]) -> Grid:
    """The mean over each voxel of a grid that fills a box, given as x, y, z; `step_mm` as z, y, x."""
    x, y, z = (np.arange(a, b + s / 2, s) for a, b, s in zip(low_mm, high_mm, step_mm[::-1], strict=True))
    hu = separable(volume, z, y, x, mean_rows) if is_aligned(volume) else sampled(volume, volume.hu, z, y, x)
    return Grid(hu, (float(low_mm[0]), float(low_mm[1]), float(low_mm[2])), step_mm)


def sampled(volume: Volume, hu: NDArray[Any], z_mm: Places, y_mm: Places, x_mm: Places) -> NDArray[np.float32]:
    """Linear interpolation at the grid of patient coordinates; (len z, len y, len x). Outside, the volume's border repeats: an edge to air where a
    scan ends would look like a finding."""
    found = np.empty((len(z_mm), len(y_mm), len(x_mm)), dtype=np.float32)
    for first in range(0, len(z_mm), SLAB):  # coordinates take ten times the memory of what they give
        part = slice(first, first + SLAB)
        ndimage.map_coordinates(hu, index_at(volume, z_mm[part], y_mm, x_mm), output=found[part], order=1, mode="nearest")
    return found


def index_at(volume: Volume, z_mm: Places, y_mm: Places, x_mm: Places) -> NDArray[np.float64]:
    """Voxel coordinates z, y, x of a grid of patient coordinates, (3, len z, len y, len x)."""
    points = np.stack(np.broadcast_arrays(x_mm[None, None, :], y_mm[None, :, None], z_mm[:, None, None]), axis=-1)
    return np.moveaxis(volume.to_index(points), -1, 0)


def is_aligned(volume: Volume, cosine: float = ALIGNED_COSINE) -> bool:
    """Each array axis runs along a patient axis, either way, but for a small angle."""
    return bool((np.abs(volume.axes).max(axis=1) > cosine).all())


def separable(volume: Volume, z_mm: Places, y_mm: Places, x_mm: Places, rows: Rows) -> NDArray[np.float32]:
    """An aligned volume at a grid of patient coordinates, (len z, len y, len x); `rows` says how much each voxel of a line counts.

    Slice by slice, so that no second array of the volume's size is made.
    """
    wanted = {0: x_mm, 1: y_mm, 2: z_mm}
    runs = [int(axis) for axis in np.abs(volume.axes).argmax(axis=1)]  # patient axis (x, y, z) of each array axis
    first, second, third = (_matrix(volume, axis, wanted[run], rows) for axis, run in enumerate(runs))
    used = np.unique(first.indices)
    planes = np.zeros((len(volume.hu), second.shape[0], third.shape[0]), dtype=np.float32)
    for k in used:
        plane = second @ volume.hu[k].astype(np.float32)  # (wanted, columns)
        planes[k] = (third @ plane.T).T
    found = (first @ planes.reshape(len(planes), -1)).reshape(-1, *planes.shape[1:])
    return np.ascontiguousarray(found.transpose([runs.index(2), runs.index(1), runs.index(0)]), dtype=np.float32)


def _matrix(volume: Volume, axis: int, wanted_mm: Places, rows: Rows) -> Any:
    """Sparse (wanted, voxels) of one array axis; where it runs against the patient axis, its columns are turned round."""
    along: Places = volume.along_mm if axis == 0 else volume.spacing_mm[axis] * np.arange(volume.hu.shape[axis], dtype=np.float64)
    direction = volume.axes[axis]
    run = int(np.abs(direction).argmax())
    if direction[run] > 0:
        return rows(volume.origin_mm[run] + along, wanted_mm).tocsr()
    return rows((volume.origin_mm[run] - along)[::-1], wanted_mm)[:, ::-1].tocsr()


def linear_rows(places_mm: Places, wanted_mm: Places) -> Any:
    """Linear interpolation; beyond the ends the last voxel repeats. Sparse float32 (wanted, voxels)."""
    at = np.interp(wanted_mm, places_mm, np.arange(len(places_mm)))
    low = np.minimum(np.floor(at).astype(int), max(0, len(places_mm) - 2))
    share = at - low
    row = np.arange(len(wanted_mm))
    high = np.minimum(low + 1, len(places_mm) - 1)
    values = np.concatenate([1 - share, share]).astype(np.float32)
    return sparse.csr_matrix((values, (np.tile(row, 2), np.concatenate([low, high]))), shape=(len(wanted_mm), len(places_mm)))


def mean_rows(places_mm: Places, wanted_mm: Places) -> Any:
    """The mean over each wanted step: of linear interpolation at as many places within it as it has voxels."""
    step = float(wanted_mm[1] - wanted_mm[0]) if len(wanted_mm) > 1 else 0.0
    count = max(1, round(step / float(np.median(np.diff(places_mm))))) if len(places_mm) > 1 else 1
    offsets = ((np.arange(count) + 0.5) / count - 0.5) * step
    return sum(linear_rows(places_mm, wanted_mm + offset) for offset in offsets) * np.float32(1 / count)


def softened_rows(softness: float) -> Rows:
    """Linear interpolation of a line that a Gaussian softened first, of `softness` voxels for each voxel that a wanted step is longer than one:
    what ndimage.gaussian_filter and map_coordinates give one after the other, to float accuracy."""

    def rows(places_mm: Places, wanted_mm: Places) -> Any:
        own, wanted = (float(np.median(np.diff(places))) for places in (places_mm, wanted_mm))
        sigma = softness * max(0.0, wanted / own - 1.0)
        linear = linear_rows(places_mm, wanted_mm)
        if sigma == 0:
            return linear
        gauss = ndimage.gaussian_filter1d(np.eye(len(places_mm), dtype=np.float32), sigma, axis=0, mode="nearest")
        return linear @ sparse.csr_matrix(gauss)

    return rows
