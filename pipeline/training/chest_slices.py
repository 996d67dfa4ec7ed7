"""Axial chest slices of invented patients, with what makes left and right differ: heart and apex, aortic arch and descending aorta, the higher right
dome with the liver, stomach bubble and spleen on the left. Disease strikes either side alike, so that it tells nothing.

Coordinates are LPS in mm, the middle of the chest at 0: +x left, +y posterior. `level` runs from 0 (domes of the diaphragm) to 1 (apices).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from pipeline.imaging.laterality import PIXELS, STEP_MM

Array = NDArray[np.float32]
Mask = NDArray[np.bool_]
Rng = np.random.Generator

AIR_BELOW_HU = -320.0
SMALLEST_MM2 = 1200.0  # of a lung that a slice shows


@dataclass(frozen=True)
class ChestSlice:
    """One slice as anatomy has it: the patient's right at the left of the picture."""

    hu: Array  # (PIXELS, PIXELS)
    right: Mask  # air of the right lung
    left: Mask


@dataclass(frozen=True)
class _Frame:
    x: Array  # (1, N)
    y: Array  # (N, 1)

    def ellipse(self, x: float, y: float, a: float, b: float, angle: float = 0.0, power: float = 2.0) -> Array:
        """1 inside, 0 outside, soft over a pixel; (N, N). `angle` turns the first axis towards +y."""
        u = (self.x - x) * np.cos(angle) + (self.y - y) * np.sin(angle)
        v = (self.y - y) * np.cos(angle) - (self.x - x) * np.sin(angle)
        radius = (np.abs(u / a) ** power + np.abs(v / b) ** power) ** (1 / power)
        return np.asarray(np.clip(0.5 + (1 - radius) * min(a, b) / STEP_MM, 0, 1), dtype=np.float32)

    def line(self, start: tuple[float, float], end: tuple[float, float], radius: float) -> Array:
        """A thick line between two points."""
        dx, dy = end[0] - start[0], end[1] - start[1]
        along = np.clip(((self.x - start[0]) * dx + (self.y - start[1]) * dy) / max(dx * dx + dy * dy, 1e-6), 0, 1)
        distance = np.hypot(self.x - start[0] - along * dx, self.y - start[1] - along * dy)
        return np.asarray(np.clip(0.5 + (radius - distance) / STEP_MM, 0, 1), dtype=np.float32)


def chest_slice(rng: Rng) -> ChestSlice:
    """A slice of a patient at a level, both drawn; drawn again until each lung is large enough to be seen."""
    while True:
        made = _drawn(rng)
        if min(made.right.sum(), made.left.sum()) * STEP_MM**2 >= SMALLEST_MM2:
            return made


def _drawn(rng: Rng) -> ChestSlice:
    axis = ((np.arange(PIXELS) - (PIXELS - 1) / 2) * STEP_MM).astype(np.float32)
    frame = _Frame(axis[None, :], axis[:, None])
    level = float(rng.beta(1.1, 1.2))
    narrow = 1.0 - 0.45 * max(0.0, level - 0.55) ** 1.2 / 0.45
    a, b = float(rng.uniform(112, 150)) * narrow, float(rng.uniform(74, 108)) * (0.55 + 0.45 * narrow)  # the cavity
    power = float(rng.uniform(2.0, 2.6))
    hu, cavity = _wall(frame, rng, a, b, power, level)
    aside = float(rng.normal(0, 7))  # scoliosis, one lung larger than the other
    solid = _mediastinum(_Frame(frame.x - aside, frame.y), rng, a, b, level)
    below, content = _below_domes(frame, rng, a, b, level)
    lung = cavity * (1 - np.maximum(solid, below))
    air = rng.uniform(-910, -780) + rng.uniform(10, 70) * frame.y / 100
    hu += cavity * (content - hu)
    hu += lung * (air - hu)
    _vessels(frame, rng, hu, lung, a, b, level)
    _disease(frame, rng, hu, lung, a, b)
    _airways(frame, rng, hu, level)
    inner = (hu < AIR_BELOW_HU) & (lung > 0.5)
    return ChestSlice(hu, inner & (frame.x < aside), inner & (frame.x >= aside))


def _wall(frame: _Frame, rng: Rng, a: float, b: float, power: float, level: float) -> tuple[Array, Array]:
    """Body without its inside, and the cavity (N, N)."""
    muscle, fat = float(rng.uniform(12, 24)), float(rng.uniform(2, 35))
    shoulder = max(0.0, level - 0.7) * rng.uniform(0, 160)
    hu = np.full((PIXELS, PIXELS), -1000.0, dtype=np.float32)
    table = float(b + muscle + fat + rng.uniform(2, 12))
    if rng.random() < 0.7:
        bend = float(rng.uniform(0, 40))
        hu += np.clip(0.5 + (3 - np.abs(frame.y - table + bend * (frame.x / 180) ** 2)) / STEP_MM, 0, 1) * np.float32(rng.uniform(300, 900))
    for side in (-1, 1):  # breasts
        if level < 0.65 and fat > 12 and rng.random() < 0.5:
            hu += frame.ellipse(side * 0.55 * a, -b - muscle - 0.6 * fat, 55, fat + 20) * (-80 - hu)
    for reach, value in ((muscle + fat, -95.0), (muscle, 45.0 + rng.normal(0, 8))):
        hu += frame.ellipse(0, 0, a + reach + shoulder, b + reach, power=power) * (value - hu)
    for _ in range(rng.integers(4, 9)):  # fat between muscles
        turn = rng.uniform(0, 2 * np.pi)
        spot = (np.cos(turn) * (a + 0.6 * muscle), np.sin(turn) * (b + 0.6 * muscle))
        hu += frame.ellipse(*spot, rng.uniform(5, 20), rng.uniform(2, 5), turn + np.pi / 2) * (-80 - hu) * (hu > 0)
    cavity = frame.ellipse(0, 0, a, b, power=power)
    _bones(frame, rng, hu, a, b, level)
    return hu, cavity


def _bones(frame: _Frame, rng: Rng, hu: Array, a: float, b: float, level: float) -> None:
    start, count = rng.uniform(0, 1), int(rng.integers(5, 9))
    for index in range(count * 2):
        turn = 2 * np.pi * (index + start) / (count * 2) + rng.normal(0, 0.08)
        if rng.random() < 0.75:
            length = rng.uniform(6, 22)
            hu += frame.ellipse(np.cos(turn) * (a + 5), np.sin(turn) * (b + 5), length, 4, turn + np.pi / 2) * (rng.uniform(200, 600) - hu)
    if level > 0.35:
        for side in (-1, 1):  # shoulder blades
            x, y = side * (0.55 + rng.uniform(0, 0.25)) * a, b * rng.uniform(0.85, 1.0) + 14
            hu += frame.line((x - side * 20, y + 6), (x + side * 22, y - 14), 2.5) * (rng.uniform(200, 500) - hu)
    hu += frame.ellipse(rng.normal(0, 3), -b - 4, rng.uniform(14, 26), 6) * (rng.uniform(120, 300) - hu)  # sternum


def _mediastinum(frame: _Frame, rng: Rng, a: float, b: float, level: float) -> Array:
    """Everything solid between the lungs: spine, band, vessels, heart; (N, N)."""
    spine_y = b * float(rng.uniform(0.62, 0.85))
    scale = a / 130
    parts = [
        frame.ellipse(rng.normal(0, 2), spine_y, rng.uniform(17, 23), rng.uniform(15, 20)),
        frame.line((0, spine_y), (0, 1.3 * b), 16),
        frame.line((rng.normal(0, 5), -1.2 * b), (rng.normal(0, 4), spine_y), rng.uniform(3, 14)),
        frame.ellipse(rng.normal(0, 4), rng.uniform(-0.2, 0.2) * b, rng.uniform(24, 44) * scale, rng.uniform(0.4, 0.8) * b),
    ]
    side = float(rng.uniform(12, 32))  # the descending aorta runs left of the spine, in front of it only low down
    radius = float(rng.uniform(9, 17))
    if level < 0.72:
        x = side if level > 0.2 else rng.uniform(4, side)
        parts.append(frame.ellipse(x, spine_y - rng.uniform(8, 22), radius, radius))
    if 0.62 < level < 0.82:  # the arch, from before the windpipe to the left of the spine
        parts.append(frame.line((rng.uniform(-14, 0), -rng.uniform(15, 35)), (side, spine_y - 18), radius + 1))
    if 0.35 < level < 0.7:  # ascending aorta, superior vena cava, pulmonary trunk
        parts.append(frame.ellipse(rng.uniform(-20, -6), rng.uniform(-38, -18), rng.uniform(13, 19), rng.uniform(13, 19)))
        parts.append(frame.ellipse(rng.uniform(-36, -24) * scale, rng.uniform(-25, -5), rng.uniform(7, 11), rng.uniform(7, 11)))
        parts.append(frame.ellipse(rng.uniform(14, 32) * scale, rng.uniform(-38, -18), rng.uniform(12, 18), rng.uniform(12, 18)))
    if level >= 0.7:
        for x in (rng.uniform(-28, -16), rng.uniform(16, 30)):
            parts.append(frame.ellipse(x, rng.uniform(-25, 0), rng.uniform(8, 13), rng.uniform(8, 13)))
    if level < 0.5:
        parts.append(_heart(frame, rng, a, b, level))
    for hilum in (-1, 1):
        if 0.3 < level < 0.62:
            parts.append(frame.ellipse(hilum * rng.uniform(34, 50) * scale, rng.uniform(-5, 20), rng.uniform(8, 16), rng.uniform(8, 18)))
    for _ in range(int(rng.choice([0, 1, 2], p=[0.6, 0.3, 0.1]))):  # masses, nodes, collapse beside it: on either side alike
        x, y = rng.choice([-1, 1]) * rng.uniform(15, 55) * scale, rng.uniform(-0.6, 0.6) * b
        parts.append(frame.ellipse(x, y, rng.uniform(6, 26), rng.uniform(6, 26), rng.uniform(0, np.pi)))
    return np.asarray(np.maximum.reduce(parts), dtype=np.float32)


def _heart(frame: _Frame, rng: Rng, a: float, b: float, level: float) -> Array:
    """Two thirds of the heart lie left of the middle; its apex points to the left and forward."""
    size = float(rng.uniform(0.8, 1.25)) * np.sqrt(max(0.15, 1 - (max(0.0, level - 0.2) / 0.32) ** 2)) * a / 130
    turn = float(rng.uniform(-0.75, -0.2))  # the long axis: right and back to left and front
    x, y = rng.uniform(16, 32) * a / 130, -rng.uniform(0.15, 0.42) * b
    body = frame.ellipse(x, y, rng.uniform(55, 68) * size, rng.uniform(40, 50) * size, turn)
    atrium = frame.ellipse(-rng.uniform(18, 30) * a / 130, y + rng.uniform(0, 15), rng.uniform(20, 30) * size, rng.uniform(25, 35) * size)
    return np.maximum(body, atrium)


def _below_domes(frame: _Frame, rng: Rng, a: float, b: float, level: float) -> tuple[Array, Array]:
    """What the domes take of the cavity (N, N), and what the solid parts hold in HU: the right dome stands higher, with the liver under it."""
    right_top, gap = float(rng.uniform(0.12, 0.34)), float(rng.uniform(0.03, 0.12))
    content = np.full((PIXELS, PIXELS), rng.uniform(30, 60), dtype=np.float32)
    content += ndimage.gaussian_filter(rng.normal(0, 1, content.shape), 3).astype(np.float32) * np.float32(rng.uniform(0, 120))
    parts = [np.zeros((PIXELS, PIXELS), dtype=np.float32)]
    for side, top in ((-1, right_top), (1, right_top - gap)):
        depth = (top - level) / 0.3
        if depth <= 0:
            continue
        grown = min(1.0, np.sqrt(depth))
        x, y = side * rng.uniform(0.4, 0.55) * a, rng.uniform(-0.4, 0.0) * b  # lung stays longest behind
        dome = frame.ellipse(x, y, rng.uniform(0.45, 0.62) * a * grown, rng.uniform(0.75, 1.05) * b * grown)
        parts.append(dome)
        organ = rng.uniform(45, 75) if side < 0 else rng.uniform(-60, 60)
        content += dome * (organ - content)
        if side > 0:
            _left_content(frame, rng, content, dome, (x, y), grown * a)
    return np.maximum.reduce(parts), content


def _left_content(frame: _Frame, rng: Rng, content: Array, dome: Array, middle: tuple[float, float], size: float) -> None:
    """Stomach with its bubble in front, spleen behind, fat between."""
    spleen = frame.ellipse(middle[0] + 0.12 * size, middle[1] + 0.3 * size, 0.28 * size, 0.2 * size) * dome
    content += spleen * (rng.uniform(40, 60) - content)
    if rng.random() < 0.6:
        bubble = frame.ellipse(middle[0] - 0.05 * size, middle[1] - 0.25 * size, 0.2 * size, 0.15 * size) * dome
        content += bubble * (-980 - content)


def _vessels(frame: _Frame, rng: Rng, hu: Array, lung: Array, a: float, b: float, level: float) -> None:
    for _ in range(int(rng.integers(10, 50))):
        side, out = rng.choice([-1, 1]), rng.uniform(0.3, 0.95)
        turn = rng.uniform(-np.pi / 2, np.pi / 2)
        x, y = side * (0.25 + 0.75 * out * abs(np.cos(turn))) * a, out * np.sin(turn) * 0.95 * b
        reach = rng.uniform(0, 25) * (1 - out)
        drawn = frame.line((x, y), (x - side * reach, y * (1 - reach / 60)), rng.uniform(0.8, 4.5) * (1.15 - out)) * lung
        hu += drawn * (rng.uniform(0, 50) - hu)


def _disease(frame: _Frame, rng: Rng, hu: Array, lung: Array, a: float, b: float) -> None:
    """Nodules, consolidation, fluid and emphysema, on either side alike."""
    for _ in range(int(rng.integers(0, 4))):
        x, y = rng.uniform(-a, a), rng.uniform(-b, b)
        hu += frame.ellipse(x, y, rng.uniform(3, 15), rng.uniform(3, 15)) * lung * (rng.uniform(-600, 50) - hu)
    if rng.random() < 0.3:
        side, reach = rng.choice([-1, 1]), rng.uniform(5, 45)
        fluid = np.clip(0.5 + (frame.y - b + reach) / STEP_MM, 0, 1) * (frame.x * side > 0) * lung
        hu += fluid * (rng.uniform(0, 40) - hu)
    if rng.random() < 0.25:
        cloud = ndimage.gaussian_filter(rng.normal(0, 1, hu.shape), rng.uniform(2, 6))
        hu += np.clip(cloud / cloud.std() - 1, 0, 1).astype(np.float32) * lung * (rng.uniform(-600, 40) - hu)
    if rng.random() < 0.25:
        holes = ndimage.gaussian_filter(rng.normal(0, 1, hu.shape), rng.uniform(1, 3))
        hu += np.clip(holes / holes.std() - 1, 0, 1).astype(np.float32) * lung * (-985 - hu)


def _airways(frame: _Frame, rng: Rng, hu: Array, level: float) -> None:
    """The windpipe, a little right of the middle beside the arch; main bronchi below it."""
    if level > 0.6:
        radius = rng.uniform(6, 10)
        hu += frame.ellipse(rng.uniform(-9, 3), rng.uniform(0, 16), radius, radius) * (-950 - hu)
    elif level > 0.45:
        for side in (-1, 1):
            hu += frame.line((side * 8, 8), (side * rng.uniform(18, 34), 14), rng.uniform(4, 7)) * (-900 - hu)
