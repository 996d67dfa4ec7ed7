"""Which series is read, which are not and why."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from uuid import uuid4

import pytest

from pipeline.choosing import SeriesChoice
from pipeline.flow.choose import choose_series, unsupported_because
from pipeline.flow.regions import region_of
from pipeline.flow.stacks import CT_IMAGE
from pipeline.model import Instance, Series, Study, StudyState

AXIAL = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0)
CORONAL = (1.0, 0.0, 0.0, 0.0, 0.0, -1.0)
SR, SC = "1.2.840.10008.5.1.4.1.1.88.67", "1.2.840.10008.5.1.4.1.1.7"


def series(
    uid: str = "1",
    slices: int = 30,
    *,
    kinds: tuple[str, ...] = ("ORIGINAL", "PRIMARY", "AXIAL"),
    orientation: tuple[float, ...] | None = AXIAL,
    sop_class: str = CT_IMAGE,
    step_mm: float = 5.0,
    **facts: object,
) -> Series:
    """One series of evenly spaced images."""
    instances = tuple(
        Instance(f"1.{uid}.{n}", sop_class, "1.2.840.10008.1.2", "1.2", uid, "CT", "ab", 1, f"objects/{uid}/{n}") for n in range(slices)
    )
    placed = tuple(replace(i, image_type=kinds, orientation=orientation, position_mm=(0.0, 0.0, step_mm * n)) for n, i in enumerate(instances))
    made = Series(uid, "CT", "", "", "", 5.0, placed)
    return replace(made, **facts)  # type: ignore[arg-type]  # facts are Series fields


def study(*found: Series, description: str = "") -> Study:
    now = datetime(2026, 11, 30, tzinfo=UTC)
    return Study(uuid4(), "1.2", StudyState.RECEIVING, 0, now, now, 30, "", description, found)


def choice(*found: Series, description: str = "") -> SeriesChoice:
    return choose_series(study(*found, description=description), 8)


def test_the_axial_series_is_chosen_and_every_other_one_is_refused_with_its_reason() -> None:
    made = choice(
        series("axial"),
        series("coronal", orientation=CORONAL),
        series("topogram", 2, kinds=("ORIGINAL", "PRIMARY", "LOCALIZER")),
        series("mip", kinds=("DERIVED", "SECONDARY", "AXIAL", "MIP")),
        series("dose", 1, sop_class=SR),
        series("capture", 1, sop_class=SC),
        series("few", 4),
        series("unplaced", orientation=None),
    )
    assert [s.series_uid for s in made.chosen] == ["axial"]
    assert dict(made.refused) == {
        "coronal": "不是轴位图像",
        "topogram": "定位像",
        "mip": "重组或后处理图像，不是原始轴位",
        "dose": "剂量报告，不含图像",
        "capture": "二次捕获图像，不是原始 CT",
        "few": "不同位置的图像仅 4 层，少于 8 层，不构成容积",
        "unplaced": "图像缺少层面位置或方向",
    }
    assert unsupported_because(made) is None


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        (series("a", 20), series("b", 30, kinds=("DERIVED", "PRIMARY", "AXIAL"))),
        (series("a", 20), series("b", 30, kinds=("ORIGINAL", "SECONDARY", "AXIAL"))),
        (series("a", 30), series("b", 20)),
        (series("a", thickness_mm=1.0), series("b", thickness_mm=5.0)),
        (series("a", 20, body_part="CHEST"), series("b", 60, body_part="HEAD")),
    ],
)
def test_the_better_of_two_is_chosen_in_either_order(better: Series, worse: Series) -> None:
    for pair in ((better, worse), (worse, better)):
        made = choice(*pair)
        assert made.chosen == (better,)
        assert [uid for uid, _ in made.refused] == [worse.series_uid]


def test_the_stacks_that_could_be_read_are_ranked_and_three_of_them_are_kept() -> None:
    many = [series(uid, thickness_mm=mm, number=at) for at, (uid, mm) in enumerate((("a", 5.0), ("b", 1.0), ("c", 2.0), ("d", 8.0)))]
    made = choice(*many, series("coronal", orientation=CORONAL))
    assert [(one.series_uid, one.number, one.refusal) for one in made.ranked] == [("b", 1, ""), ("c", 2, ""), ("a", 0, "")]
    assert made.ranked[0].files == tuple(image.path for image in made.chosen[0].instances)
    assert choice(series("coronal", orientation=CORONAL)).ranked == ()


def test_a_lossy_or_derived_axial_series_is_read_when_there_is_nothing_better() -> None:
    assert choice(series(kinds=("DERIVED", "PRIMARY", "AXIAL"))).chosen


def test_localizers_inside_the_axial_series_are_left_out() -> None:
    axial = series("1", 20)
    mixed = replace(axial, instances=(*axial.instances, *series("1", 1, kinds=("ORIGINAL", "PRIMARY", "LOCALIZER")).instances))
    assert len(choice(mixed).chosen[0].instances) == 20


def test_images_at_one_position_are_no_volume() -> None:
    made = choice(series(slices=20, step_mm=0.0))
    assert made.chosen == ()
    assert "1 层" in str(unsupported_because(made))


def test_gantry_tilt_is_still_axial() -> None:
    assert choice(series(orientation=(1, 0, 0, 0, 0.970296, -0.241922))).chosen


@pytest.mark.parametrize(
    ("body_part", "description", "region"),
    [
        ("CHEST", "", "chest"),
        ("", "胸部平扫", "chest"),
        ("", "肺结节随访", "chest"),
        ("HEAD", "", "head"),
        ("", "头颅平扫", "head"),
        ("ABDOMEN", "", "abdomen"),
        ("ABDOMEN", "Thorax^TAP (Adult)", "chest"),
        ("CHESTABDOMEN", "", "chest"),
        ("PANCREAS", "Pancreas", "abdomen"),
        ("KNEE", "", "limb"),
        ("", "左足CT", "limb"),
        ("", "腰椎间盘", "spine"),
        ("", "", "chest"),
        ("", "术后复查 手术", "chest"),
        ("", "HEAD FIRST SUPINE", "chest"),
    ],
)
def test_the_region_is_read_from_what_the_header_says(body_part: str, description: str, region: str) -> None:
    assert region_of(series(body_part=body_part), study(description=description)) == region


def test_another_region_is_unsupported_and_the_sentence_names_it() -> None:
    made = choice(series(body_part="HEAD"))
    assert (made.chosen, made.region) == ((), "head")
    assert "头部" in str(unsupported_because(made))


def test_no_images_at_all_are_unsupported_with_a_next_step() -> None:
    made = choice()
    assert "请" in str(unsupported_because(made))
