"""What is sent: data sets as bytes with what their request says, read from files or made; and what the archive kept of them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from pydicom import dcmread
from pydicom.dataset import Dataset, FileDataset
from pydicom.errors import InvalidDicomError
from pydicom.uid import DeflatedExplicitVRLittleEndian, ExplicitVRBigEndian, ExplicitVRLittleEndian, ImplicitVRLittleEndian
from pynetdicom.dsutils import split_dataset

from tests.builders import ct_slice, part10, uid_of
from tests.integration.dicom.conftest import Site
from tests.wire import CT, Peer

GROUP_LENGTH_END = 144  # 128 preamble, 4 prefix, 12 bytes of (0002,0000)
LARGEST_META = 2048


@dataclass(frozen=True)
class Image:
    """One C-STORE request: what it names, and the bytes of its data set."""

    sop_class: str
    sop_uid: str
    syntax: str
    data: bytes

    @property
    def kind(self) -> tuple[str, str]:
        return self.sop_class, self.syntax

    @property
    def hash(self) -> str:
        return sha256(self.data).hexdigest()

    def sent(self, peer: Peer) -> int:
        """The status that a peer with the right context gets."""
        return peer.store(self.data, self.sop_uid, *self.kind)


def made(number: int, study: str = "robust", **keywords: object) -> Image:
    """A small valid CT image; another number is another image."""
    ds = ct_slice(study, z_mm=float(number), number=number, **keywords)  # type: ignore[arg-type]  # further DICOM keywords
    return of(ds)


def of(ds: FileDataset) -> Image:
    """A made data set as an image."""
    whole = part10(ds)
    return Image(str(ds.SOPClassUID), str(ds.SOPInstanceUID), str(ds.file_meta.TransferSyntaxUID), whole[_start(whole) :])


def read(path: Path) -> Image:
    """A file as its sender would send it. What its meta lacks, the data set says or the sender makes up."""
    whole = path.read_bytes()
    try:
        meta, start = split_dataset(path)
    except InvalidDicomError:
        meta, start = Dataset(), 0
    header = _header(path)
    sop_class = meta.get("MediaStorageSOPClassUID") or header.get("SOPClassUID") or CT
    sop_uid = meta.get("MediaStorageSOPInstanceUID") or header.get("SOPInstanceUID") or uid_of(path.name)
    return Image(str(sop_class), str(sop_uid), str(meta.get("TransferSyntaxUID") or _syntax(path, header)), whole[start:])


def _header(path: Path) -> Dataset:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # these files are odd on purpose
        try:
            return dcmread(path, force=True, stop_before_pixels=True)
        except Exception:  # noqa: BLE001  # whatever pydicom makes of a malformed file, its bytes can be sent
            return Dataset()


def _syntax(path: Path, header: Dataset) -> str:
    if "deflate" in path.stem:
        return str(DeflatedExplicitVRLittleEndian)
    implicit, little = header.original_encoding
    return str(ImplicitVRLittleEndian if implicit else ExplicitVRBigEndian if little is False else ExplicitVRLittleEndian)


def _start(whole: bytes) -> int:
    """Where the data set begins in a file whose meta has its group length."""
    assert whole[128:132] == b"DICM"
    return GROUP_LENGTH_END + int.from_bytes(whole[140:144], "little")


def kept(site: Site, area: str = "objects", size: int | None = None) -> Iterator[Image]:
    """Every file of an area of the archive, as its file meta and its bytes say; of `size` bytes of data set, where that is given."""
    for path in site.files(area):
        if path.suffix == ".dcm" and (size is None or 0 < path.stat().st_size - size < LARGEST_META):
            whole, (meta, _) = path.read_bytes(), split_dataset(path)
            sop_class, sop_uid, syntax = meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID, meta.TransferSyntaxUID
            yield Image(str(sop_class), str(sop_uid), str(syntax), whole[_start(whole) :])


def bytes_kept(site: Site, *areas: str, size: int | None = None) -> set[bytes]:
    """Data sets that stand in the archive or in quarantine."""
    return {image.data for area in areas or ("objects", "quarantine") for image in kept(site, area, size)}
