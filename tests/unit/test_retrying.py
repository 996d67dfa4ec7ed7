"""How often and how soon: one rule per family, every pause within its bounds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import BadInput, LeaseLost, ModelMissing, PipelineError, ServiceUnavailable, StorageFull, Unsupported
from pipeline.retrying import Family, Retry, RetryRule, family_of, usual

CHANCES = st.floats(0, 1, exclude_max=True)


@pytest.mark.parametrize(
    ("error", "family"),
    [
        (ServiceUnavailable("x"), Family.SERVICE),
        (StorageFull("x"), Family.STORAGE),
        (LeaseLost("x"), Family.PASSING),
        (BadInput("x"), Family.PERMANENT),
        (ModelMissing("x"), Family.PERMANENT),
        (Unsupported("x"), Family.PERMANENT),
        (PipelineError("x"), Family.PERMANENT),
    ],
)
def test_every_error_has_a_family(error: PipelineError, family: Family) -> None:
    assert family_of(error) is family


@given(st.integers(1, 50), st.floats(0, 1e4), st.floats(0, 1e4), st.integers(1, 60), CHANCES)
def test_a_pause_doubles_up_to_the_longest_less_at_most_half_by_chance(
    tries: int, first_s: float, longest_s: float, tried: int, chance: float
) -> None:
    pause_s = RetryRule(tries, first_s, longest_s).pause_s(tried, chance)
    if tried >= tries:
        assert pause_s is None
    else:
        whole = min(first_s * 2.0 ** (tried - 1), longest_s)
        assert pause_s is not None
        assert whole / 2 <= pause_s <= whole


@given(st.integers(0, 10), st.sampled_from(Family), CHANCES)
def test_a_permanent_error_is_never_tried_again(tried: int, family: Family, chance: float) -> None:
    assert Retry(99, 1.0, {family: RetryRule(99, 1.0)}, lambda: chance).after(BadInput("x"), tried) is None


def test_a_family_without_a_rule_of_its_own_goes_by_the_common_one() -> None:
    retry = Retry(3, 2.0, {Family.STORAGE: RetryRule(9, 60.0, 90.0)}, lambda: 0.0)
    assert [retry.after(ServiceUnavailable("x"), tried) for tried in (1, 2, 3)] == [2.0, 4.0, None]
    assert [retry.after(StorageFull("x"), tried) for tried in (1, 2, 3, 9)] == [60.0, 90.0, 90.0, None]


def test_what_failed_together_does_not_come_back_together() -> None:
    retry = Retry(5, 8.0)
    assert len({retry.after(ServiceUnavailable("x"), 1) for _ in range(20)}) > 10


def test_a_service_that_is_away_for_half_an_hour_fails_no_job_where_nothing_else_is_set() -> None:
    rule = usual(5, 5.0)[Family.SERVICE]
    pauses = [rule.pause_s(tried, 0.99) for tried in range(1, rule.tries)]
    assert sum(pause for pause in pauses if pause is not None) > 1500
    assert rule.pause_s(rule.tries, 0.0) is None
