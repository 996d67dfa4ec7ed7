"""Every way of decoding writes the same text as one token per pass without jumps: any policy, batch, length, grammar and end."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.drafting.prompt import render
from pipeline.drafting.schema import schema_text
from pipeline.engine.generate import Decoded, Engine, Request
from pipeline.engine.policy import Policy
from pipeline.engine.sections import SECTIONS
from tests.unit.engine.conftest import features

SMALL = json.dumps(
    {
        "type": "object",
        "properties": {"a": {"enum": ["左肺", "右肺"]}, "n": {"type": "integer"}},
        "required": ["a", "n"],
        "additionalProperties": False,
    }
)
LENGTHS = st.integers(1, 8)
POLICIES = st.one_of(
    LENGTHS.map(Policy.fixed),
    LENGTHS.map(lambda k: Policy(k=k, jump=False)),
    st.dictionaries(st.sampled_from(SECTIONS), LENGTHS).map(lambda k: Policy(k=k)),
    st.sampled_from([Policy.default(), Policy(), Policy(mtp=False, lookup=True), Policy(lookup=True, k=4, jump=False), Policy.plain(jump=True)]),
)


def requests(schemas: tuple[str | None, ...], longest: int) -> st.SearchStrategy[Request]:
    """Texts of mixed prompts, images, grammars and lengths."""
    return st.builds(
        lambda image, indication, schema, limit, prior: Request(render(indication, 4), features(image), schema, limit, prior),
        st.integers(0, 10_000),
        st.text(max_size=12),
        st.sampled_from(schemas),
        st.integers(1, longest),
        st.sampled_from(["", '{"检查所见": {"病灶": [], "胸腔积液": "无", "描述": "胸廓对称。"}}']),
    )


def answers(decoded: list[Decoded]) -> list[tuple[object, ...]]:
    """What must not depend on the policy."""
    return [(each.ids, each.text, each.stop) for each in decoded]


def plain(engine: Engine, wanted: list[Request]) -> list[Decoded]:
    """One token per pass, one text at a time."""
    return [engine.generate_many([request], batch=1, policy=Policy.plain())[0] for request in wanted]


@given(model=st.integers(0, 3), request_=requests((None, SMALL, schema_text()), 90), policy=POLICIES)
@settings(max_examples=50, deadline=None)
def test_no_policy_changes_a_text(engines: tuple[Engine, ...], model: int, request_: Request, policy: Policy) -> None:
    engine = engines[model]
    reference = plain(engine, [request_])
    made = engine.generate_many([request_], batch=1, policy=policy)
    assert answers(made) == answers(reference)
    assert made[0].generation.verify_count <= reference[0].generation.verify_count
    assert len(made[0].generation.accepted_histogram) == policy.longest + 1


@given(
    model=st.integers(0, 3),
    wanted=st.lists(requests((None, SMALL, schema_text()), 40), min_size=1, max_size=18),
    batch=st.integers(1, 16),
    policy=POLICIES,
)
@settings(max_examples=12, deadline=None)
def test_no_batch_changes_a_text(engines: tuple[Engine, ...], model: int, wanted: list[Request], batch: int, policy: Policy) -> None:
    engine = engines[model]
    assert answers(engine.generate_many(wanted, batch=batch, policy=policy)) == answers(plain(engine, wanted))


@given(image=st.integers(0, 1000), place=st.integers(0, 25), k=LENGTHS, batch=st.integers(1, 4))
@settings(max_examples=20, deadline=None)
def test_an_end_token_inside_a_drafted_block_drops_the_tail(engines: tuple[Engine, ...], image: int, place: int, k: int, batch: int) -> None:
    engine = engines[1]
    wanted = [Request(render("", 4), features(image + index), None, 30) for index in range(batch)]
    whole = plain(engine, wanted)
    end, declared = engine.tokenizer.eos_id, whole[0].ids[place]
    engine.tokenizer.eos_id = declared  # a token that the first text contains is the end from now on
    try:
        made = engine.generate_many(wanted, batch=batch, policy=Policy(k=k, lookup=k % 2 == 0))
    finally:
        engine.tokenizer.eos_id = end
    for before, after in zip(whole, made, strict=True):
        cut = before.ids.index(declared) if declared in before.ids else None
        assert (after.ids, after.stop) == (before.ids[:cut], "length" if cut is None else "end")


@pytest.mark.long
@given(
    model=st.integers(0, 3),
    wanted=st.lists(requests((None, SMALL, schema_text()), 200), min_size=1, max_size=40),
    batch=st.integers(1, 16),
    policy=POLICIES,
)
@settings(max_examples=250, deadline=None)
def test_no_batch_changes_a_text_in_long_runs(engines: tuple[Engine, ...], model: int, wanted: list[Request], batch: int, policy: Policy) -> None:
    engine = engines[model]
    assert answers(engine.generate_many(wanted, batch=batch, policy=policy)) == answers(plain(engine, wanted))
