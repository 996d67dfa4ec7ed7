"""One series → everything that an encoder may look at: read once, the same for every encoder."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pipeline.errors import Unsupported
from pipeline.imaging.coverage import organs_shown
from pipeline.imaging.denoise import Denoiser
from pipeline.imaging.keyslices import key_slices
from pipeline.imaging.laterality import SideCheck
from pipeline.imaging.lungs import Lungs, lungs_of
from pipeline.imaging.noise import noise_hu
from pipeline.imaging.regions import Region, candidate_regions
from pipeline.imaging.stored import MAX_VOXELS
from pipeline.imaging.upright import upright
from pipeline.imaging.volume import Volume, read_volume
from pipeline.model import LIVE
from pipeline.settings import ImagingSettings

VERSION = 1  # raise it when the same files would be prepared differently: features on disk are then made again
REGIONS = 8
NO_LUNGS = "容积内未找到双肺（或视野只含一侧，如靶重建），本模型只读胸部 CT"


@dataclass(frozen=True)
class Preparing:
    """How series are prepared: the site's choices, and the small models that look before an encoder does (None: not at all)."""

    tilt: Literal["resample", "refuse"] = "resample"
    key_slices: int = 32  # 0: every slice
    denoise: Literal["auto", "never", "always"] = "auto"
    denoiser: Denoiser | None = None
    sides: SideCheck | None = None
    workers: int = 0  # threads that decode; 0 takes the processors there are
    max_voxels: int = MAX_VOXELS

    @property
    def digest(self) -> str:
        """Changes whenever a volume could be prepared differently."""
        denoiser = "" if self.denoise == "never" or self.denoiser is None else f"{self.denoise} {self.denoiser.version} {self.denoiser.above_hu}"
        sides = "" if self.sides is None else self.sides.version
        return hashlib.sha256(repr((VERSION, self.tilt, self.key_slices, denoiser, sides, REGIONS)).encode()).hexdigest()[:16]


def preparing(room: ImagingSettings, *, real: bool = False) -> Preparing:
    """As the settings say. `real`: patients outside demo mode, of whom no small model says anything that has seen nothing but phantoms.

    Raises ModelMissing.
    """
    denoiser = None if room.denoise == "never" else Denoiser.load(above_hu=room.denoise_above_hu)
    sides: SideCheck | None = SideCheck.load()
    if real:
        denoiser = denoiser if denoiser is not None and denoiser.card.get("use") == LIVE else None
        sides = sides if sides is not None and sides.card.get("use") == LIVE else None
    return Preparing(room.tilt, room.key_slices, room.denoise, denoiser, sides, room.workers, room.max_voxels)


@dataclass(frozen=True)
class Prepared:
    """One chest volume, upright (axes superior, posterior, left), with what classical means see in it."""

    volume: Volume
    lungs: Lungs
    regions: tuple[Region, ...]  # where something may be, best first
    key_slices: tuple[int, ...]  # z of `volume`
    covers: tuple[str, ...]  # organs that the volume shows
    noise_hu: float  # before denoising
    denoised: bool
    flags: tuple[str, ...]  # for the reader

    @property
    def key_names(self) -> tuple[tuple[str, int], ...]:
        """SOP Instance UID and frame of the key slices."""
        return tuple(self.volume.named(z) for z in self.key_slices)


def prepare(paths: Sequence[Path], how: Preparing) -> Prepared:
    """Read and prepare one series. Raises Unsupported (no volume, no lungs), UnreadableDicom or Permanent."""
    return prepare_volume(read_volume(paths, tilt=how.tilt, workers=how.workers or None, max_voxels=how.max_voxels), how)


def prepare_volume(read: Volume, how: Preparing) -> Prepared:
    """Prepare a volume that has been read already. Raises Unsupported where it is not axial or holds no lungs."""
    volume, lungs, noise, denoised = cleaned(read, how)
    regions = candidate_regions(volume, lungs, REGIONS)
    return Prepared(
        volume=volume,
        lungs=lungs,
        regions=regions,
        key_slices=key_slices(volume, lungs, regions, how.key_slices),
        covers=organs_shown(volume, lungs),
        noise_hu=round(noise, 2),
        denoised=denoised,
        flags=(*volume.flags, *lungs.flags, *_side_flags(how, volume, lungs)),
    )


def cleaned(read: Volume, how: Preparing) -> tuple[Volume, Lungs, float, bool]:
    """The volume upright and, where its noise asks for it, denoised; its lungs; the noise in HU before; whether it was denoised.

    Raises Unsupported.
    """
    volume = upright(read)
    lungs = lungs_of(volume)
    if lungs is None:
        raise Unsupported(NO_LUNGS)
    noise = noise_hu(volume)
    denoiser = _denoiser(how, noise, volume)
    seen = volume if denoiser is None else denoiser.apply(volume, lungs)
    return seen, lungs, noise, seen is not volume  # a volume without any noise comes back as it is


def _denoiser(how: Preparing, noise: float, volume: Volume) -> Denoiser | None:
    if how.denoiser is None or how.denoise == "never":
        return None
    return how.denoiser if how.denoise == "always" or how.denoiser.needed(noise, volume.acquisition) else None


def _side_flags(how: Preparing, volume: Volume, lungs: Lungs) -> tuple[str, ...]:
    """Geometry is the truth; the classifier only speaks up where it disagrees."""
    if how.sides is None:
        return ()
    answer = how.sides.check(volume, lungs)
    return (answer.reason,) if answer.agrees is False else ()
