"""Whatever the encoding, the archive holds the data set that was sent, byte for byte, under a file meta that names its transfer syntax."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pydicom.encaps import encapsulate
from pydicom.uid import HTJ2K, UID, HTJ2KLossless, HTJ2KLosslessRPCL

from pipeline.dicom.send import send
from tests.builders import ct_slice
from tests.integration.dicom.conftest import Site, eventually
from tests.integration.dicom.images import Image, kept, of, read
from tests.wire import CT, Peer
from workers.embedded.ports import free_port, is_listening

REAL = ("transfer_syntaxes", "enhanced_ct", "dose_reports", "not_for_reading")
# Not objects of a CT study: the listener takes no such class. Their bytes come as CT here, and are kept in quarantine.
OTHER_CLASSES = {"1.2.840.10008.5.1.4.1.1.4", "1.2.840.10008.5.1.4.1.1.1", "1.2.840.10008.5.1.4.1.1.481.1", "1.2.840.10008.5.1.4.1.1.481.2"}
OTHER_CLASSES |= {"1.2.840.10008.5.1.4.1.1.481.5", "1.2.840.10008.5.1.4.1.1.481.8"}
# DCMTK proposes one encoding at a time beside the plain ones, and knows neither retired JPEG processes nor HTJ2K.
DCMTK = {
    "1.2.840.10008.1.2": "-xi",
    "1.2.840.10008.1.2.1": "-xe",
    "1.2.840.10008.1.2.2": "-xb",
    "1.2.840.10008.1.2.1.99": "-xd",
    "1.2.840.10008.1.2.4.50": "-xy",
    "1.2.840.10008.1.2.4.51": "-xx",
    "1.2.840.10008.1.2.4.70": "-xs",
    "1.2.840.10008.1.2.4.80": "-xt",
    "1.2.840.10008.1.2.4.81": "-xu",
    "1.2.840.10008.1.2.4.90": "-xv",
    "1.2.840.10008.1.2.4.91": "-xw",
    "1.2.840.10008.1.2.5": "-xr",
}


def tool(name: str) -> str:
    """DCMTK's, not the script of the same name that pynetdicom installs; empty without it."""
    return shutil.which(name, path="/usr/bin:/usr/local/bin") or ""


def files_of(test_data: Path, *folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (test_data / folder).rglob("*.dcm"))


def named(image: Image) -> tuple[bytes, str, str, str]:
    return image.data, image.syntax, image.sop_class, image.sop_uid


@pytest.mark.parametrize("folder", REAL)
def test_every_real_file_arrives_byte_for_byte_in_its_own_encoding(site: Site, test_data: Path, folder: str) -> None:
    files = files_of(test_data, folder)
    images = {path.name: read(path) for path in files}
    with Peer(site.port, *sorted({image.kind for image in images.values()})) as peer:
        assert len(peer.accepted.contexts) == len(peer.kinds)
        statuses = {name: image.sent(peer) for name, image in images.items()}
        peer.release()
    assert set(statuses.values()) <= {0x0000, 0xB007}, statuses
    assert {named(image) for image in kept(site)} == {named(image) for image in images.values()}
    assert site.verified().clean


def test_pynetdicom_sends_every_real_file_and_the_same_bytes_stand_in_the_archive(site: Site, test_data: Path) -> None:
    result = send([test_data / folder for folder in REAL], "127.0.0.1", site.port, "CTREPORT")
    images = [read(path) for path in files_of(test_data, *REAL)]
    assert (result.failed, result.skipped, result.succeeded + result.warned) == ([], [], len(images))
    assert {named(image) for image in kept(site)} == {named(image) for image in images}


def test_odd_headers_are_answered_and_kept_byte_for_byte_whether_understood_or_not(site: Site, test_data: Path) -> None:
    images = {path.name: read(path) for path in files_of(test_data, "odd_headers")}
    wanted = [*sorted({image.kind for image in images.values()}), *sorted({(CT, image.syntax) for image in images.values()})]
    with Peer(site.port, *dict.fromkeys(wanted)) as peer:
        refused = {image.sop_class for image in images.values() if peer.context_of(*image.kind) is None}
        assert refused <= OTHER_CLASSES
        sent = {name: Image(CT, i.sop_uid, i.syntax, i.data) if i.sop_class in refused else i for name, i in images.items()}
        statuses = {name: image.sent(peer) for name, image in sent.items()}
        peer.release()
    assert set(statuses.values()) <= {0x0000, 0xB007, 0xC000, 0xA900}, statuses
    good = {named(sent[name]) for name, status in statuses.items() if status in (0x0000, 0xB007)}
    bad = {named(sent[name]) for name, status in statuses.items() if status not in (0x0000, 0xB007)}
    assert {named(image) for image in kept(site)} == good
    assert {(data, syntax) for data, syntax, *_ in map(named, kept(site, "quarantine"))} == {(data, syntax) for data, syntax, *_ in bad}
    assert {"CT_small.dcm", "explicit_VR-UN.dcm", "chrX1.dcm", "chrX2.dcm", "mlut_18.dcm"} <= {
        name for name, status in statuses.items() if status in (0x0000, 0xB007)
    }


@pytest.mark.parametrize("syntax", [HTJ2KLossless, HTJ2KLosslessRPCL, HTJ2K])
def test_high_throughput_jpeg_2000_is_kept_as_it_came(site: Site, syntax: UID) -> None:
    ds = ct_slice(number=1)
    ds.PixelData = encapsulate([b"\xff\x4f\xff\x51" + bytes(range(256)) * 8 + b"\xff\xd9"])
    ds["PixelData"].VR = "OB"
    ds["PixelData"].is_undefined_length = True
    ds.file_meta.TransferSyntaxUID = syntax
    image = of(ds)
    with Peer(site.port, image.kind) as peer:
        assert image.sent(peer) == 0x0000
        peer.release()
    assert [named(one) for one in kept(site)] == [named(image)]


def test_of_several_encodings_offered_in_one_context_the_agreed_one_is_what_the_file_meta_names(site: Site, test_data: Path) -> None:
    images = {image.syntax: image for image in map(read, files_of(test_data, "transfer_syntaxes"))}
    agreed = set[str]()
    for first in images:
        with Peer(site.port, (CT, first, *(syntax for syntax in images if syntax != first))) as peer:
            (syntax,) = peer.accepted.contexts.values()
            agreed.add(syntax)
            assert images[syntax].sent(peer) in (0x0000, 0xB007)
            peer.release()
    assert {named(image) for image in kept(site)} == {named(images[syntax]) for syntax in agreed}


@pytest.mark.skipif(not (tool("storescu") and tool("storescp")), reason="DCMTK is not installed")
def test_what_dcmtk_sends_is_what_dcmtks_own_bit_preserving_receiver_would_have_kept(site: Site, test_data: Path, tmp_path: Path) -> None:
    """storescu encodes anew what it reads, so its own receiver says what went over the wire."""
    files = {image.syntax: path for path, image in ((p, read(p)) for p in files_of(test_data, "transfer_syntaxes"))}
    known = {syntax: path for syntax, path in files.items() if syntax in DCMTK}
    assert set(known) == set(DCMTK)
    with dcmtk_receiver(tmp_path / "dcmtk") as port:
        for syntax, path in known.items():
            for to in (port, site.port):
                ran = subprocess.run(
                    [tool("storescu"), "-R", DCMTK[syntax], "-aec", "CTREPORT", "127.0.0.1", str(to), str(path)],
                    capture_output=True,
                    timeout=30,
                    check=False,
                )
                assert ran.returncode == 0, (syntax, ran.stderr)
        wanted = eventually(lambda: len(files := sorted((tmp_path / "dcmtk").iterdir())) == len(known) and files)
    assert {(image.syntax, image.data) for image in kept(site)} == {(image.syntax, image.data) for image in map(read, wanted)}


@contextmanager
def dcmtk_receiver(folder: Path) -> Iterator[int]:
    """DCMTK's storescp, bit preserving, each object under a name of its own; yields its port."""
    folder.mkdir()
    port = free_port()
    process = subprocess.Popen([tool("storescp"), "+B", "+xa", "+uf", "-fe", ".dcm", "-aet", "CTREPORT", "-od", str(folder), str(port)])
    try:
        eventually(lambda: is_listening(port))
        yield port
    finally:
        process.terminate()
        process.wait(timeout=10)
