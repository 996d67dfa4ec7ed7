"""Which drafts are sampled, and what is measured of one."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from datetime import date
from uuid import UUID, uuid5

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.flow.sampled import measured, picked, repetition
from pipeline.model import Finding, Report
from pipeline.rules.seed import seed_ruleset
from pipeline.sampling import FIGURES, Drafted, Sampled
from tests.builders import candidate

NIGHT = date(2026, 11, 30)
SPACE = UUID(int=0)
NODULE = Finding(1, "结节", "右肺", "上叶", "实性", 8, "毛刺", "均匀", "无")
REPORT = Report("右肺上叶见实性结节，约8mm。纵隔未见肿大淋巴结。", "右肺上叶实性结节。", "建议随访。", (NODULE,))
STRATA = st.dictionaries(
    st.tuples(st.sampled_from(["radiology", "oncology"]), st.sampled_from(["CT1", "CT2", "CT3"])), st.integers(1, 60), max_size=6
)


def drafts(sizes: dict[tuple[str, str], int]) -> list[Drafted]:
    return [
        Drafted(uuid5(SPACE, f"{department}{scanner}{number}"), department, scanner)
        for (department, scanner), size in sizes.items()
        for number in range(size)
    ]


def sampled(report: Report = REPORT, **changes: object) -> Sampled:
    whole = Sampled(UUID(int=7), "radiology", "CT1", "m@1", 1, report, "", (candidate(),), 0.0, 0, 0.6)
    return replace(whole, **changes)  # type: ignore[arg-type]  # by name


def figures(report: Report = REPORT, **changes: object) -> dict[str, float | None]:
    return dict(measured(sampled(report, **changes), seed_ruleset(), NIGHT).figures)


@given(STRATA, st.sampled_from([0.05, 0.1, 0.5, 1.0]), st.integers(0, 5))
def test_each_stratum_gives_its_share_and_at_least_one(sizes: dict[tuple[str, str], int], share: float, seed: int) -> None:
    strata, chosen = picked(drafts(sizes), share, seed, NIGHT)
    drawn = Counter((one.department, one.scanner) for one in chosen)
    assert {(one.department, one.scanner): one.drafts for one in strata} == sizes
    assert all(one.sampled == drawn[one.department, one.scanner] == max(1, int(share * one.drafts + 0.5)) for one in strata)
    assert len({one.id for one in chosen}) == len(chosen)


@given(st.integers(0, 100))
def test_order_changes_nothing_and_seed_and_night_do(seed: int) -> None:
    given_drafts = drafts({("radiology", "CT1"): 60})
    shuffled = random.Random(seed).sample(given_drafts, len(given_drafts))
    first = picked(given_drafts, 0.1, seed, NIGHT)
    assert picked(shuffled, 0.1, seed, NIGHT) == first
    assert picked(given_drafts, 0.1, seed + 1, NIGHT) != first
    assert picked(given_drafts, 0.1, seed, date(2026, 12, 1)) != first


def test_every_draft_of_a_stratum_has_the_same_chance() -> None:
    counts: Counter[UUID] = Counter()
    for seed in range(400):
        counts.update(one.id for one in picked(drafts({("radiology", "CT1"): 20}), 0.1, seed, NIGHT)[1])
    assert len(counts) == 20
    assert 15 <= min(counts.values()) <= max(counts.values()) <= 70, "40 are expected of each"


def test_a_sound_report_has_every_figure_at_its_best() -> None:
    found = figures()
    assert list(found) == [figure.name for figure in FIGURES]
    assert found == {
        "fields": 1.0,
        "terms": 0.0,
        "sides": 1.0,
        "repetition": 0.0,
        "length": float(len("".join(REPORT.sections().values()))),
        "acceptance": 0.6,
    }


@pytest.mark.parametrize(
    ("report", "share"),
    [
        (replace(REPORT, advice=" "), 6 / 7),
        (replace(REPORT, findings=(replace(NODULE, size_mm=None),)), 6 / 7),
        (replace(REPORT, findings=(replace(NODULE, lobe=None, margin=None),)), 5 / 7),
        (replace(REPORT, findings=(Finding(None, "胸腔积液", "双侧", None, None, None),)), 1.0),
    ],
)
def test_missing_fields_are_counted_against_those_that_a_kind_has(report: Report, share: float) -> None:
    assert figures(report)["fields"] == pytest.approx(share)


def test_the_side_is_held_against_the_regions_place_and_the_midline_not_its_label() -> None:
    left = replace(candidate(), center_mm=(60.0, 0.0, 0.0))
    assert figures(candidates=(left,))["sides"] == 0.0
    assert figures(candidates=(left,), midline_mm=80.0)["sides"] == 1.0
    assert figures(candidates=(left,), midline_mm=None)["sides"] == 1.0
    assert figures(candidates=())["sides"] is None


def test_words_that_were_replaced_or_are_on_no_list_count() -> None:
    assert figures(replaced=2)["terms"] == 2.0
    odd = replace(REPORT, findings_text="右肺上叶见铁锈征。")
    assert figures(odd)["terms"] == 1.0


@pytest.mark.parametrize(
    ("texts", "share"),
    [
        (("双肺纹理清晰。心影不大。",), 0.0),
        (("双肺纹理清晰。双肺纹理清晰。双肺纹理清晰。心影不大。",), 0.5),
        (("1. 建议随访。\n2. 建议随访。",), 0.5),
        (("建议随访。", "建议随访。"), 0.0),
        (("",), 0.0),
    ],
)
def test_repetition_is_the_share_of_sentences_that_came_before_in_the_same_section(texts: tuple[str, ...], share: float) -> None:
    assert repetition(texts) == pytest.approx(share)
