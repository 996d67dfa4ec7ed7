"""The self-check refuses what would spoil drafts, and says what a person should do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.drafting.fake_server import FakeServer, Script, Trouble
from pipeline.drafting.reference import Reference, make, probes
from pipeline.drafting.selfcheck import Checkup, Peer, first_difference, look_over, tokens_of, unfit
from pipeline.drafting.served_model import ServedModel
from pipeline.errors import ModelMissing, ServiceUnavailable
from tests.unit.drafting.served import DIM, client

GAP = 0.25
Answers = Callable[[Mapping[str, Any], Sequence[int]], Sequence[int]]


@pytest.fixture(scope="module")
def reference(model: ServedModel) -> Reference:
    """What the embedded engine writes."""
    return make(model.folder)


@pytest.fixture(scope="module")
def faithful(model: ServedModel, reference: Reference) -> Answers:
    """Answers like the reference's."""
    asked = [model.question(one.prompt, one.features, one.schema, one.max_tokens).ids for one in probes(DIM)]
    known = dict(zip(asked, reference.ids, strict=True))
    return lambda _, ids: known[tuple(ids)]


def other_at(reference: Reference, place: int, gap: float) -> Reference:
    """The same reference with another token at one place of its text, and every gap as wide."""
    *first, last = reference.ids
    changed = (*last[:place], last[place] + 1, *last[place + 1 :])
    return replace(reference, ids=(*first, changed), gaps=tuple(tuple(gap for _ in gaps) for gaps in reference.gaps))


def checked(model: ServedModel, script: Script, peer: Peer | None, *, plain: bool = False, alone: bool = False) -> Checkup:
    with FakeServer(model, script) as server:
        return look_over(client(server, plain=plain), lambda: peer, GAP, alone=alone)


def test_a_server_that_writes_the_reference_may_draft(model: ServedModel, reference: Reference, faithful: Answers) -> None:
    found = checked(model, Script(answers=faithful), ("the reference", reference))
    assert found.refusal is None, found.lines
    assert found.differences == 0
    assert any("% of drafted tokens accepted" in line.text for line in found.lines)
    assert [len(answer.ids) for answer in found.answers] == [len(ids) for ids in reference.ids]


@pytest.mark.parametrize(
    ("script", "plain", "sentence"),
    [
        (Script(any_whitespace=True), False, "--constrained-json-disable-any-whitespace"),
        (Script(k=0), False, "it drafts nothing; start it with --speculative-algorithm NEXTN"),
        (Script(k=3), True, "start it without --speculative-algorithm"),
        (Script(digest="ab" * 32), False, "reports weights 'abababababab…'"),
    ],
)
def test_a_wrong_start_is_refused_with_what_to_change(model: ServedModel, script: Script, plain: bool, sentence: str) -> None:
    found = checked(model, script, None, plain=plain)
    assert found.refusal is not None
    assert sentence in found.refusal
    assert not found.answers, "nothing is asked of a server that may not draft"


@pytest.mark.parametrize(
    ("trouble", "sentence"),
    [
        (Trouble.TRUNCATED, "does not fit the report schema (it is not whole JSON)"),
        (Trouble.NO_HISTOGRAM, "no acceptance histogram"),
        (Trouble.OTHER_WEIGHTS, "names other weights"),
    ],
)
def test_a_bad_answer_is_refused(model: ServedModel, reference: Reference, faithful: Answers, trouble: Trouble, sentence: str) -> None:
    script = Script(answers=faithful)
    script.troubles.append(trouble)
    found = checked(model, script, ("the reference", reference))
    assert found.refusal is not None
    assert "request with words" in found.refusal
    assert sentence in found.refusal


def test_in_float32_any_other_token_is_refused(model: ServedModel, reference: Reference, faithful: Answers) -> None:
    found = checked(model, Script(answers=faithful), ("the reference", other_at(reference, 5, 0.0)))
    assert found.refusal is not None
    assert f"token 6 of {len(reference.ids[2])} is another one than the reference writes" in found.refusal


def test_in_other_formats_near_ties_are_counted_and_wide_gaps_refused(model: ServedModel, reference: Reference, faithful: Answers) -> None:
    script = Script(answers=faithful, dtype="bfloat16")
    for gap, refused in ((GAP / 2, False), (GAP * 2, True)):
        found = checked(model, script, ("the server without MTP", other_at(reference, 5, gap)))
        assert (found.refusal is not None) is refused
        assert found.differences == (0 if refused else 1)


def test_without_anything_to_compare_with_only_the_plain_server_may_draft(model: ServedModel, faithful: Answers) -> None:
    found = checked(model, Script(answers=faithful), None)
    assert found.refusal is not None
    assert "ctreport model reference" in found.refusal
    assert checked(model, Script(k=0, answers=faithful), None, plain=True, alone=True).refusal is None


def test_a_reference_that_cannot_be_used_is_the_refusal(model: ServedModel, faithful: Answers) -> None:
    def broken() -> Peer:
        raise ModelMissing("reference.json belongs to other weights")

    with FakeServer(model, Script(answers=faithful)) as server:
        assert look_over(client(server), broken, GAP).refusal == "reference.json belongs to other weights"


def test_a_server_that_does_not_answer_is_unavailable_and_not_refused(model: ServedModel) -> None:
    with FakeServer(model) as server:
        gone = client(server)
    with pytest.raises(ServiceUnavailable):
        look_over(gone, lambda: None, GAP)


def test_another_version_is_told_and_not_refused(model: ServedModel, reference: Reference, faithful: Answers) -> None:
    found = checked(model, Script(version="0.6.0", answers=faithful), ("the reference", reference))
    assert found.refusal is None
    assert any(line.ok is None and "0.6.0 was not tried" in line.text for line in found.lines)


def test_the_plain_server_s_tokens_are_what_others_are_compared_with(model: ServedModel, reference: Reference, faithful: Answers) -> None:
    with FakeServer(model, Script(k=0, answers=faithful)) as server:
        told = tokens_of(client(server, plain=True))
        assert all(body["top_logprobs_num"] == 2 for body in server.asked)
    assert told.ids == reference.ids


@given(st.lists(st.integers(0, 3), max_size=6), st.lists(st.integers(0, 3), max_size=6))
def test_the_first_difference_is_where_the_common_beginning_ends(one: list[int], other: list[int]) -> None:
    at = first_difference(one, other)
    if at is None:
        assert one == other
    else:
        assert one[:at] == other[:at]
        assert one[at : at + 1] != other[at : at + 1]


def test_a_text_that_leaves_its_schema_is_told_without_a_word_of_it() -> None:
    schema = probes(DIM)[0].schema
    assert unfit('{"病灶": []}', schema) is not None
    assert "秘密" not in (unfit('{"秘密": 1}', schema) or "")
    assert unfit('{"病灶": [', schema) == "it is not whole JSON"
