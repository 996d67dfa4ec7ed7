"""What an instance is to the dose step: a dose report, a picture of dose figures, or neither. It is kept with the instance, beside its flags.

Reports: the SOP classes for them, and other structured reports whose title says so (GE sends its dose report as Enhanced SR; PS3.16 TID 10011).
Pictures: Philips names them in ImageType, the others in the series' description.
"""

from __future__ import annotations

import re

from pydicom.uid import (
    CTImageStorage,
    EnhancedXRayRadiationDoseSRStorage,
    PatientRadiationDoseSRStorage,
    SecondaryCaptureImageStorage,
    XRayRadiationDoseSRStorage,
)

from pipeline.dicom.elements import Elements

DOSE_REPORT, DOSE_SCREEN = "dose-report", "dose-screen"
DOSE_SR = frozenset({XRayRadiationDoseSRStorage, EnhancedXRayRadiationDoseSRStorage, PatientRadiationDoseSRStorage})
STRUCTURED_REPORTS = "1.2.840.10008.5.1.4.1.1.88."
DOSE_TITLES = frozenset({"113701", "113500", "121370"})  # DCM: X-Ray, Radiopharmaceutical and Patient Radiation Dose Report
_PAGE = re.compile(
    r"\bdose[\s_-]*(info|report|record|summary|page|sheet|screen|display)|patient[\s_-]*protocol|剂量(信息|报告|记录|表|单|页)", re.IGNORECASE
)


def content_of(elements: Elements, sop_class: str) -> str:
    """DOSE_REPORT, DOSE_SCREEN, or empty."""
    if sop_class in DOSE_SR or (sop_class.startswith(STRUCTURED_REPORTS) and _is_dose_title(elements)):
        return DOSE_REPORT
    captured = sop_class.startswith(SecondaryCaptureImageStorage)
    if (captured or sop_class == CTImageStorage) and _is_page(elements, captured):
        return DOSE_SCREEN
    return ""


def _is_dose_title(elements: Elements) -> bool:
    titles = elements.items("ConceptNameCodeSequence")
    return any(title.code("CodeValue") in DOSE_TITLES and title.code("CodingSchemeDesignator") == "DCM" for title in titles)


def _is_page(elements: Elements, captured: bool) -> bool:
    """A picture of figures: never an original image, whatever the protocol is called (低剂量胸部)."""
    kind = elements.strings("ImageType")
    if not captured and kind[:1] == ("ORIGINAL",) and "SCREEN SAVE" not in kind:
        return False
    if "DOSE_INFO" in kind or (captured and elements.raw("ExposureDoseSequence")):
        return True
    return _PAGE.search(elements.text("SeriesDescription")) is not None
