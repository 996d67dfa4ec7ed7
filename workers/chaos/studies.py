"""The studies of a trial: phantoms on small grids, every second one with a dose report."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pydicom.filereader import read_file_meta_info
from pynetdicom.dsutils import split_dataset

from pipeline.training.phantom_dicom import phantom_uid, write_study
from pipeline.training.scanners import Scan
from workers.chaos.doses import write_dose_report

READABLE = Scan((15.0, 5.0, 5.0), (20, 58, 76))  # the smallest chest that the packaged models read well
TINY = Scan((30.0, 12.0, 12.0), (10, 24, 32))  # for the fake encoder, which looks at nothing


@dataclass(frozen=True, slots=True)
class TrialStudy:
    """One study on disk."""

    number: int  # of the phantom
    folder: Path
    with_dose: bool

    @property
    def uid(self) -> str:
        """StudyInstanceUID."""
        return phantom_uid(self.number, "study")

    def files(self) -> list[Path]:
        """Its DICOM files."""
        return sorted(self.folder.glob("*.dcm"))


def write_studies(folder: Path, first: int, count: int, scan: Scan) -> list[TrialStudy]:
    """The phantoms `first … first + count − 1`; those that are there already are not written again."""
    return [_written(folder, number, scan) for number in range(first, first + count)]


def sop_uid_of(file: Path) -> str:
    """SOPInstanceUID of a file, by its meta."""
    return str(read_file_meta_info(file).MediaStorageSOPInstanceUID)


def data_set_of(file: Path) -> bytes:
    """What follows the file meta: the bytes that travel, and that must arrive."""
    _, start = split_dataset(file)
    return file.read_bytes()[start:]


def sop_uids(studies: list[TrialStudy]) -> Iterator[str]:
    """Of every file."""
    return (sop_uid_of(file) for study in studies for file in study.files())


def _written(folder: Path, number: int, scan: Scan) -> TrialStudy:
    study = TrialStudy(number, folder / f"phantom-{number}", number % 2 == 0)
    if not study.folder.exists():
        unfinished = study.folder.with_suffix(".part")
        shutil.rmtree(unfinished, ignore_errors=True)
        write_study(unfinished, number, localizer=False, scan=scan)
        (unfinished / "truth.json").unlink()
        if study.with_dose:
            write_dose_report(next(unfinished.glob("*.dcm")), number, unfinished / "dose.dcm")
        unfinished.rename(study.folder)
    return study
