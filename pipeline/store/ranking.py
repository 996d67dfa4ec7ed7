"""The stacks that a job may read, best first, as its row keeps them: which one is read, and why those before it were not.

`jobs.series_ranked` is empty where there is only one. The files of the one that is read stand in `jobs.files`, not a second time here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pipeline.choosing import SeriesChoice
from pipeline.model import JobState, RankedStack
from pipeline.store.repository import plain
from pipeline.store.tables import JobRow

UNREAD = "评分在前，但未能读取：{reason}"
Rows = list[dict[str, Any]]


def rows_of(choice: SeriesChoice, read: int = 0) -> Rows:
    """What is frozen with a revision, as if the stack at `read` were the one that is read. Empty where there is nothing to fall back on."""
    if len(choice.ranked) < 2:
        return []
    outdone = {(one.series_uid, one.stack): plain(one.refusal) for one in choice.scores}
    return [
        {
            "uid": one.series_uid,
            "number": one.number,
            "stack": plain(one.stack),
            "files": [] if at == read else list(one.files),
            "refusal": "",
            "outdone": outdone.get((one.series_uid, one.stack), ""),  # why it comes after the first
        }
        for at, one in enumerate(choice.ranked)
    ]


def ranked(job: JobRow) -> tuple[RankedStack, ...]:
    """Best first; empty where there is only what the job reads anyway."""
    rows: Rows = list(job.series_ranked)
    return tuple(RankedStack(row["uid"], row["number"], row["stack"], tuple(row["files"] or job.files), row["refusal"]) for row in rows)


def read_at(stacks: Sequence[RankedStack]) -> int:
    """Place of the stack that is read: the first without a refusal."""
    return next((at for at, stack in enumerate(stacks) if not stack.refusal), 0)


def refreshed(job: JobRow, choice: SeriesChoice) -> Rows | None:
    """The row's list after a new choice that reads, and passes over, the same files; None where it does not.

    Of a job that failed, any other list is reason enough to begin anew.
    """
    before = ranked(job) or (RankedStack("", None, "", tuple(job.files)),)
    was = [sorted(one.files) for one in before]
    now = [sorted(one.files) for one in choice.ranked] or [sorted(image.path for series in choice.chosen for image in series.instances)]
    read = read_at(before)
    if was[: read + 1] != now[: read + 1] or (job.state == JobState.FAILED and was != now):
        return None
    fresh = rows_of(choice, read)
    return [row | {"refusal": before[at].refusal if at < read else ""} for at, row in enumerate(fresh)]


def moved(job: JobRow, passed: Sequence[str]) -> dict[str, Any]:
    """The columns of a job whose stack at `len(passed)` was read, the ones before it refused for these reasons."""
    stacks, rows, read = ranked(job), list(job.series_ranked), len(passed)
    reasons = [plain(reason) for reason in passed]
    refusals = [UNREAD.format(reason=reason) for reason in reasons] + [""] + [str(row["outdone"]) for row in rows[read + 1 :]]
    of_stack = {(row["uid"], row["stack"]): refusal for row, refusal in zip(rows, refusals, strict=True)}
    of_series: dict[str, str] = {}
    for row, refusal in zip(rows, refusals, strict=True):
        if row["uid"] != stacks[read].series_uid:
            of_series.setdefault(str(row["uid"]), refusal)
    ours = {row["uid"] for row in rows}
    others = [pair for pair in job.series_refused if pair[0] not in ours]
    return {
        "series_chosen": [stacks[read].series_uid],
        "files": list(stacks[read].files),
        "series_refused": [*([uid, why] for uid, why in of_series.items()), *others],
        "series_scores": [one | {"refusal": of_stack.get((one["uid"], one["stack"]), one["refusal"])} for one in job.series_scores],
        "series_ranked": [
            row | {"files": [] if at == read else list(stacks[at].files), "refusal": reasons[at] if at < read else ""} for at, row in enumerate(rows)
        ],
    }
