"""What a job's row says of the stacks that may be read, whichever of them is."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.choosing import ScorePart, SeriesChoice, SeriesScore
from pipeline.model import JobState, RankedStack
from pipeline.store import ranking
from pipeline.store.tables import JobRow
from tests.builders import series

STACKS = (RankedStack("1.2", 2, "时相 1", ("a1", "a2")), RankedStack("1.3", 3, "", ("b1",)), RankedStack("1.2", 2, "时相 2", ("c1",)))
OUTDONE = "已选用更合适的图像"
SCORES = (
    *(
        SeriesScore(one.series_uid, one.number, "", one.stack, 1, (ScorePart("axial", 10, "轴位"),), OUTDONE if at else "")
        for at, one in enumerate(STACKS)
    ),
    SeriesScore("1.9", 9, "", "", 1, (), "定位像"),
)
CHOICE = SeriesChoice((), (("1.3", OUTDONE), ("1.9", "定位像")), "chest", SCORES, STACKS)


def frozen(choice: SeriesChoice = CHOICE, state: JobState = JobState.READY) -> JobRow:
    """A job's row as `freeze` writes it."""
    facts = [{"uid": one.series_uid, "stack": one.stack, "refusal": one.refusal} for one in choice.scores]
    return JobRow(
        state=state.value,
        series_chosen=[choice.ranked[0].series_uid],
        series_refused=[list(pair) for pair in choice.refused],
        series_scores=facts,
        series_ranked=ranking.rows_of(choice),
        files=list(choice.ranked[0].files),
    )


def read(job: JobRow, *passed: str) -> JobRow:
    """The row after the stack behind those `passed` was read."""
    for column, value in ranking.moved(job, passed).items():
        setattr(job, column, value)
    return job


def test_a_row_gives_back_what_was_ranked() -> None:
    assert ranking.ranked(frozen()) == STACKS


def test_one_stack_needs_no_list() -> None:
    assert ranking.rows_of(replace(CHOICE, ranked=STACKS[:1])) == []


def test_the_files_that_are_read_stand_once() -> None:
    assert [row["files"] for row in frozen().series_ranked] == [[], ["b1"], ["c1"]]


def test_the_next_stack_takes_the_place_of_the_first_and_the_reason_is_kept() -> None:
    job = read(frozen(), "不是 HU 值")
    assert (job.series_chosen, job.files) == (["1.3"], ["b1"])
    assert job.series_refused == [["1.2", "评分在前，但未能读取：不是 HU 值"], ["1.9", "定位像"]]
    assert [one["refusal"] for one in job.series_scores] == ["评分在前，但未能读取：不是 HU 值", "", OUTDONE, "定位像"]
    assert ranking.ranked(job) == (replace(STACKS[0], refusal="不是 HU 值"), *STACKS[1:])


def test_another_stack_of_the_same_series_refuses_no_series_but_the_others() -> None:
    job = read(frozen(), "甲", "乙")
    assert (job.series_chosen, job.files) == (["1.2"], ["c1"])
    assert job.series_refused == [["1.3", "评分在前，但未能读取：乙"], ["1.9", "定位像"]]


@settings(deadline=None)  # a busy machine fails nobody
@given(st.lists(st.integers(0, 2), max_size=5))
def test_whatever_was_read_in_between_the_first_can_be_read_again(steps: list[int]) -> None:
    job = frozen()
    for step in steps:
        read(job, *("甲乙"[:step]))
        assert [row["uid"] for row in job.series_ranked] == ["1.2", "1.3", "1.2"]
        assert [sorted(stack.files) for stack in ranking.ranked(job)] == [["a1", "a2"], ["b1"], ["c1"]]
        assert [bool(one["refusal"]) for one in job.series_scores].count(False) == 1
    read(job)
    fresh = frozen()
    for column in ("series_chosen", "series_refused", "series_scores", "series_ranked", "files"):
        assert getattr(job, column) == getattr(fresh, column)


def test_a_job_goes_on_where_only_what_it_falls_back_on_changed() -> None:
    newer = (*STACKS[:1], replace(STACKS[1], files=("b1", "b2")), STACKS[2])
    fresh = ranking.refreshed(frozen(), replace(CHOICE, ranked=newer))
    assert fresh is not None
    assert fresh[1]["files"] == ["b1", "b2"]


@pytest.mark.parametrize(("passed", "changed", "goes_on"), [(0, 0, False), (0, 1, True), (1, 0, False), (1, 1, False), (1, 2, True)])
def test_a_job_does_not_go_on_where_what_it_reads_or_passed_changed(passed: int, changed: int, goes_on: bool) -> None:
    newer = tuple(replace(one, files=(*one.files, "late")) if at == changed else one for at, one in enumerate(STACKS))
    job = read(frozen(), *("甲"[:passed]))
    fresh = ranking.refreshed(job, replace(CHOICE, ranked=newer))
    assert (fresh is not None) == goes_on
    if fresh is not None:
        assert [row["refusal"] for row in fresh] == ["甲" if passed else "", "", ""]


def test_a_failed_job_begins_anew_where_there_is_more_to_try() -> None:
    alone = replace(CHOICE, ranked=STACKS[:1])
    assert ranking.refreshed(frozen(alone), CHOICE) is not None
    assert ranking.refreshed(frozen(alone, JobState.FAILED), CHOICE) is None
    assert ranking.refreshed(frozen(CHOICE, JobState.FAILED), CHOICE) is not None


def test_a_job_from_before_the_list_is_known_by_its_files() -> None:
    whole = series(12)
    job = JobRow(state="ready", files=[image.path for image in whole.instances], series_ranked=[])
    assert ranking.refreshed(job, SeriesChoice((whole,), (), "chest")) == []
    assert ranking.refreshed(job, SeriesChoice((series(11),), (), "chest")) is None
