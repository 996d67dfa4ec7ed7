"""The rules behind the choice, one by one, and what they come to."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.choosing import ChoiceRule, RuleEffect, SeriesChoice
from pipeline.flow.choose import choose_series
from pipeline.flow.scores import NAMES, RULES, Seen, parts, phase, thickness, unbroken
from pipeline.flow.stacks import ENHANCED, LEGACY_CONVERTED, stacks
from pipeline.model import Instance, Series
from tests.unit.flow.test_choose import CORONAL, SC, choice, series, study


def seen(made: Series) -> Seen:
    return Seen(made, stacks(made)[0], None)


def enhanced(uid: str = "e", frames: int = 120, sop_class: str = ENHANCED, **facts: object) -> Series:
    """One multi-frame object."""
    made = replace(series(uid, 1, sop_class=sop_class, orientation=None), **facts)  # type: ignore[arg-type]  # facts are Series fields
    return replace(
        made, instances=(replace(made.instances[0], frames=frames, position_mm=None, image_type=("ORIGINAL", "PRIMARY", "VOLUME", "NONE")),)
    )


def test_every_rule_has_a_name_for_the_reader_and_says_something() -> None:
    found = parts(seen(series()))
    assert [part.rule for part in found] == [rule.__name__ for rule in RULES]
    assert all(part.reason and part.rule in NAMES for part in found)


@pytest.mark.parametrize(
    ("mm", "better_than"), [(1.0, 5.0), (1.25, 2.5), (5.0, 8.0), (3.0, 5.0), (5.0, 0.6), (1.0, 0.6), (8.0, 10.0), (3.0, None), (None, 0.6)]
)
def test_one_to_five_millimetres_come_first_and_thinner_ones_before_thicker(mm: float | None, better_than: float | None) -> None:
    first, second = (seen(series(thickness_mm=value, step_mm=0.0)) for value in (mm, better_than))
    assert thickness(first).points > thickness(second).points


def test_the_kernel_decides_before_the_thickness_within_one_to_five_millimetres() -> None:
    thin_sharp = series("1", 300, step_mm=1.0, thickness_mm=1.0, kernel="B70f")
    thick_soft = series("2", 60, step_mm=5.0, thickness_mm=5.0, kernel="B31f")
    assert choice(thin_sharp, thick_soft).chosen[0].series_uid == "2"
    assert choice(thin_sharp, thick_soft, replace(thin_sharp, series_uid="3", kernel="B31f")).chosen[0].series_uid == "3"


@pytest.mark.parametrize(
    ("description", "agent", "name"),
    [
        ("Chest plain 1.5", "", "平扫"),
        ("胸部平扫", "", "平扫"),
        ("Thorax_non-contrast", "Iohexol", "平扫"),
        ("Chest Venous Phase", "Iohexol", "静脉期"),
        ("动脉期 1mm", "Iohexol", "动脉期"),
        ("CTPA 0.6", "", "动脉期"),
        ("Delayed 3min", "", "延迟期"),
        ("Premonitoring", "", "团注追踪"),
        ("Smart Prep Series", "", "团注追踪"),
        ("Chest", "Iohexol", "增强，期相未注明"),
        ("Chest", "", "未注明使用对比剂"),
    ],
)
def test_the_phase_is_read_from_the_header(description: str, agent: str, name: str) -> None:
    assert phase(seen(series(description=description, contrast_agent=agent))).reason == name


def test_the_series_own_words_come_before_those_of_the_protocol_that_others_share() -> None:
    assert phase(seen(series(description="动脉期", protocol="胸部平扫+增强"))).reason == "动脉期"
    assert phase(seen(series(description="1.0 B31f", protocol="胸部平扫"))).reason == "平扫"
    assert phase(seen(series(description="心电触发"))).points > 0


def test_monitoring_images_are_known_by_their_image_type() -> None:
    assert phase(seen(series(kinds=("ORIGINAL", "PRIMARY", "AXIAL", "CT_SOM5 MON")))).points < 0


def test_plain_and_venous_come_before_arterial_and_bolus() -> None:
    names = ("plain", "venous", "delayed", "arterial", "bolus")
    points = [phase(seen(series(description=name))).points for name in names]
    assert points == sorted(points, reverse=True)


def test_missing_slices_cost_points_and_are_counted() -> None:
    whole = series()
    holed = replace(whole, instances=whole.instances[:9] + whole.instances[11:])
    assert (unbroken(seen(whole)).points, unbroken(seen(holed)).reason) == (0, "缺 2 层")
    assert choice(holed, replace(whole, series_uid="2")).chosen[0].series_uid == "2"


def test_a_lossy_series_is_read_only_where_there_is_no_other() -> None:
    plain = series("1")
    lossy = replace(series("2"), instances=tuple(replace(image, transfer_syntax="1.2.840.10008.1.2.4.51") for image in series("2").instances))
    assert choice(lossy, plain).chosen == (plain,)
    assert choice(lossy).chosen == (lossy,)


def test_a_series_that_was_lossy_once_comes_after_a_good_lossless_one_however_thin_it_is() -> None:
    thick = replace(series("1"), thickness_mm=5.0, kernel="B50f")
    thin = replace(series("2"), thickness_mm=1.0, kernel="B31f")
    lossy = replace(thin, instances=tuple(replace(image, lossy=True) for image in thin.instances))
    assert choice(thin, thick).chosen == (thin,)
    assert choice(lossy, thick).chosen == (thick,)


def test_of_two_regions_in_one_examination_the_one_that_names_the_chest_is_read() -> None:
    chest, abdomen = series("1", 60, description="Chest 5.0"), series("2", 80, description="Abdomen 5.0")
    assert choice(abdomen, chest, description="Chest+Abdomen").chosen == (chest,)


def test_a_multi_frame_object_is_a_candidate_and_is_read_where_it_is_alone() -> None:
    for sop_class in (ENHANCED, LEGACY_CONVERTED):
        made = choice(enhanced(sop_class=sop_class))
        assert [one.series_uid for one in made.chosen] == ["e"]
    assert "仅 2 帧" in dict(choice(enhanced(frames=2)).refused)["e"]


def test_a_perfusion_map_of_multi_frame_ct_is_refused() -> None:
    made = enhanced()
    maps = replace(made, instances=(replace(made.instances[0], image_type=("DERIVED", "PRIMARY", "PERFUSION", "RCBF")),))
    assert dict(choice(maps).refused) == {"e": "重组或后处理图像，不是原始轴位"}


def test_one_phase_of_a_4d_series_is_read_and_the_others_are_accounted_for() -> None:
    whole = series("1", 20)
    phases = [replace(image, temporal=n, sop_uid=f"{image.sop_uid}.{n}", instance_number=n) for n in (1, 2, 3) for image in whole.instances]
    made = choice(replace(whole, instances=tuple(phases)))
    assert [(len(one.instances), {image.temporal for image in one.instances}) for one in made.chosen] == [(20, {1})]
    assert made.refused == ()
    assert [(score.stack, bool(score.refusal)) for score in made.scores] == [("时相 1", False), ("时相 2", True), ("时相 3", True)]


def test_the_score_stands_with_its_parts_for_the_chosen_and_the_refused() -> None:
    made = choice(series("a", kernel="B31f", number=2), series("b", kernel="B70f", number=3), series("c", orientation=CORONAL, number=4))
    first, second, third = made.scores
    assert (first.series_uid, first.number, first.refusal, first.score) == ("a", 2, "", sum(part.points for part in first.parts))
    assert second.refusal == f"已选用更合适的图像（{first.score} 分，本组 {second.score} 分；差在卷积核）"
    assert (third.score, [(part.rule, part.reason) for part in third.parts]) == (0, [("eligible", "不是轴位图像")])


@pytest.mark.parametrize(
    ("rule", "chosen"),
    [
        (ChoiceRule(RuleEffect.PREFER, "本院常规", series="lung", version=4), "b"),
        (ChoiceRule(RuleEffect.REFUSE, "科研", series="soft", version=4), "b"),
        (ChoiceRule(RuleEffect.POINTS, "加分", series="LUNG", points=40, version=4), "b"),
        (ChoiceRule(RuleEffect.POINTS, "加分", series="LUNG", points=2, version=4), "a"),
        (ChoiceRule(RuleEffect.PREFER, "别的机器", series="lung", station="CT9", version=4), "a"),
        (ChoiceRule(RuleEffect.PREFER, "别的检查", series="lung", study="cardiac", version=4), "a"),
    ],
)
def test_a_site_has_the_last_word(rule: ChoiceRule, chosen: str) -> None:
    found = study(series("a", kernel="B31f", description="Soft"), series("b", kernel="B70f", description="Lung"))
    assert choose_series(found, 8, [rule]).chosen[0].series_uid == chosen


def test_a_site_may_read_reformats_but_nothing_that_is_no_axial_volume() -> None:
    prefer = [ChoiceRule(RuleEffect.PREFER, "薄层重组即常规", series=".", version=1)]
    mpr = series("m", kinds=("DERIVED", "SECONDARY", "MPR"), description="x")
    assert choose_series(study(mpr), 8).chosen == ()
    assert choose_series(study(mpr), 8, prefer).chosen == (mpr,)
    mip = series("p", kinds=("DERIVED", "SECONDARY", "MIP"), description="x")
    for unfit in (
        mip,
        series("c", orientation=CORONAL, description="x"),
        series("f", 3, description="x"),
        series("k", 1, sop_class=SC, description="x"),
    ):
        assert choose_series(study(unfit), 8, prefer).chosen == ()


def headers(data: st.DataObject, uid: str) -> Series:
    """A series with whatever a header may say."""
    made = series(
        uid,
        data.draw(st.sampled_from([1, 7, 9, 30, 31])),
        kinds=data.draw(
            st.sampled_from(
                [
                    ("ORIGINAL", "PRIMARY", "AXIAL"),
                    ("DERIVED", "SECONDARY", "AXIAL"),
                    ("ORIGINAL", "PRIMARY", "LOCALIZER"),
                    ("DERIVED", "SECONDARY", "MIP"),
                    (),
                ]
            )
        ),
        orientation=data.draw(st.sampled_from([None, (1.0, 0.0, 0.0, 0.0, 1.0, 0.0), CORONAL, (1.0, 0.0, 0.0, 0.0, 0.970296, -0.241922)])),
        sop_class=data.draw(st.sampled_from(["1.2.840.10008.5.1.4.1.1.2", ENHANCED, SC])),
        step_mm=data.draw(st.sampled_from([0.0, 0.7, 5.0])),
        description=data.draw(st.sampled_from(["", "Chest", "Abdomen", "Lung 1.0", "动脉期", "bolus"])),
        kernel=data.draw(st.sampled_from(["", "B31f", "B70f", "LUNG"])),
        thickness_mm=data.draw(st.sampled_from([None, 0.6, 1.0, 5.0])),
        number=data.draw(st.sampled_from([None, 1, 2])),
    )
    frames = data.draw(st.sampled_from([1, 4, 40]))
    return replace(made, instances=tuple(replace(i, frames=frames, acquisition=data.draw(st.sampled_from([None, 1, 2]))) for i in made.instances))


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_at_most_one_is_chosen_each_other_one_has_a_reason_and_no_order_counts(data: st.DataObject) -> None:
    found = [headers(data, str(n)) for n in range(data.draw(st.integers(0, 4)))]
    made = choose_series(study(*found), 8)
    chosen = [one.series_uid for one in made.chosen]
    assert len(chosen) == (1 if any(not score.refusal for score in made.scores) else 0)
    assert sorted(chosen + [uid for uid, reason in made.refused if reason]) == sorted(one.series_uid for one in found)
    assert sum(not score.refusal for score in made.scores) == len(chosen)
    assert same(made, choose_series(study(*map(shuffled, random.Random(7).sample(found, len(found)))), 8))


def shuffled(made: Series) -> Series:
    images: list[Instance] = list(made.instances)
    random.Random(3).shuffle(images)
    return replace(made, instances=tuple(images))


def same(a: SeriesChoice, b: SeriesChoice) -> bool:
    return (a.chosen, set(a.refused), a.region, a.scores) == (b.chosen, set(b.refused), b.region, b.scores)


@pytest.mark.parametrize("name", ["Target Lung 1.0", "靶扫描 左肺", "右肺靶重建", "Lung ZOOM"])
def test_one_lung_reconstructed_alone_comes_after_the_whole_chest(name: str) -> None:
    target = replace(series("target", 200, step_mm=1.0), description=name, thickness_mm=1.0)
    chest = replace(series("chest", 40, step_mm=8.0), description="Thorax", thickness_mm=8.0, kernel="B70f")
    assert choose_series(study(target, chest), 8).chosen[0].series_uid == chest.series_uid
