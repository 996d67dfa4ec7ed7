"""A policy says which drafters may propose, and refuses lengths that no block holds."""

from __future__ import annotations

import pytest

from pipeline.engine.policy import MAX_DRAFT, Policy
from pipeline.engine.sections import ADVICE, FINDINGS, IMPRESSION, SECTIONS, START_K
from pipeline.errors import BadInput


def test_the_default_is_adaptive_with_lookup_and_jumps() -> None:
    policy = Policy.default()
    assert (policy.mtp, policy.k, policy.lookup, policy.jump, policy.adaptive) == (True, None, True, True, True)
    assert policy.longest == MAX_DRAFT
    assert policy.length(FINDINGS) is None


@pytest.mark.parametrize("jump", [False, True])
def test_plain_drafts_nothing(jump: bool) -> None:
    policy = Policy.plain(jump)
    assert (policy.mtp, policy.lookup, policy.jump, policy.longest) == (False, False, jump, 0)
    assert [policy.length(section) for section in SECTIONS] == [0, 0, 0]


@pytest.mark.parametrize("k", [0, 1, 8, MAX_DRAFT])
def test_a_fixed_length_holds_in_every_section(k: int) -> None:
    policy = Policy.fixed(k)
    assert policy.mtp == (k > 0)
    assert policy.longest == k
    assert [policy.length(section) for section in SECTIONS] == [k, k, k]


def test_a_section_without_a_length_takes_its_start_value() -> None:
    policy = Policy(k={FINDINGS: 10, ADVICE: 0})
    assert [policy.length(section) for section in SECTIONS] == [10, START_K[IMPRESSION], 0]
    assert policy.longest == 10
    assert not policy.adaptive


@pytest.mark.parametrize(("k", "named"), [(17, 17), (-1, -1), ({FINDINGS: 3, ADVICE: 99}, 99)])
def test_a_length_outside_the_block_is_refused(k: int | dict[str, int], named: int) -> None:
    with pytest.raises(BadInput, match=f"draft length {named} is outside 0 … 16"):
        Policy(k=k)
