"""Stacks that the choice preferred and whose pixels nobody can read here: when the next one is tried, and what a reader is told of it."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.errors import IllegalMove, ModelMissing, NotAllowed, Permanent, Unsupported
from pipeline.model import Job, RankedStack

OURS = (ModelMissing, NotAllowed, IllegalMove)  # faults of this installation: another series would not mend them


def ranked(job: Job) -> tuple[RankedStack, ...]:
    """What may be read for the job, best first: at least what its file list names."""
    return job.ranked or (RankedStack("".join(job.series_uids[:1]), None, "", job.files),)


def is_of_the_images(error: Permanent) -> bool:
    """True where another series may well be readable: not for faults of this installation, nor where the archive could not be read."""
    return not isinstance(error, OURS) and not isinstance(error.__cause__, OSError)


def named(stacks: Sequence[RankedStack], index: int) -> str:
    """One of the stacks as a reader finds it at the scanner's list; without a number by its place in the choice."""
    stack = stacks[index]
    name = f"评分第 {index + 1} 的序列" if stack.number is None else f"第 {stack.number} 序列"
    return f"{name}（{stack.stack}）" if stack.stack else name


def ending(stacks: Sequence[RankedStack], errors: Sequence[Permanent]) -> Permanent:
    """What becomes of a job of which no stack could be read: `failed` as soon as one of them could be mended or sent again, else `unsupported`."""
    if len(errors) == 1:
        return errors[0]
    told = "；".join(f"{named(stacks, index)}：{error}" for index, error in enumerate(errors))
    return Unsupported(told) if all(isinstance(error, Unsupported) for error in errors) else Permanent(told)


def told(stacks: Sequence[RankedStack]) -> str:
    """What a reader must know where another stack was read than the scores prefer, and why; empty where the preferred one was."""
    passed = [index for index, stack in enumerate(stacks) if stack.refusal]
    if not passed:
        return ""
    reasons = "；".join(f"{named(stacks, index)}未能读取（{stacks[index].refusal}）" for index in passed)
    return f"未按评分首选读取：{reasons}；改读{named(stacks, passed[-1] + 1)}，请核对原图"
