"""What an image is, by its class and type: a plane of the patient, or something that must never become part of a volume."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping

from pydicom.uid import CTImageStorage, EnhancedCTImageStorage, LegacyConvertedEnhancedCTImageStorage

from pipeline import geometry
from pipeline.imaging.frames import Frame

CT = frozenset({CTImageStorage, EnhancedCTImageStorage, LegacyConvertedEnhancedCTImageStorage})
SECONDARY = "1.2.840.10008.5.1.4.1.1.7"  # and the multi-frame ones, whose UIDs begin with it
DOSE_REPORTS = ("1.2.840.10008.5.1.4.1.1.88.67", "1.2.840.10008.5.1.4.1.1.88.76")
DOSE_WORDS = re.compile(r"dose|patient protocol", re.IGNORECASE)


class Kind(enum.StrEnum):
    """Of a stack of images."""

    AXIAL = "axial"
    CORONAL = "coronal"
    SAGITTAL = "sagittal"
    OBLIQUE = "oblique"
    REFORMAT = "reformat"
    PROJECTION = "projection"
    LOCALIZER = "localizer"
    DOSE = "dose"
    MAP = "map"
    BOLUS = "bolus"
    SECONDARY = "secondary"
    NO_IMAGE = "no-image"
    NOT_CT = "not-ct"
    UNREADABLE = "unreadable"


# Why a kind is no volume of HU; a kind that is not here may be one.
NO_VOLUME: Mapping[Kind, str] = {
    Kind.PROJECTION: "最大/最小密度投影（MIP）图像，不是断面 CT 值",
    Kind.LOCALIZER: "定位像，不是断面图像",
    Kind.DOSE: "剂量报告或剂量页，不含断面图像",
    Kind.MAP: "灌注或参数图，不是 HU 值",
    Kind.SECONDARY: "二次捕获图像，不是原始 CT",
    Kind.NO_IMAGE: "对象不含图像，没有可读的容积",
    Kind.NOT_CT: "不是 CT 图像，没有 HU 值",
}
NAMES: Mapping[Kind, str] = {
    Kind.AXIAL: "轴位",
    Kind.CORONAL: "冠状位",
    Kind.SAGITTAL: "矢状位",
    Kind.OBLIQUE: "斜位",
    Kind.REFORMAT: "重组图像",
    Kind.PROJECTION: "密度投影",
    Kind.LOCALIZER: "定位像",
    Kind.DOSE: "剂量页",
    Kind.MAP: "参数图",
    Kind.BOLUS: "定点追踪",
    Kind.SECONDARY: "二次捕获",
    Kind.NO_IMAGE: "无图像",
    Kind.NOT_CT: "非 CT",
    Kind.UNREADABLE: "不可读",
}
# Words of Image Type or Frame Type (PS3.3 C.8.2.1.1.1, C.8.15.3.1) and of Volume Based Calculation Technique (C.8.15.3.3); the first match counts.
WORDS: tuple[tuple[Kind, frozenset[str]], ...] = (
    (Kind.LOCALIZER, frozenset({"LOCALIZER", "REF_SURVIEW", "TOP", "SCOUT"})),
    (Kind.DOSE, frozenset({"DOSE_INFO", "DOSE REPORT", "DOSE", "SCREEN SAVE", "SCREENSAVE"})),
    (Kind.MAP, frozenset({"PERFUSION", "TTP", "CBF", "CBV", "MTT", "RCBF", "RCBV", "PARAMETRIC MAP", "MATERIAL_REMOVED", "EFF_ATOMIC_NUM"})),
    (Kind.MAP, frozenset({"QUANTITY", "SUBTRACTION", "STD_DEVIATION"})),  # derived pixel contrast (C.8.16.1.4)
    (Kind.PROJECTION, frozenset({"MIP", "MINIP", "MAX_IP", "MIN_IP", "PROJECTION IMAGE", "VRT", "3D", "VOLUME_RENDER", "SURFACE_RENDER"})),
    (Kind.PROJECTION, frozenset({"MAXIMUM", "MINIMUM"})),
    (Kind.REFORMAT, frozenset({"MPR", "CPR", "REFORMATTED", "CURVED_MPR", "RESAMPLED"})),
)


def kind_of(frame: Frame) -> Kind:
    """What one frame is. Planes are named by their normal in the patient."""
    if frame.pixels is None:
        return Kind.DOSE if frame.sop_class.startswith(DOSE_REPORTS) else Kind.NO_IMAGE
    words = {*frame.image_type, *(word.upper() for word in frame.header.texts("VolumeBasedCalculationTechnique"))}
    words |= {part for word in words for part in word.split() if part in ("MIP", "MPR", "TOP", "MINIP")}
    named = next((kind for kind, names in WORDS if words & names), None)
    if frame.sop_class not in CT:
        return _other(frame, named)
    if named is not None:
        return named
    if words >= {"DERIVED", "SECONDARY"} and "AXIAL" not in words:
        return Kind.REFORMAT
    return plane_of(frame.cosines)


def _other(frame: Frame, named: Kind | None) -> Kind:
    """Of an image of another class: a dose page by its type or its description."""
    if not frame.sop_class.startswith(SECONDARY):
        return Kind.NOT_CT
    return Kind.DOSE if named is Kind.DOSE or DOSE_WORDS.search(frame.header.text("SeriesDescription")) else Kind.SECONDARY


def plane_of(cosines: tuple[float, ...] | None) -> Kind:
    """The plane that six direction cosines span."""
    if cosines is None:
        return Kind.OBLIQUE
    x, y, z = map(abs, geometry.normal(cosines))
    if z >= geometry.AXIAL_COSINE:
        return Kind.AXIAL
    return Kind.CORONAL if y >= geometry.AXIAL_COSINE else Kind.SAGITTAL if x >= geometry.AXIAL_COSINE else Kind.OBLIQUE
