"""Dose reports: the figures of the public files, every way a report can be odd, and what no report may do."""

from __future__ import annotations

import struct
from contextlib import suppress
from datetime import date
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydicom.dataset import Dataset
from pydicom.filewriter import dcmwrite
from pydicom.uid import (
    UID,
    DeflatedExplicitVRLittleEndian,
    EnhancedSRStorage,
    EnhancedXRayRadiationDoseSRStorage,
    ExplicitVRBigEndian,
    ImplicitVRLittleEndian,
)

from pipeline.dicom import dose_tree
from pipeline.dicom.dose import MOST_BYTES, read_dose
from pipeline.errors import PipelineError, ServiceUnavailable, UnreadableDicom, Unsupported
from pipeline.irradiation import DoseReading, DoseSource, Irradiation
from tests import builders
from tests.dose_reports import ABDOMEN, HEAD, HEAD_PHANTOM, LOCALIZER, acquisition, dose_report, item, number


def read(folder: Path, ds: Dataset) -> DoseReading:
    (path,) = builders.write(folder, [ds])
    return read_dose(path)


def only(folder: Path, ds: Dataset) -> Irradiation:
    (event,) = read(folder, ds).events
    return event


# name, source, total DLP, DLP of each event as they stand in the file (read by hand from dcmdump)
FILES = [
    ("CT-ESR-GE_Optima.dcm", DoseSource.ENHANCED_SR, 415.82, [0, 0, 155.97, 0, 0, 259.85], "abdomen"),
    ("CT-RDSR-Siemens_Flash-TAP-SS.dcm", DoseSource.RDSR, 724.52, [11.51, 1.2, 3.61, 708.2], "abdomen"),
    ("CT-RDSR-Toshiba_DoseCheck.dcm", DoseSource.RDSR, 502.40, [251.2, 251.2], "abdomen"),
    ("CT-RDSR-Siemens-Continued-1.dcm", DoseSource.RDSR, 60.17, [5.05, 55.12], "chest"),
    ("CT-RDSR-Siemens-Continued-2.dcm", DoseSource.RDSR, 56.44, [4.62, 51.82], "chest"),
]


@pytest.mark.parametrize(("name", "source", "total", "dlps", "region"), FILES, ids=[row[0] for row in FILES])
def test_every_public_report_gives_its_dlp(test_data: Path, name: str, source: DoseSource, total: float, dlps: list[float], region: str) -> None:
    found = read_dose(test_data / "dose_reports" / name)
    assert found.source is source
    assert found.total_dlp_mgy_cm == pytest.approx(total)
    assert [event.dlp_mgy_cm for event in found.events] == pytest.approx(dlps)
    assert found.events[-1].region == region
    assert found.events[-1].kind == "spiral"
    assert found.events[-1].phantom_cm == 32
    assert found.notes == ()
    assert all(event.source is source and event.event_uid.startswith("1.3.6.1.4.1.5962") for event in found.events)


def test_the_continued_pair_adds_up_and_shares_no_event(test_data: Path) -> None:
    first, second = (read_dose(test_data / "dose_reports" / f"CT-RDSR-Siemens-Continued-{part}.dcm") for part in (1, 2))
    events = {event.event_uid: event.dlp_mgy_cm or 0.0 for event in (*first.events, *second.events)}
    assert first.study_uid == second.study_uid
    assert (len(events), round(sum(events.values()), 6)) == (4, 116.61)


def test_every_other_public_file_has_a_named_reason(test_data: Path) -> None:
    read = {row[0] for row in FILES}
    reasons = {}
    for path in sorted((test_data / "dose_reports").iterdir()):
        if path.name not in read:
            with pytest.raises(Unsupported) as caught:
                read_dose(path)
            reasons[path.name] = str(caught.value)
    assert "a picture of dose figures: kept unread" in reasons["CT-SC-Philips_Brilliance16P.dcm"]
    assert "(18748-4, LN)" in reasons["ESR_non-dose.dcm"]
    assert len(reasons) == 2


def test_what_an_event_carries(tmp_path: Path) -> None:
    found = read(tmp_path, dose_report(acquisition(region=HEAD, phantom=HEAD_PHANTOM), total=500, events=1, PatientAge="056Y"))
    (event,) = found.events
    assert (event.region, event.phantom_cm, event.dlp_mgy_cm, event.ctdivol_mgy, event.kvp) == ("head", 16, 500.0, 10.0, 120.0)
    assert (found.age_years, found.study_date, found.patient.patient_id) == (56.0, date(2026, 1, 15), "P-1")
    assert (found.notes, event.notes) == ((), ())


@pytest.mark.parametrize(("unit", "dlp"), [("mGy.cm", 500.0), ("mGycm", 500.0), ("MGY.CM", 500.0), ("Gy.cm", 500_000.0), ("uGy.cm", 0.5)])
def test_units_are_converted(tmp_path: Path, unit: str, dlp: float) -> None:
    event = only(tmp_path, dose_report(acquisition(dlp=dlp and 500.0 if dlp != 500_000.0 else 5.0, unit=unit)))
    assert event.dlp_mgy_cm == pytest.approx(dlp if dlp != 500_000.0 else 5_000.0)


@pytest.mark.parametrize("value", ["-5", "NaN", "inf", "-inf", "1e9", "abc", "5,0", "0x10"])
def test_an_absurd_dlp_counts_for_nothing_and_is_told(tmp_path: Path, value: str) -> None:
    event = only(tmp_path, dose_report(acquisition(dlp=value)))
    assert event.dlp_mgy_cm is None
    assert any(f"DLP 的值“{value}" in note for note in event.notes)


@pytest.mark.parametrize("unit", ["mGy.cm2", "mSv", "1", "Gy"])
def test_another_unit_is_not_guessed(tmp_path: Path, unit: str) -> None:
    event = only(tmp_path, dose_report(acquisition(unit=unit)))
    assert event.dlp_mgy_cm is None
    assert unit in event.notes[0]


def test_a_missing_unit_is_the_usual_one_and_told(tmp_path: Path) -> None:
    event = only(tmp_path, dose_report(acquisition(unit="")))
    assert (event.dlp_mgy_cm, event.notes) == (500.0, ("DLP 未写单位，按常用单位计",))


def test_without_a_dlp_it_comes_from_ctdivol_and_length(tmp_path: Path) -> None:
    event = only(tmp_path, dose_report(acquisition(dlp=None)))
    assert (event.dlp_mgy_cm, event.notes) == (500.0, ("DLP 由 CTDIvol × 扫描长度算得",))


def test_without_any_figure_the_event_is_known_and_its_dose_is_not(tmp_path: Path) -> None:
    event = only(tmp_path, dose_report(acquisition(dlp=None, ctdivol=None)))
    assert (event.dlp_mgy_cm, event.notes) == (None, ("未给出 DLP",))


def test_a_localizer_without_figures_counts_as_nothing(tmp_path: Path) -> None:
    assert only(tmp_path, dose_report(acquisition(dlp=None, ctdivol=None, kind=LOCALIZER))).dlp_mgy_cm == 0.0


def test_containers_are_found_wherever_they_are_nested(tmp_path: Path) -> None:
    wrapped = acquisition()
    for depth in range(20):
        wrapped = item("CONTAINER", (f"99V-{depth}", "99VENDOR"), [wrapped])
    assert only(tmp_path, dose_report(wrapped)).dlp_mgy_cm == 500.0


def test_the_region_comes_from_the_protocol_where_no_code_says_it(tmp_path: Path) -> None:
    assert only(tmp_path, dose_report(acquisition(region=None, protocol="胸部低剂量平扫"))).region == "chest"
    assert only(tmp_path, dose_report(acquisition(region=("99", "99V"), protocol="Abdomen/Pelvis"))).region == "abdomen-pelvis"
    assert only(tmp_path, dose_report(acquisition(region=None))).region == ""


def test_one_event_twice_in_a_report_counts_once(tmp_path: Path) -> None:
    found = read(tmp_path, dose_report(acquisition("a", 400), acquisition("a", 500), total=500))
    assert [event.dlp_mgy_cm for event in found.events] == [500.0]
    assert any("只计一次" in note for note in found.notes)


def test_events_without_uids_keep_their_identity_in_a_cumulative_report(tmp_path: Path) -> None:
    one = read(tmp_path / "1", dose_report(acquisition(has_uid=False, protocol="A")))
    both = read(tmp_path / "2", dose_report(acquisition(has_uid=False, protocol="A"), acquisition(has_uid=False, protocol="A"), word="later"))
    assert one.events[0].event_uid == both.events[0].event_uid
    assert both.events[0].event_uid != both.events[1].event_uid


def test_a_report_with_only_a_sum_is_one_event_per_study(tmp_path: Path) -> None:
    first, later = (read(tmp_path / str(total), dose_report(total=total, word=str(total))) for total in (300, 700))
    assert first.events[0].event_uid == later.events[0].event_uid
    assert (later.events[0].source, later.events[0].dlp_mgy_cm) == (DoseSource.TOTAL, 700.0)


def test_sums_that_do_not_agree_are_told(tmp_path: Path) -> None:
    found = read(tmp_path, dose_report(acquisition(), total=900, events=3))
    assert found.notes == ("报告的总 DLP 900 与各次之和 500 mGy·cm 不符", "报告称有 3 次照射，逐次记录有 1 次")


@pytest.mark.parametrize(
    ("ds", "said"),
    [
        (dose_report(), "holds no CT dose"),
        (dose_report(total=-5), "holds no CT dose"),
        (dose_report(procedure=("113704", "DCM"), total=5), "another procedure than CT"),
        (dose_report(acquisition(), title=("121370", "DCM")), "not a CT dose report"),
        (dose_report(acquisition(), title=("113701", "99X"), sop_class=EnhancedSRStorage), "(113701, 99X)"),
        (dose_report(acquisition(), sop_class=EnhancedXRayRadiationDoseSRStorage), "TID 10040"),
        (builders.ct_slice(), "CT Image Storage"),
    ],
    ids=["empty", "negative sum", "angiography", "patient dose", "other scheme", "enhanced dose", "image"],
)
def test_what_holds_no_ct_dose_says_why(tmp_path: Path, ds: Dataset, said: str) -> None:
    with pytest.raises(Unsupported) as caught:
        read(tmp_path, ds)
    assert said in str(caught.value)


def test_a_tree_without_end_is_refused_soon(tmp_path: Path) -> None:
    wrapped = acquisition()
    for _ in range(80):
        wrapped = item("CONTAINER", ("1", "99V"), [wrapped])
    with pytest.raises(UnreadableDicom, match="64 levels"):
        read(tmp_path, dose_report(wrapped))


def test_a_tree_too_deep_for_any_reader_is_an_answer_too(tmp_path: Path) -> None:
    (path,) = builders.write(tmp_path, [dose_report(acquisition())])
    opening = b"\x40\x00\x30\xa7SQ\x00\x00\xff\xff\xff\xff\xfe\xff\x00\xe0\xff\xff\xff\xff"
    path.write_bytes(path.read_bytes() + opening * 20_000)
    with pytest.raises((UnreadableDicom, Unsupported)):
        read_dose(path)


def test_very_many_items_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dose_tree, "MOST_ITEMS", 40)
    many = item("CONTAINER", ("1", "99V"), [item("CONTAINER", ("2", "99V")) for _ in range(50)])
    with pytest.raises(UnreadableDicom, match="40 items"):
        read(tmp_path, dose_report(many))


def test_a_very_long_report_is_not_even_parsed(tmp_path: Path) -> None:
    (path,) = builders.write(tmp_path, [dose_report(acquisition())])
    with path.open("ab") as file:
        file.write(b"\x41\x00\x10\x10OB\x00\x00" + struct.pack("<L", MOST_BYTES) + bytes(MOST_BYTES))
    with pytest.raises(UnreadableDicom, match="more than 4 MiB"):
        read_dose(path)


def test_a_report_of_nothing_but_items_is_not_parsed(tmp_path: Path) -> None:
    (path,) = builders.write(tmp_path, [dose_report(acquisition())])
    path.write_bytes(path.read_bytes() + b"\x41\x00\x10\x10SQ\x00\x00\xff\xff\xff\xff" + b"\xfe\xff\x00\xe0\x00\x00\x00\x00" * 45_000)
    with pytest.raises(UnreadableDicom, match="40000 items"):
        read_dose(path)


@pytest.mark.parametrize("syntax", [ImplicitVRLittleEndian, ExplicitVRBigEndian, DeflatedExplicitVRLittleEndian])
def test_every_uncompressed_syntax_reads_the_same(tmp_path: Path, syntax: UID) -> None:
    ds = dose_report(acquisition(), acquisition("b", region=None, protocol="腹部平扫"))
    ds.file_meta.TransferSyntaxUID = syntax
    path = tmp_path / "sr.dcm"
    order = {"implicit_vr": syntax.is_implicit_VR, "little_endian": syntax.is_little_endian}
    dcmwrite(path, ds, force_encoding=True, **order)
    assert [(event.dlp_mgy_cm, event.region) for event in read_dose(path).events] == [(500.0, "chest"), (500.0, "abdomen")]


def test_a_deflated_bomb_is_not_inflated(tmp_path: Path) -> None:
    ds = dose_report(acquisition())
    ds.file_meta.TransferSyntaxUID = DeflatedExplicitVRLittleEndian
    ds.ContentSequence[0].TextValue = "0" * (8 << 20)
    path = tmp_path / "sr.dcm"
    ds.save_as(path, enforce_file_format=True)
    assert path.stat().st_size < 1 << 20
    with pytest.raises(UnreadableDicom, match="more than 4 MiB"):
        read_dose(path)


def test_a_disk_that_gives_no_bytes_is_not_the_files_fault(tmp_path: Path) -> None:
    with pytest.raises(ServiceUnavailable):
        read_dose(tmp_path / "gone.dcm")


def test_no_message_holds_patient_data(tmp_path: Path) -> None:
    for ds in (dose_report(), dose_report(acquisition(), title=("1", "2")), builders.ct_slice()):
        with pytest.raises(PipelineError) as caught:
            read(tmp_path, ds)
        assert not any(secret in str(caught.value) for secret in ("P-1", "张", builders.uid_of("study")))


WHOLE = builders.part10(dose_report(acquisition("a"), acquisition("b", region=ABDOMEN), total=1000, events=2))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_no_bytes_raise_anything_else(tmp_path: Path, data: st.DataObject) -> None:
    broken = bytearray(WHOLE[: data.draw(st.integers(0, len(WHOLE)))])
    for _ in range(data.draw(st.integers(0, 8))):
        if broken:
            broken[data.draw(st.integers(0, len(broken) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path / "broken.dcm"
    path.write_bytes(bytes(broken))
    with suppress(Unsupported, UnreadableDicom):
        found = read_dose(path)
        assert all(event.dlp_mgy_cm is None or 0 <= event.dlp_mgy_cm <= 50_000 for event in found.events)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.floats(0, 5000, allow_nan=False).map(lambda x: round(x, 2)), min_size=1, max_size=6))
def test_dlps_come_back_as_written(tmp_path: Path, dlps: list[float]) -> None:
    found = read(tmp_path, dose_report(*(acquisition(str(index), dlp) for index, dlp in enumerate(dlps)), total=round(sum(dlps), 2)))
    assert [event.dlp_mgy_cm for event in found.events] == dlps
    assert found.notes == ()


def test_a_number_helper_writes_what_it_is_told() -> None:
    assert number("113838", "NaN").MeasuredValueSequence[0].NumericValue == "NaN"
