"""Dose reports and dose screens are told from everything else, and an ordinary image is never one."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydicom.dataset import Dataset
from pydicom.uid import CTImageStorage, EnhancedSRStorage, SecondaryCaptureImageStorage

from pipeline.dicom.headers import read_header
from tests.unit.dicom.test_headers import arrival, ct, encoded, of_file

FILES = {
    "dose_reports/CT-ESR-GE_Optima.dcm": ("SR", "dose-report"),
    "dose_reports/CT-RDSR-Siemens-Continued-1.dcm": ("SR", "dose-report"),
    "dose_reports/CT-RDSR-Siemens-Continued-2.dcm": ("SR", "dose-report"),
    "dose_reports/CT-RDSR-Siemens_Flash-TAP-SS.dcm": ("SR", "dose-report"),
    "dose_reports/CT-RDSR-Toshiba_DoseCheck.dcm": ("SR", "dose-report"),
    "dose_reports/CT-SC-Philips_Brilliance16P.dcm": ("CT", "dose-screen"),
    "dose_reports/ESR_non-dose.dcm": ("SR", ""),
    "not_for_reading/philips_exam_summary.dcm": ("CT", ""),
    "not_for_reading/philips_surview.dcm": ("CT", ""),
    "not_for_reading/siemens_topogram_j2k.dcm": ("CT", ""),
    "odd_headers/CT_small.dcm": ("CT", ""),
    "odd_headers/reportsi.dcm": ("SR", ""),
    "odd_headers/test-SR.dcm": ("SR", ""),
}


@pytest.mark.parametrize("file", FILES)
def test_each_file_says_what_it_is_without_an_odd_answer(test_data: Path, file: str) -> None:
    found = read_header(of_file(test_data / file)).instance
    assert (found.modality, found.content) == FILES[file]
    assert not any("dose" in flag for flag in found.flags)  # any flag makes the answer 0xB007


def test_no_dose_file_is_forgotten(test_data: Path) -> None:
    assert {f"dose_reports/{path.name}" for path in (test_data / "dose_reports").glob("*.dcm")} <= set(FILES)


def content(sop_class: str = CTImageStorage, **changes: object) -> str:
    ds = ct(SOPClassUID=sop_class, **changes)
    return read_header(arrival(encoded(ds), sop_class=sop_class)).instance.content


@pytest.mark.parametrize("description", ["Dose Report", "DOSE INFO", "Dose_Record", "Patient Protocol", "剂量报告", "患者剂量信息"])
def test_a_page_of_figures_is_a_dose_screen(description: str) -> None:
    assert content(SecondaryCaptureImageStorage, SeriesDescription=description) == "dose-screen"
    assert content(ImageType=["DERIVED", "SECONDARY", "SCREEN SAVE"], SeriesDescription=description) == "dose-screen"


@pytest.mark.parametrize("description", ["Low dose chest", "LOW-DOSE 1.0", "低剂量胸部", "Dose Info", "MPR low dose"])
def test_an_original_image_is_never_a_dose_screen(description: str) -> None:
    assert content(ImageType=["ORIGINAL", "PRIMARY", "AXIAL"], SeriesDescription=description) == ""


@pytest.mark.parametrize("description", ["Low dose chest MPR", "低剂量 MPR", "Reformatted"])
def test_a_reformatted_low_dose_scan_is_none_either(description: str) -> None:
    assert content(ImageType=["DERIVED", "SECONDARY", "MPR"], SeriesDescription=description) == ""


@pytest.mark.parametrize(("code", "scheme", "expected"), [("113701", "DCM", "dose-report"), ("113701", "99X", ""), ("18748-4", "LN", "")])
@pytest.mark.parametrize("undefined", [True, False])
def test_a_structured_report_is_known_by_its_title(code: str, scheme: str, expected: str, undefined: bool) -> None:
    title = Dataset()
    title.CodeValue, title.CodingSchemeDesignator, title.CodeMeaning = code, scheme, "X"
    ds = ct(SOPClassUID=EnhancedSRStorage, ConceptNameCodeSequence=[title])
    ds["ConceptNameCodeSequence"].is_undefined_length = undefined
    found = read_header(arrival(encoded(ds), sop_class=EnhancedSRStorage)).instance
    assert found.content == expected
