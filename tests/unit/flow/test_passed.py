"""When the next stack is tried, and what a reader is told of the one before it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipeline.errors import BadInput, IllegalMove, ModelMissing, NotAllowed, Permanent, UnreadableDicom, Unsupported
from pipeline.flow.passed import ending, is_of_the_images, named, ranked, told
from pipeline.model import RankedStack
from tests.builders import job

STACKS = (RankedStack("1.2", 2, "", ("a",)), RankedStack("1.3", 3, "时相 1", ("b",)), RankedStack("1.4", None, "", ("c",)))


@pytest.mark.parametrize("error", [Unsupported("x"), UnreadableDicom("x"), BadInput("x"), Permanent("x")])
def test_a_fault_of_the_images_leads_to_the_next_stack(error: Permanent) -> None:
    assert is_of_the_images(error)


@pytest.mark.parametrize("error", [ModelMissing("x"), NotAllowed("x"), IllegalMove("x")])
def test_a_fault_of_the_installation_does_not(error: Permanent) -> None:
    assert not is_of_the_images(error)


def test_an_archive_that_cannot_be_read_does_not_either() -> None:
    error = UnreadableDicom("the file is gone")
    error.__cause__ = OSError("stale handle")
    assert not is_of_the_images(error)


def test_a_job_without_a_list_may_read_what_it_names() -> None:
    one = job(files=("a", "b"))
    assert [stack.files for stack in ranked(one)] == [("a", "b")]
    assert ranked(replace(one, ranked=STACKS)) == STACKS


def test_a_stack_is_named_by_its_number_else_by_its_place() -> None:
    assert [named(STACKS, at) for at in range(3)] == ["第 2 序列", "第 3 序列（时相 1）", "评分第 3 的序列"]


def test_one_refusal_is_the_jobs_own_end() -> None:
    only = Unsupported("容积内未找到双肺")
    assert ending(STACKS[:1], (only,)) is only


@pytest.mark.parametrize(
    ("errors", "kind"),
    [
        ((Unsupported("甲"), Unsupported("乙")), Unsupported),
        ((Unsupported("甲"), UnreadableDicom("乙")), Permanent),
        ((Permanent("甲"), Unsupported("乙")), Permanent),
    ],
)
def test_several_refusals_end_as_unsupported_only_where_none_can_be_mended(errors: tuple[Permanent, ...], kind: type[Permanent]) -> None:
    end = ending(STACKS, errors)
    assert (type(end), str(end)) == (kind, "第 2 序列：甲；第 3 序列（时相 1）：乙")


def test_nothing_is_told_where_the_preferred_stack_was_read() -> None:
    assert told(()) == told(STACKS) == ""


def test_a_reader_is_told_what_was_passed_why_and_what_was_read() -> None:
    passed = (replace(STACKS[0], refusal="RescaleType 为 PCT，不是 HU 值"), replace(STACKS[1], refusal="无肺"), STACKS[2])
    assert told(passed) == (
        "未按评分首选读取：第 2 序列未能读取（RescaleType 为 PCT，不是 HU 值）；第 3 序列（时相 1）未能读取（无肺）；改读评分第 3 的序列，请核对原图"
    )
