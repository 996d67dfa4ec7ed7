"""The packaged model writes the same reports whoever drafts them: none of 500 differs, at any draft length and under the default policy."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pipeline.drafting.departments import ONCOLOGY, RADIOLOGY
from pipeline.drafting.prompt import NOT_GIVEN, render
from pipeline.drafting.schema import schema_text
from pipeline.encoder.compact import WEIGHTS, CompactEncoder
from pipeline.engine.checkpoint import PACKAGED
from pipeline.engine.generate import Engine, Request
from pipeline.engine.policy import Policy
from pipeline.training.dataset import seen

FIRST = 980_000  # phantoms that neither training nor `ctreport eval` comes near
POLICIES = {f"k = {k}": Policy.fixed(k) for k in (1, 2, 4, 8)} | {"default": Policy.default()}


def requests(phantoms: int, departments: Sequence[str]) -> list[Request]:
    """Each department's report of phantoms, seen on the encoder's own grid: the fast way."""
    encoder = CompactEncoder.load(WEIGHTS)
    arrays = [seen(encoder, seed)[0].array for seed in range(FIRST, FIRST + phantoms)]
    return [Request(render(NOT_GIVEN, len(array), name), array, schema_text()) for name in departments for array in arrays]


def ids(engine: Engine, asked: Sequence[Request], policy: Policy, batch: int) -> list[tuple[int, ...]]:
    return [one.ids for one in engine.generate_many(asked, batch=batch, policy=policy)]


def differing(engine: Engine, asked: Sequence[Request], plain: Sequence[tuple[int, ...]], policy: Policy, batch: int) -> int:
    return sum(one != wanted for one, wanted in zip(ids(engine, asked, policy, batch), plain, strict=True))


@pytest.mark.long
@pytest.mark.timeout(5_400)
def test_0_of_500_reports_differ() -> None:
    engine, asked = Engine.load(PACKAGED), requests(500, (RADIOLOGY,))
    plain = ids(engine, asked, Policy.plain(), 1)
    assert {name: differing(engine, asked, plain, policy, 1) for name, policy in POLICIES.items()} == dict.fromkeys(POLICIES, 0)
    assert [differing(engine, asked, plain, policy, 8) for policy in (Policy.plain(), Policy.default())] == [0, 0]


@pytest.mark.timeout(600)
def test_0_of_50_reports_differ() -> None:
    """A tenth: every report plainly and by the default policy, each draft length on its share of them, in batches as well as one by one."""
    engine, asked = Engine.load(PACKAGED), requests(25, (RADIOLOGY, ONCOLOGY))
    plain = ids(engine, asked, Policy.plain(), 16)
    assert len(set(plain)) > len(plain) // 2
    found = {"default": differing(engine, asked, plain, Policy.default(), 1)}
    for place, (name, policy) in enumerate([one for one in POLICIES.items() if one[0] != "default"]):
        mine = slice(place, None, len(POLICIES) - 1)
        found[name] = differing(engine, asked[mine], plain[mine], policy, 1 + 3 * (place % 2))
    assert found == dict.fromkeys(POLICIES, 0)
