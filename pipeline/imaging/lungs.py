"""Left and right lung by classical means on the HU volume; sides by patient coordinates (LPS: +x is the patient's left).

Both masks hold what a lung encloses (vessels, nodules), not the trachea and main bronchi. Fluid and consolidation that reach the chest wall are
not air, and stay outside: a side is still told for them, by the midline.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from pipeline.imaging.air import AIR_BELOW_HU, MAX_LUNG_ML, MIN_LUNG_ML, coarse_air, middle_of, valley_of
from pipeline.imaging.airways import IN_PLANE, airways
from pipeline.imaging.grid import Grid, averaged, bounds
from pipeline.imaging.parting import parted
from pipeline.imaging.volume import Volume
from pipeline.model import Side

STEP_MM = 3.0
STEP_Z_MM = (3.0, 5.0)  # thick slices are interpolated to no less than this
GAS_BELOW_HU = -940.0  # median of gas without tissue: stomach, bowel; lung of less than this is emphysema, and larger
GAS_ML = 800.0  # larger is no bowel
FRAGMENT_ML = 2.0
APEX_ML = 12.0  # per side: a scan that shows only the top or the base of both lungs
ENCLOSED = 0.7  # share of a piece that has body in front, behind and on both sides
CLOSING_MM = 9.0  # what a lung encloses or all but encloses
NEAR_MM = 15.0
BOTH_LUNGS_MM = 300.0  # a wider field of view shows both lungs, even where it cuts the chest wall of a large patient
CUT_DEEP = 0.6  # of the depth of the chest, at the side of the field: some 3 cm of chest are missing beyond
ONE_SIDED = 0.08  # share of all lung below which a side counts as without air

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Lungs:
    """Both lungs on a grid whose axes are superior, posterior, left; voxel (z, y, x) lies at `low_mm + (x, y, z) · step_mm`."""

    left: Mask  # (Z, Y, X)
    right: Mask
    low_mm: tuple[float, float, float]  # LPS x, y, z of voxel (0, 0, 0)
    step_mm: tuple[float, float, float]  # z, y, x
    midline_mm: float  # LPS x between the lungs
    flags: tuple[str, ...] = ()  # for the reader

    @cached_property
    def mask(self) -> Mask:
        """Either lung, (Z, Y, X)."""
        return self.left | self.right

    @cached_property
    def volume_ml(self) -> float:
        """Of both."""
        return self._ml(self.mask)

    @property
    def left_ml(self) -> float:
        """Of the left lung."""
        return self._ml(self.left)

    @property
    def right_ml(self) -> float:
        """Of the right lung."""
        return self._ml(self.right)

    @cached_property
    def box_mm(self) -> tuple[tuple[float, float, float], tuple[float, float, float]]:
        """Lowest and highest LPS coordinate of lung, each as x, y, z."""
        spans = [np.flatnonzero(self.mask.any(axis=other)) for other in ((0, 1), (0, 2), (1, 2))]  # x, y, z
        steps = self.step_mm[::-1]
        low, high = ([float(o + span[end] * s) for o, s, span in zip(self.low_mm, steps, spans, strict=True)] for end in (0, -1))
        return (low[0], low[1], low[2]), (high[0], high[1], high[2])

    def contains(self, points_mm: NDArray[np.float64]) -> Mask:
        """Which points (…, 3), LPS in mm, lie in a lung; (…)."""
        return self._at(self.mask, points_mm)

    def side_of(self, point_mm: tuple[float, float, float] | NDArray[np.float64]) -> Side:
        """The patient's side of a point: of the lung that it lies in or next to, else of the midline."""
        point = np.asarray(point_mm, dtype=float)
        for side, mask in ((Side.LEFT, self.left), (Side.RIGHT, self.right)):
            if self._at(mask, point):
                return side
        nearest = self._nearest(point)
        return nearest or (Side.LEFT if point[0] > self.midline_mm else Side.RIGHT)

    def _nearest(self, point: NDArray[np.float64]) -> Side | None:
        """Side of the nearest lung within reach, where both have air."""
        if self.flags or not (self.left.any() and self.right.any()):
            return None
        left, right = (self._distance_mm(mask, point) for mask in (self.left, self.right))
        if min(left, right) > NEAR_MM:
            return None
        return Side.LEFT if left < right else Side.RIGHT

    def _distance_mm(self, mask: Mask, point: NDArray[np.float64]) -> float:
        steps = np.array(self.step_mm)
        at = (point - np.array(self.low_mm))[::-1] / steps
        low = np.maximum(np.floor(at - (NEAR_MM + 1) / steps), 0).astype(int)
        high = np.maximum(np.ceil(at + (NEAR_MM + 1) / steps), 0).astype(int) + 1
        near = np.argwhere(mask[low[0] : high[0], low[1] : high[1], low[2] : high[2]]) + low
        return float(np.linalg.norm((near - at) * steps, axis=1).min()) if len(near) else np.inf

    def _at(self, mask: Mask, points_mm: NDArray[np.float64]) -> Mask:
        index = np.rint((np.asarray(points_mm) - np.array(self.low_mm))[..., ::-1] / np.array(self.step_mm)).astype(int)  # (…, 3)
        inside = ((index >= 0) & (index < mask.shape)).all(axis=-1)
        z, y, x = np.moveaxis(np.clip(index, 0, np.array(mask.shape) - 1), -1, 0)
        return np.asarray(inside & mask[z, y, x])

    def _ml(self, mask: Mask) -> float:
        return float(mask.sum()) * float(np.prod(self.step_mm)) / 1000.0


def lungs_of(volume: Volume) -> Lungs | None:
    """The lungs of any volume; None where there are none, or a narrow field of view shows one side only. One lung alone that has air is found too,
    and flagged."""
    low, high = bounds(volume)
    step_z = float(np.clip(volume.spacing_mm[0], *STEP_Z_MM))
    in_plane = _block_mm(volume)
    found = find_lungs(averaged(volume, low, high, (step_z, in_plane, in_plane)))
    air, air_low, air_step = coarse_air(volume)
    if found is None or air is None:
        return found
    midline = float(air_low[0] + air.midline_x * air_step)  # the one that the compact encoder goes by
    return Lungs(found.left, found.right, found.low_mm, found.step_mm, midline, found.flags)


def find_lungs(grid: Grid) -> Lungs | None:
    """The lungs on a grid of about 3 mm; None where there are none, or the field of view ends inside the chest."""
    air = grid.hu < AIR_BELOW_HU
    outer = _outside(air)
    body = _body(air, outer)
    middle = middle_of(body)
    inner = air & ~outer & _enclosed(body)
    inner &= ~airways(grid, inner, middle)
    right, left = parted(_lung_like(grid, inner), grid.step_mm, middle)
    right, left = _with_fragments(grid, inner, right, left, middle)
    ml = float(np.prod(grid.step_mm)) / 1000.0
    if not _are_lungs(right.sum() * ml, left.sum() * ml, right, left) or _is_cut(grid, right | left):
        return None
    right, left = _closed(right, grid, outer), _closed(left, grid, outer)
    left &= ~right
    return _lungs(grid, left, right, middle)


def _lungs(grid: Grid, left: Mask, right: Mask, middle: float) -> Lungs:
    share = left.sum() / (left.sum() + right.sum())
    lone = min(share, 1 - share) < ONE_SIDED
    midline = middle if lone else valley_of(left | right, middle, grid.step_mm[2])
    flags = ((f"仅{Side.RIGHT if share < 0.5 else Side.LEFT}侧见含气肺组织，对侧肺无气或缺如，左右按体中线判断",)) if lone else ()
    return Lungs(left, right, grid.low_mm, grid.step_mm, grid.low_mm[0] + midline * grid.step_mm[2], flags)


def _outside(air: Mask) -> Mask:
    """Air that reaches the border of its own slice, but not through a leak of one or two voxels. Slice by slice, for across a gap in the series a
    lung may lie next to the air above a shoulder."""
    worn = ndimage.binary_erosion(air, structure=IN_PLANE, border_value=1)
    labels, _ = ndimage.label(worn, structure=IN_PLANE)
    border = np.concatenate([labels[:, 0].ravel(), labels[:, -1].ravel(), labels[:, :, 0].ravel(), labels[:, :, -1].ravel()])
    wide = np.isin(labels, np.unique(border[border > 0]))
    return np.asarray(ndimage.binary_dilation(wide, structure=IN_PLANE, iterations=2, mask=air))


def _block_mm(volume: Volume) -> float:
    """About 3 mm, a whole number of pixels."""
    pixel = min(volume.spacing_mm[1:])
    return pixel * max(1, round(STEP_MM / pixel))


def _body(air: Mask, outer: Mask) -> Mask:
    """The largest solid piece, without the table and arms that touch it over less than some 6 mm."""
    solid = ndimage.binary_erosion(~air, iterations=2)
    labels, count = ndimage.label(solid)
    if count == 0:
        return ~outer
    largest = labels == 1 + int(np.argmax(np.bincount(labels.ravel())[1:]))
    return np.asarray(ndimage.binary_dilation(largest, iterations=3, mask=~air))


def _enclosed(body: Mask) -> Mask:
    """Has body in front, behind and on both sides."""
    across = [np.logical_or.accumulate(body, axis=a) & np.logical_or.accumulate(body[:, ::-1, ::-1], axis=a)[:, ::-1, ::-1] for a in (1, 2)]
    return np.asarray(across[0] & across[1])


def _lung_like(grid: Grid, inner: Mask) -> Mask:
    """The pieces of air that may be lung: large enough, and not gas."""
    labels, count = ndimage.label(inner)
    if count == 0:
        return inner
    ml = np.bincount(labels.ravel(), minlength=count + 1)[1:] * float(np.prod(grid.step_mm)) / 1000.0
    numbers = 1 + np.flatnonzero(ml >= APEX_ML)
    kept = [n for n in numbers if ml[n - 1] <= 1.5 * MAX_LUNG_ML and not _is_gas(grid, labels == n, float(ml[n - 1]))]
    return np.asarray(np.isin(labels, kept))


def _is_gas(grid: Grid, piece: Mask, ml: float) -> bool:
    """Stomach and bowel hold nothing but gas; lung of the same darkness is emphysema, and large."""
    return ml < GAS_ML and float(np.median(grid.hu[piece])) < GAS_BELOW_HU


def _with_fragments(grid: Grid, inner: Mask, right: Mask, left: Mask, middle: float) -> tuple[Mask, Mask]:
    """Small pieces within the box of the lungs that have tissue in them: air between consolidation. Each goes to the lung of its side."""
    whole = right | left
    if not whole.any():
        return right, left
    (box,) = ndimage.find_objects(whole.astype(np.uint8))
    labels, count = ndimage.label(inner[box] & ~whole[box])
    ml = np.bincount(labels.ravel(), minlength=count + 1)[1:] * float(np.prod(grid.step_mm)) / 1000.0
    view = Grid(grid.hu[box], grid.low_mm, grid.step_mm)
    kept = [n for n in 1 + np.flatnonzero((ml >= FRAGMENT_ML) & (ml < APEX_ML)) if not _is_gas(view, labels == n, float(ml[n - 1]))]
    for n in kept:
        at = box[2].start + float(np.average(np.arange(labels.shape[2]), weights=(labels == n).sum(axis=(0, 1))))
        (right if at < middle else left)[box] |= labels == n
    return right, left


def _are_lungs(right_ml: float, left_ml: float, right: Mask, left: Mask) -> bool:
    """A human's volume in all; or the ends of both lungs, cut by the first or last slice."""
    if right_ml + left_ml > MAX_LUNG_ML:
        return False
    if right_ml + left_ml >= MIN_LUNG_ML:
        return True
    whole = right | left
    return bool(min(right_ml, left_ml) >= APEX_ML and (whole[0].any() or whole[-1].any()))


def _is_cut(grid: Grid, lung: Mask) -> bool:
    """A narrow field of view that ends deep inside the chest, as of one lung reconstructed alone (靶重建): its middle is no midline, and which side
    it shows cannot be told from what it shows."""
    if grid.hu.shape[2] * grid.step_mm[2] >= BOTH_LUNGS_MM:
        return False
    tissue = grid.hu > AIR_BELOW_HU
    last = tissue.shape[1] - tissue[:, ::-1].argmax(axis=1)
    depth = np.where(tissue.any(axis=1), last - tissue.argmax(axis=1), 0)[lung.any(axis=(1, 2))]  # (slices with lung, X): from front to back
    at_border = np.maximum(depth[:, 0], depth[:, -1]) / np.maximum(depth.max(axis=1), 1)
    return bool(np.median(at_border) > CUT_DEEP)


def _closed(lung: Mask, grid: Grid, outer: Mask) -> Mask:
    """With what it encloses or all but encloses: vessels, nodules, small recesses."""
    return np.asarray(lung | (_filled(closing(lung, CLOSING_MM, grid.step_mm)) & ~outer))


def closing(mask: Mask, radius_mm: float, step_mm: tuple[float, float, float]) -> Mask:
    """Closing by a ball, by distances: as fast for a large ball as for a small one. Beyond the borders there is nothing to close upon."""
    if not mask.any():
        return mask
    pads = [int(np.ceil(radius_mm / step)) + 1 for step in step_mm]
    (box,) = ndimage.find_objects(mask.astype(np.uint8))
    padded = np.pad(mask[box], [(pad, pad) for pad in pads])
    near = ndimage.distance_transform_edt(~padded, sampling=step_mm) <= radius_mm
    closed = ndimage.distance_transform_edt(near, sampling=step_mm) > radius_mm
    whole = mask.copy()
    whole[box] |= closed[tuple(slice(pad, -pad) for pad in pads)]  # what is closed lies between parts of the mask: inside its box
    return whole


def _filled(mask: Mask) -> Mask:
    """With its holes: pieces of outside that reach no border."""
    labels, _ = ndimage.label(~mask)
    border = np.concatenate([labels.take(end, axis=axis).ravel() for axis in range(3) for end in (0, -1)])
    return np.asarray(mask | ~np.isin(labels, np.unique(np.append(border, 0))))
