"""Several texts of one report as one: counts add up, whoever wrote them."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.drafting.together import generation_of, source_of
from pipeline.model import DraftSource, Generation

COUNT = st.integers(0, 50)
PAIR = st.tuples(COUNT, COUNT)
GENERATIONS = st.builds(
    Generation,
    tokens=COUNT,
    verify_count=COUNT,
    accepted_histogram=st.lists(COUNT, max_size=5).map(tuple),
    seconds=st.integers(0, 9).map(float),
    forced=COUNT,
    positions=st.lists(PAIR, max_size=4).map(tuple),
    sections=st.dictionaries(st.sampled_from(("检查所见", "建议")), st.tuples(COUNT, COUNT, COUNT)),
    sources=st.dictionaries(st.sampled_from(("mtp", "lookup")), PAIR),
    first_token_s=st.none() | st.just(0.5),
    k=st.none() | st.integers(0, 16),
)
PARTS = st.lists(GENERATIONS, min_size=1, max_size=4).map(lambda made: {f"section {place}": one for place, one in enumerate(made)})


@settings(max_examples=40)
@given(PARTS)
def test_every_count_of_the_whole_is_the_sum_of_its_parts(parts: dict[str, Generation]) -> None:
    whole, made = generation_of(parts), list(parts.values())
    for name in ("tokens", "verify_count", "seconds", "forced"):
        assert getattr(whole, name) == sum(getattr(one, name) for one in made)
    assert sum(whole.accepted_histogram) == sum(sum(one.accepted_histogram) for one in made)
    assert sum(map(sum, whole.positions)) == sum(sum(map(sum, one.positions)) for one in made)
    for table in ("sections", "sources"):
        assert sum(map(sum, getattr(whole, table).values())) == sum(sum(map(sum, getattr(one, table).values())) for one in made)
    assert whole.first_token_s == made[0].first_token_s
    assert whole.lengths == {name: one.k for name, one in parts.items()}


@settings(max_examples=40)
@given(PARTS)
def test_the_sum_of_a_sum_keeps_the_draft_length_of_each_section(parts: dict[str, Generation]) -> None:
    assert generation_of({"": generation_of(parts)}).lengths == {name: one.k for name, one in parts.items()}


def test_rungs_are_named_once_and_one_that_is_phantom_only_makes_the_whole_so() -> None:
    one = DraftSource("sglang", "m", "a", False, "sglang 1", "NEXTN")
    other = DraftSource("vllm", "m", "b", True, "vllm 2", "mtp")
    assert source_of([one, one]) == one
    assert source_of([one, other, one]) == DraftSource("sglang + vllm", "m", "a + b", True, "sglang 1 + vllm 2", "NEXTN + mtp")
