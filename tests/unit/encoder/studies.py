"""Prepared studies without files: a body with two lungs, one bright ball in the left one, and regions where a test wants them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pipeline.encoder.prepare import Prepared
from pipeline.imaging.lungs import Lungs
from pipeline.imaging.regions import Region
from pipeline.imaging.volume import Acquisition, Volume

SHAPE = (12, 40, 56)  # z, y, x
SPACING_MM = (10.0, 8.0, 8.0)
ORIGIN_MM = (-220.0, -156.0, -60.0)  # LPS of voxel (0, 0, 0)
LEFT_BALL = Region(center_mm=(80.0, 4.0, 0.0), size_mm=(24.0, 20.0, 22.0), score=0.9, kind="结节")
RIGHT_BALL = Region(center_mm=(-80.0, 20.0, 20.0), size_mm=(10.0, 8.0, 8.0), score=0.6, kind="结节")
ACQUISITION = Acquisition(kvp=120.0, mas=90.0, kernel="Br40", thickness_mm=1.25, age_years=63.0, sex="F", contrast=False)


def prepared(regions: tuple[Region, ...] = (LEFT_BALL, RIGHT_BALL), *, seed: int = 0, key_slices: tuple[int, ...] = (3, 6, 9)) -> Prepared:
    """A study; another seed is another patient."""
    rng = np.random.default_rng(seed)
    hu = rng.normal(40, 20, SHAPE).astype(np.float32)
    left, right = np.zeros(SHAPE, bool), np.zeros(SHAPE, bool)
    right[1:11, 8:32, 8:24] = True  # x rises towards the patient's left
    left[1:11, 8:32, 32:48] = True
    hu[left | right] = rng.normal(-820, 30, int((left | right).sum()))
    hu[5:8, 19:22, 36:39] = 60.0
    volume = Volume(
        hu=hu,
        spacing_mm=SPACING_MM,
        along_mm=np.arange(SHAPE[0], dtype=np.float64) * SPACING_MM[0],
        origin_mm=ORIGIN_MM,
        axes=np.array([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]),
        sop_uids=tuple(f"2.25.{seed}.{z}" for z in range(SHAPE[0])),
        acquisition=ACQUISITION,
    )
    lungs = Lungs(left=left, right=right, low_mm=ORIGIN_MM, step_mm=SPACING_MM, midline_mm=0.0)
    return Prepared(volume, lungs, regions, key_slices, ("肺",), 20.0, False, ())


def without(study: Prepared, **acquisition: object) -> Prepared:
    """The study with another acquisition."""
    return replace(study, volume=replace(study.volume, acquisition=replace(study.volume.acquisition, **acquisition)))  # type: ignore[arg-type]  # by name
