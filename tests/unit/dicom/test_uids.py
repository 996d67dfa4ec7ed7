"""The table of `pipeline/dicom/uids.py`, line by line, as the header reader applies it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.dicom.headers import read_header
from pipeline.dicom.uids import Verdict, judged
from pipeline.errors import UnreadableDicom
from pipeline.model import Header
from tests.unit.dicom.test_headers import arrival, ct, encoded

UNREADABLE = ("1." + "2" * 70, "1.2\\1.3", "1.2 .3", "1.2\x00.3", "1.2.３", "0", "UNKNOWN", "NOT-KNOWN-HERE", "0.0", "1", "...", "1.2\n.3")
MALFORMED = ("1.02.3", "1.2.A", "1..2", ".1.2", "1.2.", "1.2.3-4", "05fa52f0e599f17b")
NOTHING = ("", " ", "\x00", " \x00 ")


def read(uids: dict[str, str | None], requested: str = "1.2.3.4") -> Header:
    """A CT image whose UIDs are these bytes; None leaves the element out."""
    ds = ct(**dict.fromkeys(uids))
    for keyword, value in uids.items():
        if value is not None:
            ds.add_new(keyword, "UI", "")
            ds[keyword]._value = value
    return read_header(arrival(encoded(ds), sop_uid=requested))


@pytest.mark.parametrize("uid", UNREADABLE)
def test_what_cannot_tell_objects_apart_is_unreadable(uid: str) -> None:
    assert judged(uid) == ("", Verdict.UNREADABLE)


@pytest.mark.parametrize("uid", MALFORMED)
def test_what_is_malformed_still_tells_objects_apart(uid: str) -> None:
    assert judged(f" {uid}\x00") == (uid, Verdict.MALFORMED)


@given(st.lists(st.integers(0, 10**9), min_size=2, max_size=5).filter(any))
def test_every_proper_uid_is_fine(parts: list[int]) -> None:
    uid = ".".join(map(str, parts))
    assert judged(uid + "\x00 ") == (uid, Verdict.FINE)


@given(st.text(max_size=80))
def test_no_text_raises_and_only_a_usable_uid_is_given_back(text: str) -> None:
    uid, verdict = judged(text)
    assert bool(uid) is verdict.usable
    assert len(uid) <= 64


@pytest.mark.parametrize("keyword", ["StudyInstanceUID", "SeriesInstanceUID"])
@pytest.mark.parametrize("value", [None, *NOTHING])
@pytest.mark.filterwarnings("ignore")
def test_without_a_study_or_series_uid_an_image_is_quarantined_and_never_joins_another(keyword: str, value: str | None) -> None:
    with pytest.raises(UnreadableDicom, match=f"{keyword} is missing: mend the sender"):
        read({keyword: value})


@pytest.mark.parametrize("keyword", ["StudyInstanceUID", "SeriesInstanceUID"])
@pytest.mark.parametrize("value", [uid for uid in UNREADABLE if uid.isascii()])
@pytest.mark.filterwarnings("ignore")
def test_an_unreadable_study_or_series_uid_is_quarantined_with_what_is_wrong(keyword: str, value: str) -> None:
    with pytest.raises(UnreadableDicom, match=f"{keyword} cannot serve as a UID") as caught:
        read({keyword: value})
    assert value not in str(caught.value) or len(value) < 4  # no UID leaves in a message


@pytest.mark.parametrize("value", MALFORMED)
@pytest.mark.filterwarnings("ignore")
def test_malformed_uids_are_kept_as_they_are_and_flagged(value: str) -> None:
    found = read(dict.fromkeys(("StudyInstanceUID", "SeriesInstanceUID", "SOPInstanceUID"), value), value).instance
    assert (found.study_uid, found.series_uid, found.sop_uid) == (value, value, value)
    assert found.flags == ("series-uid-malformed", "sop-uid-malformed", "study-uid-malformed")


@pytest.mark.parametrize("value", ["1.2.3.4 ", "1.2.3.4\x00\x00", " 1.2.3.4"])
@pytest.mark.filterwarnings("ignore")
def test_padding_is_no_difference(value: str) -> None:
    assert read({"SOPInstanceUID": value}, value).instance.flags == ()
    assert read({"SOPInstanceUID": value}).instance.sop_uid == "1.2.3.4"


@pytest.mark.parametrize("value", [None, *NOTHING])
@pytest.mark.filterwarnings("ignore")
def test_a_missing_sop_uid_is_the_requests(value: str | None) -> None:
    found = read({"SOPInstanceUID": value}).instance
    assert (found.sop_uid, found.flags) == ("1.2.3.4", ("sop-uid-missing",))


@pytest.mark.parametrize("value", [uid for uid in UNREADABLE if uid.isascii()])
@pytest.mark.filterwarnings("ignore")
def test_an_unreadable_sop_uid_is_the_requests(value: str) -> None:
    found = read({"SOPInstanceUID": value}).instance
    assert (found.sop_uid, found.flags) == ("1.2.3.4", ("sop-uid-unreadable",))


@pytest.mark.parametrize("requested", [*NOTHING, *UNREADABLE, "None"])
def test_a_request_without_a_usable_sop_uid_takes_the_data_sets(requested: str) -> None:
    found = read({}, requested).instance
    assert found.sop_uid == "1.2.3.4"
    assert found.flags in (("request-sop-uid-missing",), ("request-sop-uid-unreadable",))


@pytest.mark.parametrize("requested", [*NOTHING, *UNREADABLE, "None"])
@pytest.mark.parametrize("value", [None, "", "UNKNOWN"])
@pytest.mark.filterwarnings("ignore")
def test_without_any_sop_uid_an_image_is_quarantined(requested: str, value: str | None) -> None:
    with pytest.raises(UnreadableDicom, match="neither the data set nor the request"):
        read({"SOPInstanceUID": value}, requested)


def test_two_images_under_one_request_uid_are_two_images() -> None:
    first, second = read({"SOPInstanceUID": "1.9.1"}), read({"SOPInstanceUID": "1.9.2"})
    assert (first.instance.sop_uid, second.instance.sop_uid) == ("1.9.1", "1.9.2")
    assert first.instance.flags == second.instance.flags == ("sop-uid-differs",)


@pytest.mark.parametrize(("value", "flag"), [(None, "sop-class-missing"), ("UNKNOWN", "sop-class-unreadable")])
@pytest.mark.filterwarnings("ignore")
def test_a_missing_sop_class_is_the_requests(value: str | None, flag: str) -> None:
    found = read({"SOPClassUID": value}).instance
    assert (found.sop_class, found.flags) == ("1.2.840.10008.5.1.4.1.1.2", (flag,))
