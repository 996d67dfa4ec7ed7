"""Studies for the benchmark of the whole flow: CT series of a given number of images, and their features beforehand where no encoder is measured."""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from pathlib import Path

from pydicom import dcmread
from pydicom.uid import generate_uid

from pipeline.dicom.file_meta import file_meta
from pipeline.evaluation.receive_files import SMALL, image

GROUP_LENGTH_AT, GROUP_AT = 140, 144  # PS3.10 7.1: 128 bytes, 'DICM', then (0002,0000) UL with the length of what follows


@dataclass(frozen=True, slots=True)
class Study:
    """One study on disk, as it is sent; `images` without what is no axial slice."""

    study_uid: str
    images: int
    folder: Path


def noise_study(folder: Path, images: int) -> Study:
    """A CT series of 512² noise: everything about it is read but what a network would see."""
    folder.mkdir(parents=True)
    study_uid, series_uid = generate_uid(), generate_uid()
    for number in range(images):
        ds = image(SMALL, number, study_uid, series_uid)
        ds.PatientID = study_uid[-16:]  # one study each, so that no patient's history grows
        ds.save_as(folder / f"{number:04d}.dcm", enforce_file_format=True)
    return Study(str(study_uid), images, folder)


def archive_name(file: Path) -> str:
    """The name under which the archive keeps this file once it was sent: SHA-256 of our own group 2 and the data set's bytes as they are."""
    body = file.read_bytes()
    (length,) = struct.unpack_from("<L", body, GROUP_LENGTH_AT)
    meta = dcmread(file, specific_tags=[], stop_before_pixels=True).file_meta
    whole = file_meta(meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID, meta.TransferSyntaxUID) + body[GROUP_AT + length :]
    digest = hashlib.sha256(whole).hexdigest()
    return f"objects/{digest[:2]}/{digest}.dcm"
