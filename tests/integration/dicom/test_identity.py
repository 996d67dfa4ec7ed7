"""Over the wire: names right and guesses marked, odd UIDs merge and lose nothing, dose objects say what they are, every byte is kept."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.store import guesses
from tests.builders import ct_slice
from tests.integration.dicom import images
from tests.integration.dicom.conftest import Site
from tests.integration.dicom.images import Image
from tests.unit.dicom.names import CHINESE, DESIGNATION, TEXTS
from tests.unit.dicom.test_charset_files import NAMES
from tests.wire import Peer

SUCCESS, ODD, CANNOT = 0x0000, 0xB007, 0xC000
PATIENT_ID = b"\x10\x00\x20\x00LO"
NESTED = {"chrSQEncoding.dcm", "chrSQEncoding1.dcm"}  # no data set of their own: no UIDs, no patient
RADIOGRAPHS = {"chrJapMulti.dcm", "chrJapMultiExplicitIR6.dcm", "chrKoreanMulti.dcm"}  # of a class that is not taken here
TAKEN = [file for file in NAMES if file not in NESTED | RADIOGRAPHS]


def named(number: int, raw: bytes, label: str, **keywords: object) -> Image:
    """A CT image of a patient of its own, the name as these bytes, whatever the label says."""
    ds = ct_slice(f"name {number}", PatientID=f"N-{number}", SpecificCharacterSet=label.split("\\"), **keywords)  # type: ignore[arg-type]  # DICOM keywords
    del ds.PatientName
    image = images.of(ds)
    padded = raw + b" " * (len(raw) % 2)
    element = struct.pack("<HH2sH", 0x0010, 0x0010, b"PN", len(padded)) + padded
    return replace(image, data=image.data.replace(PATIENT_ID, element + PATIENT_ID))


def without(image: Image, keyword_bytes: bytes) -> Image:
    """The image with a short element (tag and VR) taken out."""
    at = image.data.index(keyword_bytes)
    (length,) = struct.unpack_from("<H", image.data, at + 6)
    return replace(image, data=image.data[:at] + image.data[at + 8 + length :])


SOP_UID, STUDY_UID = b"\x08\x00\x18\x00UI", b"\x20\x00\x0d\x00UI"


@pytest.mark.filterwarnings("ignore")
def test_every_charset_file_arrives_with_its_name_and_its_bytes_and_no_guess(site: Site, test_data: Path) -> None:
    sent = [images.read(test_data / "odd_headers" / "charset_files" / file) for file in TAKEN]
    for image in sent:
        with Peer(site.port, image.kind) as peer:
            assert image.sent(peer) in (SUCCESS, ODD)
    found = {name for (name,) in site.rows("SELECT name FROM patients")}
    assert found == {NAMES[file][0] for file in TAKEN}
    assert site.rows("SELECT count(*) FROM patients WHERE name_guess OR name LIKE '%?%'") == [(0,)]
    assert images.bytes_kept(site, "objects") == {image.data for image in sent}


def test_the_usual_chinese_faults_arrive_right_marked_and_listed(site: Site) -> None:
    name = CHINESE[0]
    faults = {
        1: named(1, name.encode("gb18030"), "ISO_IR 100"),
        2: named(2, name.encode("gb18030"), ""),
        3: named(3, name.encode(), "ISO_IR 100"),
        4: named(4, name.encode(), "GB18030"),
        5: named(5, name.encode("gb18030"), "\\ISO 2022 IR 58"),
        6: named(6, name.encode().decode("latin-1").encode(), "ISO_IR 192"),
    }
    right = {
        7: named(7, name.encode("gb18030"), "GB18030"),
        8: named(8, name.encode(), "ISO_IR 192"),
        9: named(9, DESIGNATION + name.encode("gb2312").replace(b"^", b"^" + DESIGNATION), "\\ISO 2022 IR 58"),
    }
    with Peer(site.port) as peer:
        assert {image.sent(peer) for image in (faults | right).values()} == {SUCCESS}
    assert site.rows("SELECT DISTINCT name FROM patients") == [(name,)]
    marked = {row for (row,) in site.rows("SELECT patient_id FROM patients WHERE name_guess")}
    assert marked == {f"N-{number}" for number in faults}
    listed = guesses.guesses(site.store)
    assert {one["patient_id"] for one in listed} == marked
    assert images.bytes_kept(site, "objects") == {image.data for image in (faults | right).values()}
    assert all((site.root / one["file"]).is_file() for one in listed)  # where a person sees the bytes


def test_free_text_under_a_wrong_label_is_right_and_marked(site: Site) -> None:
    ds = ct_slice("texts", StudyDescription=TEXTS[0], ReasonForTheRequestedProcedure=TEXTS[4], SpecificCharacterSet="GB18030", PatientName="A")
    image = images.of(ds)
    with Peer(site.port) as peer:
        assert replace(image, data=image.data.replace(b"GB18030 ", b"ISO_IR 6")).sent(peer) == SUCCESS
    assert site.rows("SELECT description, indication, text_guess FROM studies") == [(TEXTS[0], TEXTS[4], True)]
    assert [one["what"] for one in guesses.guesses(site.store)] == ["text"]


def test_two_images_without_any_sop_uid_are_two_files_in_quarantine_with_a_reason(site: Site) -> None:
    first, second = (replace(without(images.made(number), SOP_UID), sop_uid="") for number in (1, 2))
    with Peer(site.port) as peer:
        assert (first.sent(peer), second.sent(peer), first.sent(peer)) == (CANNOT, CANNOT, CANNOT)
    assert images.bytes_kept(site, "quarantine") == {first.data, second.data}
    reasons = {reason for (reason,) in site.rows("SELECT reason FROM quarantine")}
    assert len(reasons) == 1
    assert "neither the data set nor the request has a SOPInstanceUID that can serve as one: mend the sender" in reasons.pop()
    assert site.rows("SELECT count(*) FROM instances") == [(0,)]


def test_two_studies_without_a_study_uid_are_never_one(site: Site) -> None:
    first, second = (without(images.made(number, study), STUDY_UID) for number, study in ((1, "one"), (2, "two")))
    with Peer(site.port) as peer:
        assert (first.sent(peer), second.sent(peer)) == (CANNOT, CANNOT)
    assert images.bytes_kept(site, "quarantine") == {first.data, second.data}
    assert site.rows("SELECT count(*) FROM studies") == [(0,)]


def test_two_images_under_one_request_uid_are_two_images(site: Site) -> None:
    first, second = (replace(images.made(number), sop_uid="1.2.3") for number in (1, 2))
    with Peer(site.port) as peer:
        assert (first.sent(peer), second.sent(peer)) == (ODD, ODD)
    assert site.rows("SELECT count(*), bool_and(is_first), min(flags ->> 0) FROM instances") == [(2, True, "sop-uid-differs")]
    assert site.verified().clean


def test_an_image_without_a_sop_uid_of_its_own_takes_the_requests(site: Site) -> None:
    first, second = (without(images.made(number), SOP_UID) for number in (1, 2))
    with Peer(site.port) as peer:
        assert (first.sent(peer), second.sent(peer), second.sent(peer)) == (ODD, ODD, ODD)
    assert {uid for (uid,) in site.rows("SELECT sop_uid FROM instances")} == {first.sop_uid, second.sop_uid}
    assert site.verified().clean


def test_a_request_without_a_sop_uid_takes_the_data_sets(site: Site) -> None:
    image = images.made(1)
    with Peer(site.port) as peer:
        assert replace(image, sop_uid="").sent(peer) == ODD
    assert site.rows("SELECT sop_uid, flags ->> 0 FROM instances") == [(image.sop_uid, "request-sop-uid-missing")]


@pytest.mark.filterwarnings("ignore")
def test_dose_reports_and_screens_are_kept_and_say_what_they_are(site: Site, test_data: Path) -> None:
    for file in sorted((test_data / "dose_reports").glob("*.dcm")):
        image = images.read(file)
        with Peer(site.port, image.kind) as peer:
            assert image.sent(peer) == SUCCESS, file.name
    found = site.rows("SELECT content, count(*) FROM instances GROUP BY content ORDER BY content")
    assert found == [("", 1), ("dose-report", 5), ("dose-screen", 1)]
