"""Objects to send: CT slices of half a megabyte and multi-frame objects of hundreds, with UIDs that are new in each run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian, MultiFrameGrayscaleWordSecondaryCaptureImageStorage, generate_uid

EDGE = 512  # rows and columns
FRAME_BYTES = 2 * EDGE * EDGE
FRAMES = {"large": 500, "1GB": 2000}  # 262 MB and 1.05 GB
SMALL, LARGE, HUGE = "small", "large", "1GB"


class Pool:
    """Files of one run below `folder`, made when they are first asked for. Each association of a load has a study of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: dict[tuple[str, int], list[Path]] = {}
        self._uids: dict[tuple[str, int], tuple[str, str]] = {}

    def shares(self, kind: str, associations: int, images: int) -> list[list[Path]]:
        """`images` files (together) for so many associations, as evenly as it goes."""
        sizes = [images // associations + (number < images % associations) for number in range(associations)]
        return [self.files(kind, number, size) for number, size in enumerate(sizes)]

    def files(self, kind: str, study: int, count: int) -> list[Path]:
        """The first `count` files of a study, the same ones at each call."""
        made = self._made.setdefault((kind, study), [])
        uids = self._uids.setdefault((kind, study), (generate_uid(), generate_uid()))
        while len(made) < count:
            path = self._folder / kind / str(study) / f"{len(made):04d}.dcm"
            path.parent.mkdir(parents=True, exist_ok=True)
            image(kind, len(made), *uids).save_as(path, enforce_file_format=True)
            made.append(path)
        return made[:count]


def warm(files: Sequence[Sequence[Path]]) -> int:
    """Read every file once, so that the sender finds it in the page cache; bytes in all."""
    return sum(len(block) for share in files for path in share for block in _blocks(path))


def image(kind: str, number: int, study_uid: str, series_uid: str) -> Dataset:
    """One object: a CT slice for `small`, else a multi-frame secondary capture (PS3.3 A.8.4) whose pixels nobody looks at."""
    ds = Dataset()
    ds.file_meta = FileMetaDataset()
    ds.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    ds.SOPClassUID = CTImageStorage if kind == SMALL else MultiFrameGrayscaleWordSecondaryCaptureImageStorage
    ds.SOPInstanceUID, ds.StudyInstanceUID, ds.SeriesInstanceUID = generate_uid(), study_uid, series_uid
    ds.PatientName, ds.PatientID, ds.PatientBirthDate, ds.PatientSex = "BENCH^RECEIVE", "BENCH", "19700101", "O"
    ds.StudyDate, ds.StudyTime, ds.AccessionNumber, ds.StudyID = "20260101", "120000", "BENCH", "1"
    ds.Modality = "CT" if kind == SMALL else "OT"
    ds.SeriesNumber, ds.InstanceNumber = 1, number + 1
    if kind == SMALL:
        _place(ds, number)
    else:
        ds.NumberOfFrames = FRAMES[kind]
    _add_pixels(ds, FRAMES.get(kind, 1))
    return ds


def _place(ds: Dataset, number: int) -> None:
    ds.BodyPartExamined, ds.KVP, ds.ConvolutionKernel, ds.SliceThickness = "CHEST", 120, "STANDARD", 1.0
    ds.ImageType = ["ORIGINAL", "PRIMARY", "AXIAL"]
    ds.FrameOfReferenceUID = ds.SeriesInstanceUID
    ds.PixelSpacing, ds.ImageOrientationPatient = [0.7, 0.7], [1, 0, 0, 0, 1, 0]
    ds.ImagePositionPatient = [-179.2, -179.2, float(number)]
    ds.RescaleIntercept, ds.RescaleSlope = -1024, 1


def _add_pixels(ds: Dataset, frames: int) -> None:
    """Noise, so that no disk or file system shrinks it; one frame again and again."""
    ds.Rows = ds.Columns = EDGE
    ds.SamplesPerPixel, ds.PhotometricInterpretation = 1, "MONOCHROME2"
    ds.BitsAllocated, ds.BitsStored, ds.HighBit, ds.PixelRepresentation = 16, 12, 11, 0
    ds.PixelData = np.random.default_rng(1).integers(0, 4096, EDGE * EDGE, dtype=np.uint16).tobytes() * frames


def _blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            yield block
