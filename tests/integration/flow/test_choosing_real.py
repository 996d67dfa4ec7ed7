"""The choice over real files, from their bytes: what is read, what is refused and why."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pytest
from pynetdicom.dsutils import split_dataset

from pipeline.choosing import SeriesChoice
from pipeline.dicom.headers import read_header
from pipeline.evidence import Evidence
from pipeline.flow.choose import choose_series
from pipeline.flow.complete import with_series
from pipeline.model import Header, Series
from pipeline.ports import Arrival
from tests.unit.flow.test_choose import study


def filed(folder: Path) -> tuple[Series, ...]:
    """The series of a folder as the listener would file them."""
    found: dict[str, list[Header]] = defaultdict(list)
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.suffix in ("", ".dcm"):
            meta, start = split_dataset(path)
            data = path.read_bytes()[start:]
            arrival = Arrival(
                str(meta.MediaStorageSOPClassUID), str(meta.MediaStorageSOPInstanceUID), str(meta.TransferSyntaxUID), data, len(data), None
            )
            header = read_header(arrival)
            found[header.instance.series_uid].append(header)
    return tuple(_series(uid, headers) for uid, headers in found.items())


def _series(uid: str, headers: list[Header]) -> Series:
    first = headers[0]
    whole = Series(uid, "CT", first.series_description, first.body_part, first.kernel, first.thickness_mm, tuple(h.instance for h in headers))
    return replace(whole, number=first.series_number, kvp=first.kvp, contrast_agent=first.contrast_agent, protocol=first.protocol)


def chosen(*found: Series) -> SeriesChoice:
    return choose_series(study(*found), 8)


def test_the_real_chest_is_read_whole_with_its_score(test_data: Path) -> None:
    made = chosen(*filed(test_data / "chest_lidc_0314"))
    (series,) = made.chosen
    (score,) = made.scores
    assert (len(series.instances), series.number, score.stack) == (28, 30026, "")
    said = {part.rule: part.reason for part in score.parts}
    assert said.items() >= {"kernel": "卷积核 D 中等锐利", "energy": "120 kV", "thickness": "层厚 1 mm"}.items()


def test_of_classic_and_converted_chest_the_one_with_more_of_it_is_read_and_maps_are_not(test_data: Path) -> None:
    made = chosen(*filed(test_data / "chest_lidc_0314"), *filed(test_data / "enhanced_ct"))
    refused = {score.number: score.refusal for score in made.scores if score.refusal}
    assert [one.number for one in made.chosen] == [30026]
    assert refused[3] == "重组或后处理图像，不是原始轴位"
    assert refused[900].startswith("已选用更合适的图像")


def test_the_converted_chest_is_read_where_it_is_alone(test_data: Path) -> None:
    made = chosen(*(one for one in filed(test_data / "enhanced_ct") if one.number == 900))
    assert [(one.number, one.instances[0].frames) for one in made.chosen] == [(900, 12)]


@pytest.mark.parametrize(
    ("folder", "reason"),
    [
        ("bad_geometry/not_a_volume", "不同位置的图像仅 1 层，少于 8 层，不构成容积"),
        ("bad_geometry/gap", "不同位置的图像仅 4 层，少于 8 层，不构成容积"),
    ],
)
def test_bad_geometry_is_refused_with_its_reason(test_data: Path, folder: str, reason: str) -> None:
    assert [why for _, why in chosen(*filed(test_data / folder)).refused] == [reason]


def test_what_is_not_for_reading_is_refused_as_what_it_is(test_data: Path) -> None:
    made = chosen(*filed(test_data / "not_for_reading"))
    assert made.chosen == ()
    assert {why for _, why in made.refused} <= {"定位像", "二次捕获图像，不是原始 CT"}


def test_a_gap_names_the_number_of_its_series(test_data: Path) -> None:
    (whole,) = filed(test_data / "bad_geometry" / "gap")
    (gap,) = with_series(Evidence(0.0, 0.0), study(whole), (), 3).gaps
    assert (gap.number, gap.after, gap.missing) == (2, 3, 1)
