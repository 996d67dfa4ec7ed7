from __future__ import annotations

from typing import Any

import pytest

from pipeline.evaluation.decode_rows import at_positions, drafts, rows, speedup
from pipeline.evaluation.decode_run import Taken
from pipeline.evaluation.decode_steady import Ready, mixed, own_sd_ms, spread
from pipeline.evaluation.decode_targets import TARGETS, best_k, differing, verdicts
from pipeline.model import Generation

ADVICE = "建议"


def made(positions: tuple[tuple[int, int], ...], steps: int = 10, tokens: int = 40, forced: int = 4) -> Generation:
    drafted, accepted = (sum(column) for column in zip(*positions, strict=True)) if positions else (0, 0)
    sections = {ADVICE: (tokens, drafted, accepted)}
    return Generation(tokens, steps, (), 1.0, forced, positions, sections, {"mtp": (drafted, accepted)} if drafted else {})


def taken(what: str, case: str, seconds: float, tokens: int = 40, same: bool = True, generation: Generation | None = None) -> Taken:
    return Taken(what, case, seconds, seconds, tokens, same, generation)


def test_speed_is_the_median_of_ratios_within_each_text() -> None:
    plain = [taken("ctreport plain", name, seconds) for name, seconds in (("a", 1.0), ("b", 4.0), ("c", 2.0))]
    fast = [taken("x", name, seconds) for name, seconds in (("a", 0.5), ("b", 1.0), ("c", 0.2))]
    assert speedup(fast, plain) == 4.0
    assert speedup(fast[:1], plain) == 2.0
    assert speedup(fast, []) is None


def test_a_peer_that_writes_fewer_tokens_is_judged_by_its_time_per_token() -> None:
    assert speedup([taken("x", "a", 1.0, tokens=20)], [taken("ctreport plain", "a", 1.0, tokens=40)]) == 0.5


def test_positions_are_summed_over_texts_of_different_depth() -> None:
    assert at_positions([made(((10, 9), (10, 8))), made(((10, 10),)), made(())]) == [(20, 19), (10, 8)]


def test_the_first_four_are_read_in_both_ways() -> None:
    figures = drafts([made(((10, 10), (10, 9), (10, 8), (10, 7), (2, 1)))])
    assert figures["acceptance_at"] == [1.0, 0.9, 0.8, 0.7, 0.5]
    assert figures["first_four_mean"] == 0.85
    assert figures["first_four_all"] == 0.7
    assert figures["tokens_per_step"] == 4.0
    assert figures["forced_share"] == 0.1
    assert figures["sections"][ADVICE]["acceptance"] == figures["sources"]["mtp"]["acceptance"] == figures["acceptance"] == round(35 / 42, 4)


def test_shorter_drafts_have_no_first_four() -> None:
    figures = drafts([made(((10, 10), (10, 9)))])
    assert figures["first_four_mean"] is figures["first_four_all"] is None


def test_plain_rows_come_first_and_a_text_that_differs_is_counted() -> None:
    group = [taken("ctreport mtp 1", "a", 0.5, same=False, generation=made(((4, 4),))), taken("ctreport plain", "a", 1.0, generation=made(()))]
    found = rows(group)
    assert [row["what"] for row in found] == ["ctreport plain", "ctreport mtp 1"]
    assert (found[1]["identical"], found[1]["texts"], found[1]["speedup_vs_plain"], found[1]["speedup_vs_plain_jumps"]) == (0, 1, 2.0, None)
    assert differing(found) == 1


def single(what: str, speed: float, **more: Any) -> dict[str, Any]:
    return {"part": "single", "what": what, "texts": 2, "identical": 2, "speedup_vs_plain": speed} | more


def measured() -> list[dict[str, Any]]:
    first = {"acceptance_at": [0.95, 0.9], "first_four_mean": 0.85, "first_four_all": 0.75}
    return [
        single("ctreport plain", 1.0),
        single("ctreport mtp 4", 2.6, **first),
        single("ctreport mtp 8", 2.9, **first),
        single("ctreport mtp, adaptive", 9.0),
        single("ctreport default", 3.5),
        single("transformers", 0.5) | {"identical": 0},
        {"part": "batch", "what": "ctreport default", "batch": 8, "texts": 2, "identical": 2, "speedup_vs_batch_1": 1.6},
    ]


def test_each_target_says_must_and_goal_and_what_was_not_measured() -> None:
    told = verdicts(measured())
    assert [one["measured"] for one in told] == [0, 2.9, 3.5, 0.95, 0.85, 0.75, 1.6, None]
    assert [one["must_reached"] for one in told] == [True, True, True, True, True, True, False, None]
    assert [one["goal_reached"] for one in told] == [True, True, False, True, True, False, False, None]


def test_the_best_draft_length_is_a_fixed_one_and_peers_do_not_count_as_ours() -> None:
    best = best_k(measured())
    assert best is not None
    assert best["what"] == "ctreport mtp 8"
    assert best_k([]) is None
    assert differing(measured()) == 0


def test_nothing_measured_is_no_failure_of_speed() -> None:
    assert [one["must_reached"] for one in verdicts([])] == [True, *[None] * (len(TARGETS) - 1)]


def test_a_mix_is_half_of_the_shortest_and_half_of_the_longest() -> None:
    assert mixed([50, 300, 80, 200, 90], 4) == [0, 2, 3, 1]
    assert mixed([50, 300, 80], 8) == [0, 1]
    assert mixed([50], 8) == []


def test_latencies_are_told_by_mean_deviation_and_percentiles() -> None:
    assert spread([0.1, 0.2, 0.3]) == {"mean_ms": 200.0, "sd_ms": 81.6, "p5_ms": 110.0, "p95_ms": 290.0}
    assert set(spread([]).values()) == {None}


def test_a_reports_own_deviation_leaves_the_difference_between_reports_out() -> None:
    rounds = [Ready("x", place, place > 0, 1.0 + place + stray) for place in range(2) for stray in (-0.01, 0.01)]
    assert own_sd_ms(rounds) == pytest.approx(10.0)
