"""Who reads the series: ours, SimpleITK's series reader, dicom2nifti. Each gets a folder with one series and gives an array in memory."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.evaluation.volume_grids import Grid, affine_of

OURS, SIMPLEITK, DICOM2NIFTI = "ctreport", "simpleitk", "dicom2nifti"
RAS_TO_LPS = np.diag([-1.0, -1.0, 1.0, 1.0])


@dataclass(frozen=True, slots=True)
class Reader:
    """A contender. `read` is what is timed and holds its array when it is done; `grid` looks at what came of it."""

    package: str  # on PyPI; ours has its version from the checkout
    modules: tuple[str, ...]  # imported before the clock starts
    read: Callable[[Path], Any]
    grid: Callable[[Any], Grid]

    def absent(self) -> str:
        """Why it cannot take part, empty when it can."""
        try:
            for name in self.modules:
                importlib.import_module(name)
        except ImportError as error:
            return f"{self.package} is not installed ({error.name} is missing): pip install 'ctreport[bench]'"
        return ""


def _read_ours(folder: Path) -> Any:
    from pipeline.imaging.volume import read_volume

    return read_volume(sorted(folder.iterdir()))


def _grid_of_ours(volume: Any) -> Grid:
    return Grid(volume.hu, affine_of(volume.axes, np.asarray(volume.spacing_mm), np.asarray(volume.origin_mm)))


def _read_simpleitk(folder: Path) -> Any:
    sitk: Any = importlib.import_module("SimpleITK")  # it has no annotations
    reader = sitk.ImageSeriesReader()
    reader.SetFileNames(reader.GetGDCMSeriesFileNames(str(folder)))
    image = reader.Execute()
    return image, sitk.GetArrayViewFromImage(image)


def _grid_of_simpleitk(taken: Any) -> Grid:
    image, hu = taken
    axes = np.array(image.GetDirection()).reshape(3, 3).T[::-1]  # columns are x, y, z
    return Grid(hu, affine_of(axes, np.array(image.GetSpacing())[::-1], np.array(image.GetOrigin())))


def _read_dicom2nifti(folder: Path) -> Any:
    from dicom2nifti.convert_dicom import dicom_series_to_nifti

    image = dicom_series_to_nifti(str(folder), None, reorient_nifti=False)["NII"]
    return image, np.asanyarray(image.dataobj)


def _grid_of_dicom2nifti(taken: Any) -> Grid:
    image, hu = taken
    return Grid(hu, RAS_TO_LPS @ image.affine)


READERS: Mapping[str, Reader] = {
    OURS: Reader("ctreport", ("pipeline.imaging.volume",), _read_ours, _grid_of_ours),
    SIMPLEITK: Reader("SimpleITK", ("SimpleITK",), _read_simpleitk, _grid_of_simpleitk),
    DICOM2NIFTI: Reader("dicom2nifti", ("dicom2nifti.convert_dicom", "nibabel"), _read_dicom2nifti, _grid_of_dicom2nifti),
}


def versions() -> str:
    """Versions of those that can take part and of the decoders."""
    names = [reader.package for what, reader in READERS.items() if what != OURS and not reader.absent()]
    return ", ".join(f"{name} {version(name)}" for name in (*names, "pydicom", "imagecodecs", "python-gdcm"))
