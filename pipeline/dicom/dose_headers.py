"""Dose estimated from the headers of a study's CT images: CTDIvol (0018,9345) × the length that the slices cover, once per acquisition.

The weaker source: it misses localizers and overranging, and stands in only until a dose report comes (PS3.3 C.8.2.1, C.8.15.3.9).
"""

from __future__ import annotations

import math
import warnings
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from pydicom import dcmread
from pydicom.dataset import Dataset

from pipeline.dicom.dose import age_of, header_of
from pipeline.dicom.dose_codes import MOST_CTDIVOL_MGY, MOST_DLP_MGY_CM
from pipeline.dicom.dose_values import region_of_words
from pipeline.dicom.elements import FAULTS
from pipeline.dicom.told import text
from pipeline.dicom.uids import judged
from pipeline.errors import PipelineError
from pipeline.geometry import along, is_orientation
from pipeline.irradiation import DoseReading, DoseSource, Irradiation
from pipeline.model import Header

SAMPLED = 64  # headers read: CTDIvol is the mean of an acquisition, mostly the same in every slice
SILENT = 3  # headers without it, after which the others are not asked
MOST_LENGTH_MM = 3_000.0
CM = 0.1  # per mm
MUTE: tuple[type[Exception], ...] = (*FAULTS, PipelineError)
ESTIMATED = "由图像头的 CTDIvol × 覆盖长度估算，不含定位像"
TAGS = (
    *("CTDIvol", "IrradiationEventUID", "AcquisitionNumber", "AcquisitionDate", "AcquisitionTime", "AcquisitionDateTime", "SliceThickness"),
    *("ImagePositionPatient", "ImageOrientationPatient", "BodyPartExamined", "ProtocolName", "SeriesDescription", "StudyInstanceUID", "KVP"),
    "PatientAge",
)


@dataclass(frozen=True, slots=True)
class _Slice:
    uid: str
    acquisition: str
    moment: str  # AcquisitionDateTime: of the acquisition, or, with some vendors, of each slice
    ctdivol_mgy: float
    along_mm: float
    thickness_mm: float
    region: str
    kvp: float | None


def read_header_dose(paths: Sequence[Path]) -> DoseReading | None:
    """One estimated event per acquisition of the images in `paths` (one study); None where no header gives CTDIvol. Raises for no file."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what pydicom finds odd costs a slice, not the estimate
        header, age, slices = _sample(paths)
    events = _events(header.instance.study_uid, slices) if header is not None else ()
    if header is None or not events:
        return None
    return DoseReading(DoseSource.HEADER, header.instance.study_uid, header.patient, header.study_date, events, age)


def _sample(paths: Sequence[Path]) -> tuple[Header | None, float | None, list[_Slice]]:
    """Slices spread evenly over the files."""
    step = max(1, len(paths) // SAMPLED)
    header: Header | None = None
    age: float | None = None
    slices: list[_Slice] = []
    for index, path in enumerate(paths[::step]):
        if index == SILENT and not slices:
            break
        try:
            header = header or header_of(path)
            ds = dcmread(path, stop_before_pixels=True, specific_tags=list(TAGS))
            age = age_of(ds) if age is None else age
            slices += _slice_of(ds)
        except MUTE:
            continue
    return header, age, slices


def _slice_of(ds: Dataset) -> list[_Slice]:
    ctdivol = _number(ds, "CTDIvol")
    position, orientation = _numbers(ds, "ImagePositionPatient", 3), _numbers(ds, "ImageOrientationPatient", 6)
    if ctdivol is None or not 0 < ctdivol <= MOST_CTDIVOL_MGY or position is None or orientation is None or not is_orientation(orientation):
        return []
    written = [text(ds, keyword) or "" for keyword in ("BodyPartExamined", "ProtocolName", "SeriesDescription")]
    acquired = "|".join(text(ds, keyword) or "" for keyword in ("AcquisitionNumber", "AcquisitionDate"))
    moment = text(ds, "AcquisitionDateTime") or ""
    uid = judged(text(ds, "IrradiationEventUID") or "")[0]
    thickness_mm, place_mm = _number(ds, "SliceThickness") or 0.0, along(orientation, position)
    return [_Slice(uid, acquired, moment, ctdivol, place_mm, thickness_mm, region_of_words(*written), _number(ds, "KVP"))]


def _events(study_uid: str, slices: Sequence[_Slice]) -> tuple[Irradiation, ...]:
    """Several series of one acquisition (lung and soft-tissue kernels) are one event."""
    acquisitions: dict[str, list[_Slice]] = defaultdict(list)
    each_its_own = (
        2 * len({(one.acquisition, one.moment) for one in slices}) > len(slices) > 2
    )  # then the moment tells slices apart, not acquisitions
    for one in slices:
        named = one.acquisition if each_its_own else f"{one.acquisition}|{one.moment}"
        acquisitions[one.uid or _made_uid(study_uid, named)].append(one)
    found = (_event(uid, group) for uid, group in sorted(acquisitions.items()))
    return tuple(event for event in found if event is not None)


def _event(uid: str, group: Sequence[_Slice]) -> Irradiation | None:
    length_mm = _length_mm(sorted({round(one.along_mm, 2) for one in group}), max(one.thickness_mm for one in group))
    ctdivol = math.fsum(one.ctdivol_mgy for one in group) / len(group)
    dlp = ctdivol * length_mm * CM
    if not 0 < length_mm <= MOST_LENGTH_MM or dlp > MOST_DLP_MGY_CM:
        return None
    region = next((one.region for one in group if one.region), "")
    kvp = next((one.kvp for one in group if one.kvp), None)
    return Irradiation(uid, DoseSource.HEADER, region, dlp, ctdivol, None, kvp=kvp, notes=(ESTIMATED,))


def _length_mm(places_mm: Sequence[float], thickness_mm: float) -> float:
    """What the slices cover: from the first to the last, and one step (with sampled slices the wider one) or thickness more."""
    covered = places_mm[-1] - places_mm[0]
    return covered + max(thickness_mm, covered / (len(places_mm) - 1) if len(places_mm) > 1 else 0.0)


def _made_uid(study_uid: str, acquisition: str) -> str:
    return f"header:{sha256(f'{study_uid}|{acquisition}'.encode()).hexdigest()[:32]}"


def _number(ds: Dataset, keyword: str) -> float | None:
    if keyword not in ds:
        return None
    value = ds[keyword].value
    number = float(value[0] if isinstance(value, (list, tuple)) else value) if value not in (None, "") else None
    return number if number is not None and math.isfinite(number) else None


def _numbers(ds: Dataset, keyword: str, count: int) -> tuple[float, ...] | None:
    value = ds[keyword].value if keyword in ds else None
    if value is None or isinstance(value, (str, float)) or len(value) != count:
        return None
    numbers = tuple(float(one) for one in value)
    return numbers if all(map(math.isfinite, numbers)) else None
