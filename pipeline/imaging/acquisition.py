"""How the images were taken and of whom, as far as an encoder is conditioned on it."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from pydicom import Dataset

YEARS_PER = {"Y": 1.0, "M": 1 / 12, "W": 7 / 365.25, "D": 1 / 365.25}
# what technologists write into ContrastBolusAgent where they gave none
NO_AGENT = re.compile(r"(no|non|none|without|w/?o)\b|(n|n/a|0|-+)$|无|未|平扫", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Acquisition:
    """How the images were taken; None (or an empty text) where the header does not say."""

    kvp: float | None
    mas: float | None
    kernel: str
    thickness_mm: float | None
    age_years: float | None = None
    sex: str = ""  # M, F or O
    contrast: bool | None = None


def acquisition(ds: Dataset) -> Acquisition:
    """kVp, mAs (Exposure, else ExposureInmAs, else ExposureInuAs / 1000), kernel, thickness, age, sex and contrast as the header gives them."""
    kernel = ds.get("ConvolutionKernel") or ""
    return Acquisition(
        kvp=_number(ds, "KVP"),
        mas=_mas(ds),
        kernel=str(kernel) if isinstance(kernel, str) else "/".join(str(part) for part in kernel),
        thickness_mm=_number(ds, "SliceThickness"),
        age_years=_age(str(ds.get("PatientAge") or "")),
        sex=sex if (sex := str(ds.get("PatientSex") or "").strip().upper()) in ("M", "F", "O") else "",
        contrast=_contrast(ds),
    )


def _mas(ds: Dataset) -> float | None:
    mas = next((value for value in (_number(ds, "Exposure"), _number(ds, "ExposureInmAs")) if value is not None), None)
    micro = _number(ds, "ExposureInuAs")
    return mas if mas is not None else micro / 1000 if micro is not None else None


def _age(text: str) -> float | None:
    """An age string (PS3.5 6.2: three digits and one of D W M Y) in years."""
    digits, unit = text.strip()[:-1], text.strip()[-1:].upper()
    return round(int(digits) * YEARS_PER[unit], 2) if digits.isascii() and digits.isdigit() and unit in YEARS_PER else None


def _contrast(ds: Dataset) -> bool | None:
    """Agent given, as ContrastBolusAgent or the contrast sequence says; None where the header has neither."""
    agent = ds.get("ContrastBolusAgent")
    if agent is not None and str(agent).strip():
        return NO_AGENT.match(str(agent).strip()) is None
    if given := str(ds.get("ContrastBolusAgentAdministered") or ""):  # of this frame; the agents stand for the whole object
        return given == "YES"
    for keyword in ("ContrastBolusUsageSequence", "ContrastBolusAgentSequence"):
        if ds.get(keyword):
            administered = {str(item.get("ContrastBolusAgentAdministered") or "YES") for item in ds[keyword].value}
            return "YES" in administered
    return None


def _number(ds: Dataset, keyword: str) -> float | None:
    """A finite number that is not below zero, for nothing that is asked here can be."""
    value = ds.get(keyword)
    try:
        number = float(value) if value not in (None, "") else -1.0
    except (TypeError, ValueError):
        return None
    return number if 0 <= number < math.inf else None
