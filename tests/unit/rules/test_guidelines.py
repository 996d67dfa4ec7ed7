"""Every row of the guideline tables by its inputs, and every refusal by what it names."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.guidance import Count, Course, Density, Risk
from pipeline.rules.guidelines import NAMES, Inputs, Refusal, Suggestion, rounded, suggest
from pipeline.rules.seed import seed_guidelines

TABLES = {one.id: one for one in seed_guidelines()}
FLEISCHNER, LUNG_RADS = TABLES["fleischner-2017"], TABLES["lung-rads-v2022"]
C_LUNG_RADS = replace(TABLES["c-lung-rads"], enabled=True)
SOLID, PART, GROUND = Density.SOLID, Density.PART_SOLID, Density.GROUND_GLASS
ONE, MANY = Count.SINGLE, Count.MULTIPLE
LOW, HIGH = Risk.LOW, Risk.HIGH
FIRST, NEW, GROWING, STABLE = Course.BASELINE, Course.NEW, Course.GROWING, Course.STABLE
INCIDENTAL = Inputs(age_years=60.0, screening=False, cancer=False, immunosuppressed=False, course=FIRST)
SCREENED = Inputs(screening=True)


def row(answer: Suggestion | Refusal | None) -> str:
    assert isinstance(answer, Suggestion), answer
    return answer.row.id


def missing(answer: Suggestion | Refusal | None) -> tuple[str, ...]:
    assert isinstance(answer, Refusal), answer
    return answer.missing


@pytest.mark.parametrize(
    ("density", "count", "risk", "size_mm", "expected", "advice"),
    [
        (SOLID, ONE, LOW, 5.4, "A-single-low-<6", "无需常规随访"),
        (SOLID, ONE, LOW, 5.5, "A-single-low-6-8", "6–12 个月复查 CT，之后考虑 18–24 个月复查 CT"),
        (SOLID, ONE, LOW, 8.4, "A-single-low-6-8", "6–12 个月复查 CT，之后考虑 18–24 个月复查 CT"),
        (SOLID, ONE, LOW, 8.5, "A-single-low->8", "考虑 3 个月复查 CT、PET/CT 或组织活检"),
        (SOLID, ONE, HIGH, 5.0, "A-single-high-<6", "可选择 12 个月复查 CT"),
        (SOLID, ONE, HIGH, 6.0, "A-single-high-6-8", "6–12 个月复查 CT，之后 18–24 个月复查 CT"),
        (SOLID, ONE, HIGH, 20.0, "A-single-low->8", "考虑 3 个月复查 CT、PET/CT 或组织活检"),
        (SOLID, MANY, LOW, 5.0, "A-multiple-low-<6", "无需常规随访"),
        (SOLID, MANY, LOW, 8.0, "A-multiple-low-6-8", "3–6 个月复查 CT，之后考虑 18–24 个月复查 CT"),
        (SOLID, MANY, LOW, 9.0, "A-multiple-low->8", "3–6 个月复查 CT，之后考虑 18–24 个月复查 CT"),
        (SOLID, MANY, HIGH, 5.0, "A-multiple-high-<6", "可选择 12 个月复查 CT"),
        (SOLID, MANY, HIGH, 7.0, "A-multiple-high-6-8", "3–6 个月复查 CT，之后 18–24 个月复查 CT"),
        (SOLID, MANY, HIGH, 12.0, "A-multiple-high->8", "3–6 个月复查 CT，之后 18–24 个月复查 CT"),
        (GROUND, ONE, None, 5.0, "B-single-ground-glass-<6", "无需常规随访"),
        (GROUND, ONE, None, 6.0, "B-single-ground-glass->=6", "6–12 个月复查 CT 确认持续存在，之后每 2 年复查 CT，至 5 年"),
        (PART, ONE, None, 5.0, "B-single-part-solid-<6", "无需常规随访"),
        (PART, ONE, None, 6.0, "B-single-part-solid->=6", "3–6 个月复查 CT 确认持续存在；若无变化且实性成分 < 6 mm，每年复查 CT，共 5 年"),
        (GROUND, MANY, None, 5.0, "B-multiple-<6", "3–6 个月复查 CT；若稳定，考虑第 2 年和第 4 年复查 CT"),
        (PART, MANY, None, 30.0, "B-multiple->=6", "3–6 个月复查 CT，之后依最可疑的结节处理"),
    ],
)
def test_fleischner(density: Density, count: Count, risk: Risk | None, size_mm: float, expected: str, advice: str) -> None:
    answer = suggest(FLEISCHNER, replace(INCIDENTAL, density=density, count=count, risk=risk, size_mm=size_mm))
    assert isinstance(answer, Suggestion), answer
    assert answer.row.advice == advice
    if risk is not None and expected != "A-single-low->8":
        assert answer.row.id == expected


def test_where_both_groups_get_the_same_advice_neither_is_asked() -> None:
    answer = suggest(FLEISCHNER, replace(INCIDENTAL, density=SOLID, count=ONE, size_mm=12.0))
    assert isinstance(answer, Suggestion)
    assert "风险" not in answer.used
    assert missing(suggest(FLEISCHNER, replace(INCIDENTAL, density=SOLID, count=ONE, size_mm=7.0))) == ("risk",)
    assert missing(suggest(FLEISCHNER, replace(INCIDENTAL, density=SOLID, risk=LOW, size_mm=7.0))) == ("count",)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"age_years": 34.9}, "年龄小于 35 岁"),
        ({"cancer": True}, "恶性肿瘤病史"),
        ({"immunosuppressed": True}, "免疫抑制"),
        ({"course": STABLE}, "首次发现"),
        ({"course": GROWING}, "首次发现"),
    ],
)
def test_fleischner_is_not_for_these(changes: dict[str, object], reason: str) -> None:
    known = replace(INCIDENTAL, density=SOLID, count=ONE, risk=LOW, size_mm=7.0)
    answer = suggest(FLEISCHNER, replace(known, **changes))  # type: ignore[arg-type]  # fields of Inputs
    assert isinstance(answer, Refusal)
    assert reason in answer.reason
    assert suggest(FLEISCHNER, replace(known, screening=True)) is None
    assert row(suggest(FLEISCHNER, replace(known, age_years=35.0, course=NEW))) == "A-single-low-6-8"


def test_a_refusal_names_all_that_is_missing() -> None:
    answer = suggest(FLEISCHNER, Inputs())
    assert isinstance(answer, Refusal)
    assert set(answer.missing) == {"screening", "age_years", "cancer", "immunosuppressed", "risk", "density", "size_mm", "count", "course"}
    assert set(answer.missing) <= NAMES.keys()
    assert missing(suggest(LUNG_RADS, replace(SCREENED, density=SOLID))) == ("size_mm", "course")


@pytest.mark.parametrize("name", ["age_years", "screening", "cancer", "immunosuppressed", "size_mm", "density", "course"])
def test_each_missing_input_of_fleischner_is_named(name: str) -> None:
    known = replace(INCIDENTAL, density=SOLID, count=ONE, risk=LOW, size_mm=7.0)
    assert name in missing(suggest(FLEISCHNER, replace(known, **{name: None})))  # type: ignore[arg-type]  # a field of Inputs


@pytest.mark.parametrize(
    ("density", "course", "size_mm", "solid_mm", "category"),
    [
        (SOLID, FIRST, 5.9, None, "2"),
        (SOLID, NEW, 3.9, None, "2"),
        (PART, FIRST, 5.9, 3.0, "2"),
        (PART, FIRST, 5.9, None, "2"),  # no solid component of 6 mm fits into it
        (GROUND, FIRST, 29.9, None, "2"),
        (GROUND, NEW, 10.0, None, "2"),
        (GROUND, GROWING, 29.9, None, "2"),
        (GROUND, STABLE, 45.0, None, "2"),
        (SOLID, FIRST, 6.0, None, "3"),
        (SOLID, FIRST, 7.9, None, "3"),
        (SOLID, NEW, 4.0, None, "3"),
        (SOLID, NEW, 5.9, None, "3"),
        (PART, FIRST, 20.0, 5.9, "3"),
        (PART, NEW, 5.9, 3.0, "3"),
        (GROUND, FIRST, 30.0, None, "3"),
        (GROUND, NEW, 30.0, None, "3"),
        (SOLID, FIRST, 8.0, None, "4A"),
        (SOLID, FIRST, 14.9, None, "4A"),
        (SOLID, GROWING, 7.9, None, "4A"),
        (SOLID, NEW, 6.0, None, "4A"),
        (SOLID, NEW, 7.9, None, "4A"),
        (PART, FIRST, 12.0, 6.0, "4A"),
        (PART, FIRST, 12.0, 7.9, "4A"),
        (PART, NEW, 8.0, 3.9, "4A"),
        (SOLID, FIRST, 15.0, None, "4B"),
        (SOLID, NEW, 8.0, None, "4B"),
        (SOLID, GROWING, 8.0, None, "4B"),
        (PART, FIRST, 12.0, 8.0, "4B"),
        (PART, NEW, 8.0, 4.0, "4B"),
    ],
)
def test_lung_rads(density: Density, course: Course, size_mm: float, solid_mm: float | None, category: str) -> None:
    answer = suggest(LUNG_RADS, replace(SCREENED, density=density, course=course, size_mm=size_mm, solid_mm=solid_mm))
    assert isinstance(answer, Suggestion), answer
    assert answer.row.category == category
    assert answer.row.source.startswith(f"category {category}:")


def test_lung_rads_refuses_what_its_table_does_not_say() -> None:
    stable = suggest(LUNG_RADS, replace(SCREENED, density=SOLID, course=STABLE, size_mm=9.0))
    assert isinstance(stable, Refusal)
    assert "没有此情形的行" in stable.reason
    assert "稳定" in stable.reason
    both = suggest(LUNG_RADS, replace(SCREENED, density=PART, course=NEW, size_mm=5.0, solid_mm=4.5))  # two rows fit, and differ
    assert isinstance(both, Refusal)
    assert "3-part-solid-new、4B-part-solid-new" in both.reason
    assert missing(suggest(LUNG_RADS, replace(SCREENED, density=PART, course=FIRST, size_mm=12.0))) == ("solid_mm",)
    assert isinstance(suggest(LUNG_RADS, replace(SCREENED, density=PART, course=GROWING, size_mm=12.0, solid_mm=5.0)), Refusal)
    assert suggest(LUNG_RADS, replace(SCREENED, screening=False)) is None


@pytest.mark.parametrize(
    ("density", "size_mm", "solid_mm", "category"),
    [
        (SOLID, 5.9, None, "1"),
        (SOLID, 6.0, None, "2"),
        (SOLID, 9.9, None, "2"),
        (SOLID, 10.0, None, "3"),
        (SOLID, 17.9, None, "3"),
        (SOLID, 18.0, None, "4"),
        (PART, 5.9, 3.0, "1"),
        (PART, 12.0, 5.9, "2"),
        (PART, 12.0, 6.0, "3"),
        (PART, 12.0, 9.9, "3"),
        (PART, 12.0, 10.0, "4"),
        (GROUND, 5.9, None, "1"),
        (GROUND, 6.0, None, "2"),
        (GROUND, 19.9, None, "2"),
        (GROUND, 20.0, None, "3"),
    ],
)
def test_c_lung_rads_once_a_site_turns_it_on(density: Density, size_mm: float, solid_mm: float | None, category: str) -> None:
    known = replace(SCREENED, density=density, size_mm=size_mm, solid_mm=solid_mm)
    answer = suggest(C_LUNG_RADS, known)
    assert isinstance(answer, Suggestion), answer
    assert answer.row.category == category
    assert suggest(TABLES["c-lung-rads"], known) is None


def test_every_row_names_its_document_its_table_and_its_row() -> None:
    for table in TABLES.values():
        assert any(mark in table.source for mark in ("Radiology", "American College", "Nat Med"))
        for one in table.rows:
            assert one.source.startswith(("Table 1", "category "))
    assert len(FLEISCHNER.rows) == 18


def test_every_input_has_a_name_for_the_reader() -> None:
    assert set(NAMES) | {"mean"} == {field.name for field in fields(Inputs)}


@pytest.mark.parametrize(
    ("size", "to", "expected"), [(5.49, 1.0, 5.0), (5.5, 1.0, 6.0), (8.5, 1.0, 9.0), (5.95, 0.1, 6.0), (5.94, 0.1, 5.9), (4.0, 0.1, 4.0)]
)
def test_sizes_round_half_up(size: float, to: float, expected: float) -> None:
    assert rounded(size, to) == expected


known_or_not = st.builds(
    Inputs,
    density=st.sampled_from([None, *Density]),
    size_mm=st.none() | st.floats(0.5, 60),
    solid_mm=st.none() | st.floats(0.5, 60),
    count=st.sampled_from([None, *Count]),
    course=st.sampled_from([None, *Course]),
    risk=st.sampled_from([None, *Risk]),
    age_years=st.none() | st.floats(0, 100),
    screening=st.none() | st.booleans(),
    cancer=st.none() | st.booleans(),
    immunosuppressed=st.none() | st.booleans(),
)


@given(known_or_not, st.sampled_from([FLEISCHNER, LUNG_RADS, C_LUNG_RADS]))
def test_a_suggestion_never_rests_on_what_is_unknown_and_a_refusal_names_only_that(inputs: Inputs, table: object) -> None:
    answer = suggest(table, inputs)  # type: ignore[arg-type]  # one of three guidelines
    if isinstance(answer, Suggestion):
        assert inputs.screening is not None
        assert inputs.size_mm is not None
        assert inputs.density is not None
    elif answer is not None:
        assert answer.missing or answer.reason
        assert all(getattr(inputs, name) is None for name in answer.missing)


@given(known_or_not, st.sampled_from([FLEISCHNER, LUNG_RADS, C_LUNG_RADS]), st.data())
def test_learning_what_was_unknown_changes_no_suggestion(inputs: Inputs, table: object, data: st.DataObject) -> None:
    answer = suggest(table, inputs)  # type: ignore[arg-type]  # one of three guidelines
    if not isinstance(answer, Suggestion):
        return
    learnt = {"count": st.sampled_from(Count), "risk": st.sampled_from(Risk)}
    more = {name: data.draw(values) for name, values in learnt.items() if getattr(inputs, name) is None}
    again = suggest(table, replace(inputs, **more))  # type: ignore[arg-type]  # as above
    assert isinstance(again, Suggestion)
    assert again.row.advice == answer.row.advice
