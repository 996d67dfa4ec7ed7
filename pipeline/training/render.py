"""Rendering a phantom in HU on any small or large axis-aligned grid: body, abdomen, lungs, mediastinum, findings, noise, in this order."""

from __future__ import annotations

import numpy as np
from scipy import ndimage

from pipeline.training.anatomy import MEDIASTINUM_DEPTH_MM, WALL, Anatomy, Ellipsoid, Lung
from pipeline.training.lesions import paint_emphysema, paint_fibrosis, paint_lesion, paint_liver_lesion, paint_node
from pipeline.training.phantom import Phantom
from pipeline.training.scanners import Scan
from pipeline.training.tissue import (
    AIR_HU,
    BONE_HU,
    FAT_HU,
    FLUID_HU,
    SOFT_HU,
    Array,
    Box,
    Grid,
    box_of,
    ellipse_share,
    ellipsoid_box,
    ellipsoid_share,
    over,
    raised,
    ramp,
    segment_shares,
)

__all__ = ["FLUID_HU", "SOFT_HU", "Grid", "grid_of", "render"]

SPINE_MM = 0.66  # of the body's half depth: how far behind the middle vertebrae lie
VERTEBRA_MM, DISC_MM = 24.0, 5.0
RIB_STEP_MM, RIB_MM = 26.0, 9.0
FISSURE_MM, FISSURE_HU = 1.2, -400.0
BRONCHUS_WALL_MM = 1.4
STOMACH_HU, STOMACH_WALL_MM, GAS_GAP_MM = 22.0, 5.0, 18.0


def grid_of(scan: Scan) -> Grid:
    """The voxels of a scan, in patient coordinates."""
    return Grid.centered(scan.shape, scan.spacing_mm)


def render(phantom: Phantom, grid: Grid, *, noise: bool = True) -> Array:
    """The phantom in HU, float32 (Z, Y, X). Deterministic per phantom and grid; without noise a voxel depends on its own place and size alone."""
    anatomy = phantom.anatomy
    hu = _body(anatomy, grid)
    _abdomen(phantom, grid, hu)
    inside = np.zeros(grid.shape, dtype=np.float32)  # share of lung
    for lung in anatomy.lungs:
        _lung(phantom, lung, grid, hu, inside)
    if inside.any():
        _lung_vessels(phantom, grid, hu, inside)
    _mediastinum(phantom, grid, hu)
    for node in phantom.truth.nodes:
        paint_node(hu, grid, node)
    for lesion in phantom.truth.lesions:
        paint_lesion(hu, grid, lesion, phantom.truth.seed, anatomy)
    return _with_noise(phantom, grid, hu) if noise else hu


def _body(anatomy: Anatomy, grid: Grid) -> Array:
    """Skin fat, muscle, the spine and ribs; fat of the mediastinum above the diaphragm, fat around the organs below it."""
    a, b = anatomy.body_mm
    x, y = grid.x_mm[None, :], grid.y_mm[:, None]
    plane = np.full((y.size, x.size), AIR_HU, dtype=np.float32)
    over(plane, ellipse_share(grid, (0, 0), (a, b)), FAT_HU)
    over(plane, ellipse_share(grid, (0, 0), (0.955 * a, 0.945 * b)), SOFT_HU)
    below = plane.copy()
    over(plane, ellipse_share(grid, (0, -4.0), (1.3 * anatomy.mediastinum_mm, MEDIASTINUM_DEPTH_MM + 8)), FAT_HU)
    over(below, ellipse_share(grid, (0, 0), (0.83 * a, 0.81 * b)), FAT_HU)
    hu = _stacked(plane, below, anatomy, grid)
    _ribs(anatomy, grid, hu)
    _spine(b, grid, hu)
    sternum = ellipse_share(grid, (0, -0.89 * b), (17.0, 6.0))
    if sternum.any():
        above = ramp(-75.0 - grid.z_mm, np.float32(grid.step_mm[0])) * ramp(grid.z_mm - 92.0, np.float32(grid.step_mm[0]))
        over(hu, above[:, None, None] * sternum[None], 170.0)
    return hu


def _stacked(above: Array, below: Array, anatomy: Anatomy, grid: Grid) -> Array:
    """One plane over the diaphragm, another under it, (Z, Y, X)."""
    hu = np.empty(grid.shape, dtype=np.float32)
    top = max(lung.dome_mm for lung in anatomy.lungs) + grid.step_mm[0]
    first = int(np.searchsorted(grid.z_mm, top))
    hu[first:] = above
    if first > 0:
        height, width = _surface(anatomy, grid)
        share = ramp(grid.z_mm[:first, None, None] - height[None] + np.float32(2.0), width[None])
        hu[:first] = above + share * (below - above)[None]
    return hu


def _surface(anatomy: Anatomy, grid: Grid) -> tuple[Array, Array]:
    """Height of the diaphragm and how much of it a voxel's own size blurs, mm, (Y, X) each."""
    x, y = grid.x_mm[None, :], grid.y_mm[:, None]
    sz, sy, sx = grid.step_mm
    slope_x = anatomy.diaphragm_mm(x + 0.5, y) - anatomy.diaphragm_mm(x - 0.5, y)
    slope_y = anatomy.diaphragm_mm(x, y + 0.5) - anatomy.diaphragm_mm(x, y - 0.5)
    width = np.sqrt(sz**2 + (slope_y * sy) ** 2 + (slope_x * sx) ** 2)
    return anatomy.diaphragm_mm(x, y).astype(np.float32), width.astype(np.float32)


def _ribs(anatomy: Anatomy, grid: Grid, hu: Array) -> None:
    a, b = anatomy.body_mm
    radial = np.sqrt((grid.x_mm[None, :] / np.float32(a)) ** 2 + (grid.y_mm[:, None] / np.float32(b)) ** 2)
    ring = ramp(np.abs(radial - np.float32(WALL + 0.025)) * np.float32(b) - np.float32(2.6), np.float32(grid.step_mm[1]))
    ring *= (np.abs(grid.x_mm) > 16.0)[None, :]
    y, x = np.nonzero(ring)
    if len(y) == 0:
        return
    turn = np.mod(grid.z_mm[:, None] + (0.6 * grid.y_mm[y] + 300.0)[None], np.float32(RIB_STEP_MM)) - np.float32(RIB_STEP_MM / 2)  # (Z, K)
    width = np.float32(np.hypot(grid.step_mm[0], 0.6 * grid.step_mm[1]))
    share = ramp(np.abs(turn, out=turn) - np.float32(RIB_MM / 2), width) * ring[y, x][None]
    values = hu[:, y, x]
    over(values, share, BONE_HU)
    hu[:, y, x] = values


def _spine(depth_mm: float, grid: Grid, hu: Array) -> None:
    """Vertebrae with discs between them, the canal, and spinous processes."""
    middle = SPINE_MM * depth_mm
    if (box := box_of(grid, (-26.0, middle - 22, -1e4), (26.0, middle + 46, 1e4))) is None:
        return
    part = grid.part(box)
    seam = np.abs(np.mod(part.z_mm, np.float32(VERTEBRA_MM)) - np.float32(VERTEBRA_MM / 2)) - np.float32(DISC_MM / 2)
    bone = (200.0 - 110.0 * ramp(seam, np.float32(part.step_mm[0])))[:, None, None].astype(np.float32)
    over(hu[box], ellipse_share(part, (0, middle), (18.0, 16.0))[None], bone)
    over(hu[box], ellipse_share(part, (0, middle + 24), (15.0, 9.0))[None], np.float32(BONE_HU - 60))
    over(hu[box], ellipse_share(part, (0, middle + 23), (8.5, 6.5))[None], np.float32(30.0))


def _abdomen(phantom: Phantom, grid: Grid, hu: Array) -> None:
    """Liver, spleen and stomach under the domes, and what is in the liver."""
    anatomy = phantom.anatomy
    if grid.z_mm[0] > -45.0:
        return
    for organ, value in ((anatomy.stomach, STOMACH_HU + 20), (anatomy.spleen, phantom.spleen_hu), (anatomy.liver, phantom.liver_hu)):
        _organ(anatomy, grid, hu, organ, value)
    if anatomy.bubble:
        _bubble(anatomy, grid, hu)
    for one in phantom.truth.liver:
        paint_liver_lesion(hu, grid, one, phantom.truth.seed, phantom.truth.contrast)


def _organ(anatomy: Anatomy, grid: Grid, hu: Array, organ: Ellipsoid, value: float) -> None:
    """An ellipsoid under the diaphragm and inside the wall of the abdomen."""
    if (box := ellipsoid_box(grid, organ)) is None:
        return
    share = ellipsoid_share(grid.part(box), organ) * _below(anatomy, grid, box, 3.0)
    over(hu[box], share, np.float32(value))


def _below(anatomy: Anatomy, grid: Grid, box: Box, gap_mm: float) -> Array:
    """1 under the diaphragm and inside the wall of the abdomen, (Z, Y, X) of a box."""
    part, (a, b) = grid.part(box), anatomy.body_mm
    x, y = part.x_mm[None, :], part.y_mm[:, None]
    height = anatomy.diaphragm_mm(x, y).astype(np.float32) - np.float32(gap_mm)
    wall = ellipse_share(part, (0, 0), (0.83 * a, 0.81 * b))
    return ramp(part.z_mm[:, None, None] - height[None], np.float32(max(grid.step_mm[0], 2.0))) * wall[None]


def _bubble(anatomy: Anatomy, grid: Grid, hu: Array) -> None:
    """Gas in front, over the stomach's fluid."""
    stomach = anatomy.stomach
    inner = Ellipsoid(stomach.center_mm, tuple(a - STOMACH_WALL_MM for a in stomach.axes_mm))  # type: ignore[arg-type]  # three of them
    if (box := ellipsoid_box(grid, inner)) is None:
        return
    part = grid.part(box)
    share = ellipsoid_share(part, inner) * _below(anatomy, grid, box, GAS_GAP_MM)
    over(hu[box], share, np.float32(STOMACH_HU))
    over(hu[box], share * ramp(part.y_mm - np.float32(stomach.center_mm[1] - 6), np.float32(part.step_mm[1]))[None, :, None], np.float32(AIR_HU))


def _lung(phantom: Phantom, lung: Lung, grid: Grid, hu: Array, inside: Array) -> None:
    """One lung with what spreads in it; its share of each voxel is added to `inside`."""
    ellipsoid = Ellipsoid(lung.center_mm, lung.axes_mm)
    if (box := ellipsoid_box(grid, ellipsoid)) is None:
        return
    share = _lung_share(phantom.anatomy, lung, ellipsoid, grid, box)
    if not share.any():
        return
    truth, part = phantom.truth, grid.part(box)
    content = np.empty(share.shape, dtype=np.float32)
    content[:] = (np.float32(phantom.lung_hu) + np.float32(25.0 / 80.0) * part.y_mm)[None, :, None]
    _fissures(lung, part, content)
    if lung.side in truth.fibrosis:
        paint_fibrosis(content, part, lung, phantom.anatomy, truth.seed)
    if lung.side in truth.emphysema:
        paint_emphysema(content, part, lung, truth.seed)
    if (reach := phantom.effusion_mm.get(lung.side)) is not None:
        over(content, _fluid(lung, reach, part), np.float32(FLUID_HU))
    over(hu[box], share, content)
    np.maximum(inside[box], share, out=inside[box])


def _lung_share(anatomy: Anatomy, lung: Lung, ellipsoid: Ellipsoid, grid: Grid, box: Box) -> Array:
    part, (a, b) = grid.part(box), anatomy.body_mm
    x, y = part.x_mm[None, :], part.y_mm[:, None]
    share = ellipsoid_share(part, ellipsoid)
    plane = ellipse_share(part, (0, 0), (WALL * a, WALL * b))
    plane *= 1 - ellipse_share(part, (0, 0), (anatomy.mediastinum_mm, MEDIASTINUM_DEPTH_MM))
    share *= plane[None]
    floor = lung.floor_mm(x, y).astype(np.float32)  # (Y, X)
    top = int(np.searchsorted(part.z_mm, float(floor.max()) + 2 * part.step_mm[0]))
    if top > 0:
        share[:top] *= ramp(floor[None] - part.z_mm[:top, None, None], np.float32(max(part.step_mm[0], 2.0)))
    return share


def _fissures(lung: Lung, part: Grid, hu: Array) -> None:
    """The fissures as faint thin lines."""
    sz, sy, _ = part.step_mm
    a, b = lung.oblique
    away = np.abs(part.z_mm[:, None] - np.float32(a) - np.float32(b) * part.y_mm[None]) / np.float32(np.hypot(1, b))  # (Z, Y)
    line = _line(away.astype(np.float32), float(np.hypot(sz, b * sy) / np.hypot(1, b)))
    if lung.horizontal_mm is not None:
        in_front = part.z_mm[:, None] > a + b * part.y_mm[None]
        away = np.abs(part.z_mm - np.float32(lung.horizontal_mm))[:, None]
        line = np.maximum(line, _line(away, sz) * in_front)
    rows = np.flatnonzero(line.any(axis=1))
    if len(rows):
        near = slice(int(rows[0]), int(rows[-1]) + 1)
        over(hu[near], line[near, :, None].astype(np.float32), np.float32(FISSURE_HU))


def _line(away: Array, width: float) -> Array:
    """Share of a plane FISSURE_MM thick in voxels as wide as that, by the distance from it."""
    return np.asarray(np.clip((FISSURE_MM + width) / 2 - away, 0, min(FISSURE_MM, width)) / max(width, FISSURE_MM), dtype=np.float32)


def _fluid(lung: Lung, reach_mm: float, grid: Grid) -> Array:
    """Fluid lies at the back and, curving, more of it low down; (Z, Y, 1)."""
    back = lung.center_mm[1] + lung.axes_mm[1] - reach_mm
    rise = np.clip((grid.z_mm[:, None, None] - lung.center_mm[2] - 20.0) * 0.35, 0.0, None)
    return ramp((back + rise - grid.y_mm[None, :, None]).astype(np.float32), np.float32(6.0))


def _lung_vessels(phantom: Phantom, grid: Grid, hu: Array, inside: Array) -> None:
    segments = np.concatenate([phantom.vessels, phantom.vessels[:, 6:7]], axis=1)  # (V, 8)
    for box, share in segment_shares(grid, segments):
        raised(hu[box], share * inside[box], phantom.blood_hu)


def _mediastinum(phantom: Phantom, grid: Grid, hu: Array) -> None:
    """Heart, great vessels, oesophagus, and the airways with their walls."""
    anatomy = phantom.anatomy
    if (box := ellipsoid_box(grid, anatomy.heart)) is not None:
        over(hu[box], ellipsoid_share(grid.part(box), anatomy.heart), np.float32(0.9 * phantom.blood_hu + 4))
    for box, share in segment_shares(grid, anatomy.blood):
        over(hu[box], share, np.float32(phantom.blood_hu))
    if (box := box_of(grid, (-4.0, 35.0, -95.0), (12.0, 53.0, 1e4))) is not None:
        over(hu[box], ellipse_share(grid.part(box), (4.0, 44.0), (7.0, 5.5))[None], np.float32(34.0))
    walls = anatomy.airways.copy()
    walls[:, 6:8] += np.float32(BRONCHUS_WALL_MM)
    for box, share in segment_shares(grid, walls):
        raised(hu[box], share, 30.0)
    for box, share in segment_shares(grid, anatomy.airways):
        over(hu[box], share, np.float32(AIR_HU))


def _with_noise(phantom: Phantom, grid: Grid, hu: Array) -> Array:
    """Correlated noise of the acquisition's strength, decided by the phantom's seed and the grid."""
    if phantom.noise_hu <= 0:
        return hu
    place = [round((float(axis[0]) + 2000.0) * 100) for axis in (grid.x_mm, grid.y_mm, grid.z_mm)]
    rng = np.random.default_rng([phantom.truth.seed, hu.size, *place])
    grain = ndimage.gaussian_filter(rng.standard_normal(hu.shape, dtype=np.float32), phantom.correlation_vox)
    grain *= np.float32(phantom.noise_hu / max(float(grain.std()), 1e-6))
    return np.asarray(hu + grain, dtype=np.float32)
