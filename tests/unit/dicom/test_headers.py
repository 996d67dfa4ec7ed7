"""Header facts from raw bytes."""

from __future__ import annotations

import zlib
from dataclasses import replace
from datetime import date
from io import BytesIO
from pathlib import Path
from time import perf_counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydicom import dcmwrite
from pydicom.dataset import Dataset
from pydicom.uid import (
    CTImageStorage,
    DeflatedExplicitVRLittleEndian,
    EnhancedCTImageStorage,
    ExplicitVRBigEndian,
    ExplicitVRLittleEndian,
    ImplicitVRLittleEndian,
)
from pynetdicom.dsutils import split_dataset

from pipeline.dicom.headers import read_header
from pipeline.errors import UnreadableDicom
from pipeline.model import Header, Priority
from pipeline.ports import Arrival


def arrival(data: bytes, syntax: str = ExplicitVRLittleEndian, sop_uid: str = "1.2.3.4", sop_class: str = CTImageStorage) -> Arrival:
    return Arrival(sop_class, sop_uid, syntax, data, len(data), None)


def of_file(path: Path) -> Arrival:
    meta, start = split_dataset(path)
    sop_uid, sop_class = str(meta.MediaStorageSOPInstanceUID), str(meta.MediaStorageSOPClassUID)
    return arrival(path.read_bytes()[start:], str(meta.TransferSyntaxUID), sop_uid, sop_class)


def ct(**changes: object) -> Dataset:
    """A small CT image."""
    ds = Dataset()
    ds.SpecificCharacterSet = "GB18030"
    ds.SOPClassUID, ds.SOPInstanceUID = CTImageStorage, "1.2.3.4"
    ds.StudyInstanceUID, ds.SeriesInstanceUID = "1.2.3", "1.2.3.1"
    ds.Modality, ds.PatientName, ds.PatientID = "CT", "张^小东", "P1"
    ds.SamplesPerPixel, ds.PhotometricInterpretation = 1, "MONOCHROME2"
    ds.Rows = ds.Columns = 2
    ds.BitsAllocated, ds.BitsStored, ds.HighBit, ds.PixelRepresentation = 16, 12, 11, 0
    ds.PixelData = bytes(8)
    ds["PixelData"].VR = "OW"
    for keyword, value in changes.items():
        if value is None:
            delattr(ds, keyword)
        else:
            setattr(ds, keyword, value)
    return ds


def encoded(ds: Dataset, implicit: bool = False, little_endian: bool = True) -> bytes:
    """Data set bytes, without file meta."""
    buffer = BytesIO()
    dcmwrite(buffer, ds, implicit_vr=implicit, little_endian=little_endian)
    return buffer.getvalue()


def read(**changes: object) -> Header:
    return read_header(arrival(encoded(ct(**changes))))


def test_the_real_chest_ct(test_data: Path) -> None:
    header = read_header(of_file(sorted((test_data / "chest_lidc_0314").glob("*.dcm"))[0]))
    assert header.instance.image_type[:3] == ("ORIGINAL", "PRIMARY", "AXIAL")
    assert (header.instance.rows, header.instance.columns, header.body_part, header.thickness_mm) == (512, 512, "CHEST", 1.0)
    assert header.instance.position_mm is not None
    assert list(header.instance.orientation or ()) == [1, 0, 0, 0, 1, 0]
    assert header.instance.flags == ()


@pytest.mark.parametrize(("syntax", "implicit", "little"), [(ImplicitVRLittleEndian, True, True), (ExplicitVRBigEndian, False, False)])
def test_every_encoding_reads_the_same(syntax: str, implicit: bool, little: bool) -> None:
    data = encoded(ct(), implicit, little)
    found = read_header(arrival(data, syntax)).instance
    assert (found.rows, found.study_uid, found.flags) == (2, "1.2.3", ())


def test_every_file_of_transfer_syntaxes_reads_without_a_flag(test_data: Path) -> None:
    for path in sorted((test_data / "transfer_syntaxes").glob("*.dcm")):
        header = read_header(of_file(path))
        assert header.instance.flags == (), path.name
        assert header.series_description == "HELICAL CHEST"


def test_who_and_why() -> None:
    header = read(
        RequestedProcedureDescription="胸部平扫", PatientBirthDate="19500102", PatientSex="M", StudyDate="20261130", RequestedProcedurePriority="STAT"
    )
    assert (header.patient.name, header.patient.name_guess, header.patient.birth_date) == ("张^小东", False, date(1950, 1, 2))
    assert (header.indication, header.study_date, header.priority) == ("胸部平扫", date(2026, 11, 30), Priority.STAT)
    assert read(ReasonForTheRequestedProcedure="咳嗽", RequestedProcedureDescription="胸部平扫").indication == "咳嗽"


def test_the_indication_may_stand_in_the_request_attributes() -> None:
    item = Dataset()
    item.ReasonForTheRequestedProcedure = "发热"
    assert read(RequestAttributesSequence=[item]).indication == "发热"


@pytest.mark.parametrize("keyword", ["StudyInstanceUID", "SeriesInstanceUID"])
@pytest.mark.parametrize("value", [None, "", "1.2\\1.3", "1." + "2" * 70])
@pytest.mark.filterwarnings("ignore")
def test_without_a_usable_study_or_series_uid_it_is_unreadable(keyword: str, value: str | None) -> None:
    ds = ct(**{keyword: None})
    if value is not None:
        ds.add_new(keyword, "UI", value)
    with pytest.raises(UnreadableDicom, match=keyword):
        read_header(arrival(encoded(ds)))


def test_an_empty_instance_number_is_no_fault() -> None:
    header = read(InstanceNumber="")
    assert (header.instance.instance_number, header.instance.flags) == (None, ())


def test_a_guess_in_name_or_text_is_marked_and_costs_no_flag() -> None:
    sure = read(StudyDescription="胸部平扫")
    assert (sure.text_guess, sure.patient.name_guess, sure.patient.name_charset) == (False, False, "GB18030")
    ds = ct(StudyDescription="胸部平扫", SeriesDescription="轴位")
    unlabelled = encoded(ds).replace(b"GB18030 ", b"ISO_IR 6")
    header = read_header(arrival(unlabelled))
    assert (header.study_description, header.text_guess) == ("胸部平扫", True)
    assert (header.patient.name, header.patient.name_guess, header.patient.name_charset) == ("张^小东", True, "GB18030")
    assert header.instance.flags == ()


def test_the_requesting_service_stands_in_the_image_or_its_request_and_names_who_asked() -> None:
    item = Dataset()
    item.RequestingService = "呼吸与危重症医学科"
    assert read(RequestingService="肿瘤内科", RequestAttributesSequence=[item]).requesting_service == "肿瘤内科"
    assert read(RequestAttributesSequence=[item]).requesting_service == "呼吸与危重症医学科"
    assert read(RequestingService="").requesting_service == read().requesting_service == ""


def test_a_guess_in_the_indication_counts_wherever_it_stands() -> None:
    item = Dataset()
    item.ReasonForTheRequestedProcedure = "发热"
    unlabelled = encoded(ct(PatientName="A", RequestAttributesSequence=[item])).replace(b"GB18030 ", b"ISO_IR 6")
    header = read_header(arrival(unlabelled))
    assert (header.indication, header.text_guess, header.patient.name_guess) == ("发热", True, False)


def test_a_request_with_more_items_than_any_study_has_is_not_read() -> None:
    item = Dataset()
    item.ReasonForTheRequestedProcedure, item.TextValue = "x", "x" * 60_000
    header = read(RequestAttributesSequence=[item] * 6)
    assert (header.indication, header.instance.flags) == ("", ("sequence-unreadable",))


@pytest.mark.filterwarnings("ignore")
def test_values_of_megabytes_are_cut_before_they_cost_time() -> None:
    ds = ct(PatientName=None)
    for keyword, vr, value in (
        ("PatientName", "UN", "张".encode("gbk") * (2 << 20)),
        ("StudyDescription", "UN", b"\xc4" * (1 << 20)),
        ("ImageType", "UN", b"A\\" * (1 << 20)),
        ("SpecificCharacterSet", "UN", b"GB18030"),
    ):
        ds.add_new(keyword, vr, value)
    began = perf_counter()
    header = read_header(arrival(encoded(ds)))
    assert perf_counter() - began < 2
    assert (header.patient.name[:2], len(header.patient.name)) == ("张张", 324)
    assert len(header.instance.image_type) <= 2049


@pytest.mark.parametrize(("said", "lossy"), [("01", True), ("00", False), ("", False), ("2", False)])
def test_an_image_is_lossy_where_its_header_says_so(said: str, lossy: bool) -> None:
    assert read(LossyImageCompression=said).instance.lossy is lossy


def test_the_head_of_a_large_object_gives_its_whole_header() -> None:
    data = encoded(ct(NumberOfFrames=4, PixelData=bytes(32)))
    whole, head = arrival(data), arrival(data[:-20])
    assert read_header(replace(head, size=len(data))) == read_header(whole)
    assert read_header(head).instance.flags == ("data-set-truncated",)


def test_a_study_uid_beyond_the_head_is_unreadable_and_says_where_it_was_looked_for() -> None:
    ds = Dataset()
    ds.add_new(0x00090010, "LO", "US")
    ds.add_new(0x00091001, "OB", bytes(9 << 20))
    data = encoded(ds) + encoded(ct())
    with pytest.raises(UnreadableDicom, match="in the first 8 MiB"):
        read_header(replace(arrival(data[: 8 << 20]), size=len(data)))


def test_pixels_that_do_not_fit_the_header_are_flagged() -> None:
    assert read(PixelData=bytes(6)).instance.flags == ("pixel-length-differs",)
    assert read(PixelData=None).instance.flags == ("pixel-data-missing",)
    assert read(Rows=0).instance.flags == ("rows-or-columns-missing",)
    truncated = read_header(arrival(encoded(ct())[:-4]))
    assert truncated.instance.flags == ("data-set-truncated",)


def test_implicit_bytes_under_an_explicit_label_are_read_and_flagged() -> None:
    found = read_header(arrival(encoded(ct(), implicit=True)))
    assert found.instance.study_uid == "1.2.3"
    assert "encoding-differs" in found.instance.flags


def test_a_deflate_bomb_and_a_wide_header_end_in_time() -> None:
    compressor = zlib.compressobj(9, zlib.DEFLATED, -15)
    bomb = compressor.compress(encoded(ct())[:200] + bytes(200 << 20)) + compressor.flush()
    began = perf_counter()
    assert "too-many-elements" in read_header(arrival(bomb, DeflatedExplicitVRLittleEndian)).instance.flags
    wide = b"".join(b"\x09\x00" + bytes((n % 256, n // 256 % 256)) + b"LO\x00\x00" for n in range(60_000))
    with pytest.raises(UnreadableDicom):
        read_header(arrival(wide))
    assert perf_counter() - began < 10


@given(
    st.binary(max_size=600), st.sampled_from([ExplicitVRLittleEndian, ImplicitVRLittleEndian, ExplicitVRBigEndian, DeflatedExplicitVRLittleEndian])
)
@pytest.mark.filterwarnings("ignore")
def test_whatever_the_bytes_the_only_error_is_unreadable(data: bytes, syntax: str) -> None:
    with pytest.raises(UnreadableDicom):
        read_header(arrival(data, syntax))


VALID = encoded(ct(ImagePositionPatient=[1, 2, 3], InstanceNumber=7))


@given(st.lists(st.tuples(st.integers(0, len(VALID) - 1), st.integers(0, 255)), min_size=1, max_size=6))
@settings(max_examples=300)
@pytest.mark.filterwarnings("ignore")
def test_a_mutated_header_is_read_or_unreadable(changes: list[tuple[int, int]]) -> None:
    data = bytearray(VALID)
    for place, value in changes:
        data[place] = value
    try:
        header = read_header(arrival(bytes(data)))
    except UnreadableDicom:
        return
    assert 0 < len(header.instance.study_uid) <= 64


def test_what_the_choice_of_a_series_needs() -> None:
    header = read(
        SeriesNumber=3,
        AcquisitionNumber=2,
        TemporalPositionIdentifier=4,
        KVP="100",
        ProtocolName="胸部平扫",
        ContrastBolusAgent="Iohexol",
        NumberOfFrames=1,
    )
    assert (header.series_number, header.kvp, header.protocol, header.contrast_agent) == (3, 100.0, "胸部平扫", "Iohexol")
    assert (header.instance.acquisition, header.instance.temporal, header.instance.frames, header.instance.flags) == (2, 4, 1, ())
    bare = read()
    assert (bare.series_number, bare.kvp, bare.contrast_agent, bare.protocol) == (None, None, "", "")
    assert (bare.instance.acquisition, bare.instance.temporal, bare.instance.frames) == (None, None, 1)


@pytest.mark.parametrize("frames", ["0", "-3", "many"])
def test_a_number_of_frames_that_cannot_be_is_one(frames: str) -> None:
    ds = ct()
    ds.add_new("NumberOfFrames", "IS", None)
    ds["NumberOfFrames"]._value = frames
    found = read_header(arrival(encoded(ds)))
    assert found.instance.frames == 1


def test_frames_are_counted_however_long_the_functional_groups_are() -> None:
    ds = ct(SOPClassUID=EnhancedCTImageStorage, NumberOfFrames=400, ContrastBolusAgentSequence=[code("C-B0322", "SRT", "Iohexol")])
    ds.PerFrameFunctionalGroupsSequence = [frame(n) for n in range(400)]
    data = encoded(ds)
    found = read_header(replace(arrival(data, sop_class=EnhancedCTImageStorage), head=data[:2048]))
    assert (found.instance.frames, found.contrast_agent) == (400, "对比剂")


def code(value: str, scheme: str, meaning: str) -> Dataset:
    item = Dataset()
    item.CodeValue, item.CodingSchemeDesignator, item.CodeMeaning = value, scheme, meaning
    return item


def frame(number: int) -> Dataset:
    """Functional groups of one frame."""
    place, item = Dataset(), Dataset()
    place.ImagePositionPatient = [0.0, 0.0, float(number)]
    item.PlanePositionSequence = [place]
    return item
