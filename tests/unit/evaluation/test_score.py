from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings

from pipeline.evaluation.figures import FIGURES, figures
from pipeline.evaluation.score import Tally, score
from pipeline.evaluation.told import heads, told
from pipeline.model import Candidate, Finding, Side
from pipeline.training.truth import Truth
from tests.unit.evaluation.truths import NORMAL, RICH, truths
from tests.unit.evaluation.writer import proposals, truths_list, write

PERFECT_IS_ZERO = {"hallucination", "hallucination_any", "side_error", "unflagged_side_error", "size_mae_mm"}


def tally(listed: list[Finding], truth: Truth = RICH, *, described: list[Finding] | None = None, concluded: list[Finding] | None = None) -> Tally:
    return score(told(write(listed, described, concluded)), proposals(truth), truth)


def changed(row: int, **values: object) -> list[Finding]:
    findings = truths_list(RICH)
    findings[row] = replace(findings[row], **values)  # type: ignore[arg-type]  # the test says which
    return findings


def values(one: Tally) -> dict[str, float | None]:
    return {name: figure["value"] for name, figure in figures([one]).items()}


def wrong(one: Tally) -> dict[str, float]:
    """Figures that are not those of a report without fault."""
    return {name: value for name, value in values(one).items() if value is not None and value != (0.0 if name in PERFECT_IS_ZERO else 1.0)}


def test_the_truth_written_as_a_report_has_no_fault_in_any_figure() -> None:
    assert wrong(tally(truths_list(RICH))) == {}
    assert None not in values(tally(truths_list(RICH))).values()


@given(truths())
@settings(max_examples=60, deadline=None)
def test_any_truth_written_as_a_report_has_no_fault(truth: Truth) -> None:
    assert wrong(tally(truths_list(truth), truth)) == {}


@pytest.mark.parametrize(
    ("row", "change", "expected"),
    [
        (0, {"side": "左肺"}, {"side_error": 1 / 3, "term_f1": None}),
        (0, {"lobe": "下叶"}, {"lobe_accuracy": 2 / 3, "term_f1": None}),
        (0, {"density": "实性"}, {"density_accuracy": 1 / 2, "term_f1": None}),
        (0, {"margin": "光滑"}, {"margin_accuracy": 1 / 2, "term_f1": None}),
        (0, {"internal": "均匀"}, {"calcified_accuracy": 1 / 2, "calcified_f1": 0.0, "term_f1": None}),
        (1, {"surround": "胸膜牵拉"}, {"retraction_accuracy": 1 / 2, "retraction_f1": 2 / 3, "term_f1": None}),
        (0, {"size_mm": 18}, {"size_mae_mm": 2.0}),
        (2, {"kind": "结节"}, {"kind_accuracy": 2 / 3, "term_f1": None}),
        (4, {"kind": "肝囊肿"}, {"liver_kind_accuracy": 1 / 2, "term_f1": None}),
        (6, {"side": "右侧"}, {"effusion_accuracy": 0.0, "effusion_f1": 0.0, "hallucination_any": 1.0, "term_f1": None}),
        (7, {"side": "右侧"}, {"emphysema_accuracy": 0.0, "emphysema_f1": 2 / 3, "term_f1": None}),
        (8, {"side": "双侧"}, {"fibrosis_accuracy": 0.0, "fibrosis_f1": 2 / 3, "hallucination_any": 1.0, "term_f1": None}),
    ],
)
def test_one_wrong_word_is_counted_in_its_figures_and_in_no_other(row: int, change: dict[str, object], expected: dict[str, float | None]) -> None:
    found = wrong(tally(changed(row, **change)))
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert value is None or found[name] == pytest.approx(value, abs=1e-4)


@pytest.mark.parametrize(("row", "name"), [(0, "lesion_f1"), (3, "node_f1"), (4, "liver_f1")])
def test_a_finding_that_is_left_out_is_missed(row: int, name: str) -> None:
    findings = truths_list(RICH)
    del findings[row]
    found = wrong(tally(findings))
    assert name in found
    assert not {"hallucination", "hallucination_any", "agreement", "text_agreement"} & found.keys()


def test_a_finding_at_a_place_without_lesion_is_invented() -> None:
    elsewhere = Candidate(9, "结节", (0.0, 0.0, 200.0), Side.LEFT, "上叶", "实性", 9.0, 0.4)
    extra = Finding(8, "结节", "左肺", "上叶", "实性", 9, "光滑", "均匀", "无")
    found = score(told(write([*truths_list(RICH), extra])), (*proposals(RICH), replace(elsewhere, index=8)), RICH)
    assert (found["found"], found["invented"], found["missed"], found["inventing"]) == (3, 1, 0, 1)


def test_a_finding_whose_candidate_does_not_exist_is_invented() -> None:
    found = tally(changed(0, candidate=8))
    assert (found["found"], found["invented"], found["missed"]) == (2, 1, 1)


def test_one_lesion_is_found_once() -> None:
    findings = truths_list(RICH)
    found = tally([findings[0], *findings])
    assert (found["found"], found["invented"]) == (3, 1)


def test_lesions_are_matched_by_coordinates_not_by_words() -> None:
    first, second, *rest = truths_list(RICH)
    swapped = [replace(first, candidate=second.candidate), replace(second, candidate=first.candidate), *rest]
    found = tally(swapped)
    assert (found["found"], found["invented"], found["side_wrong"]) == (3, 0, 2)


def test_a_lesion_that_only_a_text_speaks_of_is_invented_and_breaks_agreement() -> None:
    listed = truths_list(RICH)
    found = tally(listed, concluded=[*listed, Finding(None, "结节", "左肺", "上叶", "实性", 9)])
    assert (found["invented"], found["inventing"], found["agreed"], found["described"]) == (1, 1, 0, 1)


@pytest.mark.parametrize("change", [{"size_mm": 13}, {"side": "左肺"}, {"lobe": "中叶"}, {"kind": "实变"}])
def test_an_impression_that_says_another_size_side_lobe_or_kind_does_not_agree(change: dict[str, object]) -> None:
    found = tally(truths_list(RICH), concluded=changed(0, **change))
    assert (found["agreed"], found["described"], found["invented"]) == (0, 1, 0)


@pytest.mark.parametrize("change", [{"margin": "光滑"}, {"density": "实性"}, {"internal": "均匀"}, {"surround": "无"}, {"size_mm": 14}])
def test_a_description_that_says_other_details_than_the_list_does_not_agree(change: dict[str, object]) -> None:
    found = tally(truths_list(RICH), described=changed(0, **change))
    assert (found["agreed"], found["described"]) == (1, 0)


def test_a_wrong_side_in_the_list_is_flagged_by_the_grounding_check() -> None:
    found = tally(changed(0, side="左肺"))
    assert (found["side_wrong"], found["side_unflagged"]) == (1, 0)


def test_a_wrong_side_in_the_text_alone_counts_and_is_flagged() -> None:
    found = tally(truths_list(RICH), described=changed(0, side="左肺"))
    assert (found["side_wrong"], found["side_unflagged"]) == (1, 0)


def test_a_wrong_side_that_the_geometry_shares_is_unflagged() -> None:
    candidates = tuple(replace(one, side=Side.LEFT) if one.index == 1 else one for one in proposals(RICH))
    found = score(told(write(changed(0, side="左肺"))), candidates, RICH)
    assert (found["side_wrong"], found["side_unflagged"]) == (1, 1)


def test_another_fault_of_the_same_finding_does_not_flag_its_side() -> None:
    candidates = tuple(replace(one, side=Side.LEFT, size_mm=40.0) if one.index == 1 else one for one in proposals(RICH))
    assert score(told(write(changed(0, side="左肺"))), candidates, RICH)["side_unflagged"] == 1


def test_an_element_that_the_description_leaves_out_makes_a_finding_incomplete() -> None:
    text = write(truths_list(RICH)).replace("，可见毛刺征", "")
    found = score(told(text), proposals(RICH), RICH)
    assert (found["positive"], found["complete"]) == (3, 2)


def test_without_advice_no_finding_is_complete() -> None:
    assert score(told(write(truths_list(RICH), advice="无。")), proposals(RICH), RICH)["complete"] == 0


@pytest.mark.parametrize(
    "damage", [lambda text: "", lambda text: "{", lambda text: "[]", lambda text: text[:-30], lambda text: text.replace("毛刺", "毛茸")]
)
def test_a_broken_text_is_invalid_and_misses_everything(damage: Callable[[str], str]) -> None:
    found = score(told(damage(write(truths_list(RICH)))), proposals(RICH), RICH)
    assert (found["valid"], found["found"], found["missed"], found["node_missed"], found["liver_missed"]) == (0, 0, 3, 1, 2)
    assert (found["agreed"], found["terms_right"], found["effusion_right"]) == (0, 0, 0)


def test_a_normal_report_of_a_normal_phantom_is_right() -> None:
    found = tally([], NORMAL)
    assert wrong(found) == {}
    assert values(found)["lesion_f1"] is None


def test_the_heads_alone_are_scored_without_texts() -> None:
    found = score(heads(proposals(RICH), 0.5, [Side.LEFT], list(Side), [Side.RIGHT]), proposals(RICH), RICH)
    assert wrong(found) == {}
    assert values(found)["agreement"] is None
    assert values(found)["term_f1"] is None


def test_heads_below_the_threshold_say_nothing() -> None:
    found = score(heads(proposals(RICH), 0.95, [Side.LEFT]), proposals(RICH), RICH)
    assert (found["found"], found["missed"], found["effusion_right"]) == (0, 3, 1)


def test_every_count_of_every_figure_is_counted() -> None:
    counted = tally([], NORMAL).keys()
    assert {name for ratio in FIGURES.values() for name in (*ratio.top, *ratio.bottom)} <= counted
    assert score(told(""), (), RICH).keys() == counted
