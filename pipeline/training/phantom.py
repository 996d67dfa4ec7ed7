"""Procedural chest phantoms: what is in them is drawn first (the truth), then rendered in HU on any grid."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pipeline.model import Side
from pipeline.training.anatomy import Anatomy, Lung, draw_anatomy, vessel_tree
from pipeline.training.placing import draw_findings
from pipeline.training.scanners import HELD_OUT, TRAINED, Scan, Scanners, exposure_of, scan_of
from pipeline.training.truth import DENSITIES, LIVER_KINDS, LOBES, MARGINS, Lesion, LiverLesion, Node, Truth

__all__ = [
    "DENSITIES",
    "HELD_OUT",
    "LIVER_KINDS",
    "LOBES",
    "MARGINS",
    "TRAINED",
    "Lesion",
    "LiverLesion",
    "Lung",
    "Node",
    "Phantom",
    "Scan",
    "Scanners",
    "Truth",
    "draw",
]

BLOOD_HU = 42.0


@dataclass(frozen=True)
class Phantom:
    """Everything that rendering needs: the anatomy of one patient, the acquisition and the truth. Findings are rendered as the truth tells them."""

    truth: Truth
    anatomy: Anatomy
    lung_hu: float
    blood_hu: float
    liver_hu: float
    spleen_hu: float
    vessels: NDArray[np.float32]  # (V, 7): x0 y0 z0 x1 y1 z1 radius, mm
    effusion_mm: Mapping[Side, float]  # how far fluid reaches up from the back of the lung
    noise_hu: float
    correlation_vox: float
    scan: Scan = field(default_factory=Scan)

    @property
    def lungs(self) -> tuple[Lung, Lung]:
        """Right, left."""
        return self.anatomy.lungs


def draw(seed: int, scanners: Scanners = TRAINED, crowded: bool = False) -> Phantom:
    """The phantom of a seed: the same seed, the same patient; on the same scanners, the same scan. `crowded`: for the encoder's training, with
    more and smaller lesions than any patient has."""
    rng, scanning = np.random.default_rng([seed, 0]), np.random.default_rng([seed, 1])
    anatomy = draw_anatomy(rng)
    found = draw_findings(rng, anatomy, crowded)
    effusion = found.effusion_mm or {}
    scan = scan_of(scanning, scanners)
    taken = exposure_of(scanning, scanners, scan.spacing_mm[0])
    lung_hu, liver_hu, spleen_hu = float(rng.uniform(-890, -820)), float(rng.uniform(52, 60)), float(rng.uniform(42, 48))
    return Phantom(
        truth=Truth(
            found.lesions,
            frozenset(effusion),
            taken.low_dose,
            seed,
            taken.kvp,
            taken.mas,
            taken.kernel.name,
            found.nodes,
            found.liver,
            found.emphysema,
            found.fibrosis,
            taken.contrast,
            scan.spacing_mm[0],
        ),
        anatomy=anatomy,
        lung_hu=lung_hu,
        blood_hu=float(scanning.uniform(140, 220)) if taken.contrast else BLOOD_HU,
        liver_hu=liver_hu + 54.0 if taken.contrast else liver_hu,
        spleen_hu=spleen_hu + 76.0 if taken.contrast else spleen_hu,
        vessels=vessel_tree(rng, anatomy),
        effusion_mm=effusion,
        noise_hu=taken.noise_hu,
        correlation_vox=taken.correlation_vox,
        scan=scan,
    )
