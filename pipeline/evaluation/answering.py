"""Phantoms → answers, in one or more processes; each seed's answer is on disk before the next begins, and a second run goes on where one stopped."""

from __future__ import annotations

import hashlib
import multiprocessing as mp
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pipeline
from pipeline.errors import PipelineError
from pipeline.evaluation.answers import Answer, Case, Changed, mend, read_cases
from pipeline.evaluation.cases import drawn
from pipeline.evaluation.counterfactuals import changes, found_lesions
from pipeline.model import Features
from pipeline.training.phantom import Phantom

See = Callable[[Phantom], Features]  # renders and encodes
Draft = Callable[[Features], str]
Ticked = Callable[[float, str], None]
LOOK_EVERY_S = 0.5
# whose code an answer depends on; scoring is done anew in each run
ROOMS = ("training", "imaging", "encoder", "drafting", "engine")
FILES = ("answers", "answering", "cases", "counterfactuals", "encoding", "matching")


@dataclass(frozen=True, slots=True)
class Models:
    """What is judged. `draft` is None where the encoder is judged alone."""

    see: See
    draft: Draft | None


Load = Callable[[], Models]  # can be pickled: each process loads its own


@dataclass(frozen=True, slots=True)
class Task:
    """One seed, with or without single changes."""

    seed: int
    changed: bool = False


def plan(n: int, seed: int, counterfactuals: int) -> tuple[Task, ...]:
    """n seeds from `seed` on; the first of them (and as many behind them as it takes) that hold a lung lesion get the single changes."""
    tasks: list[Task] = []
    left, number = counterfactuals, seed
    while len(tasks) < n or left:
        changed = left > 0 and bool(drawn(number).truth.lesions)
        left -= changed
        tasks.append(Task(number, changed))
        number += 1
    return tuple(tasks)


def answer_all(load: Load, tasks: Sequence[Task], folder: Path, workers: int, ticked: Ticked) -> dict[int, Case]:
    """Seed → case. Raises PipelineError when a process fails."""
    folder.mkdir(parents=True, exist_ok=True)
    known = _known(folder, tasks)
    missing = [task for task in tasks if task.seed not in known]
    began = time.monotonic()

    def done(count: int) -> None:
        left_s = (time.monotonic() - began) / count * (len(missing) - count) if count else 0.0
        ticked(count / len(missing), f"{count} of {len(missing)} phantoms" + (f", about {left_s / 60:.1f} min left" if count else ""))

    if workers == 1 or len(missing) < 2:
        _work(0, load, missing, folder, done)
    else:
        _in_processes(load, missing, folder, min(workers, len(missing)), done)
    known = _known(folder, tasks)
    return {task.seed: known[task.seed] if task.changed else replace(known[task.seed], changed=None) for task in tasks}


def code_digest() -> str:
    """Changes with the code that an answer depends on: answers of other code are not read again."""
    root = Path(pipeline.__file__).parent
    files = sorted(path for room in ROOMS for path in (root / room).rglob("*.py"))
    files += [root / "evaluation" / f"{name}.py" for name in FILES]
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:12]


def case(task: Task, models: Models) -> Case:
    """Draw, render, encode and draft one phantom, and again with each change."""
    phantom = drawn(task.seed)
    plain = _answer(phantom, models)
    if not task.changed:
        return Case(task.seed, plain)
    asked = changes(phantom, found_lesions(plain))
    return Case(task.seed, plain, tuple(Changed(one.what, one.lesion, _answer(one.phantom, models)) for one in asked))


def _answer(phantom: Phantom, models: Models) -> Answer:
    began = time.process_time()
    features = models.see(phantom)
    seen = time.process_time()
    text = models.draft(features) if models.draft is not None else None
    spent = {"see": round(seen - began, 4), "draft": round(time.process_time() - seen, 4)}
    return Answer.of(phantom.truth, features, text, spent)


def _known(folder: Path, tasks: Sequence[Task]) -> dict[int, Case]:
    """Cases on disk that hold what their task asks for."""
    wanted = {task.seed: task for task in tasks}
    return {one.seed: one for one in read_cases(folder) if one.seed in wanted and (one.changed is not None or not wanted[one.seed].changed)}


def _work(rank: int, load: Load, tasks: Sequence[Task], folder: Path, done: Callable[[int], None] = lambda count: None) -> None:
    if not tasks:
        return
    path = folder / f"answers-{rank}.jsonl"
    mend(path)
    models = load()
    with path.open("a", encoding="utf-8") as out:
        for count, task in enumerate(tasks, 1):
            out.write(case(task, models).line())
            out.flush()
            done(count)


def _in_processes(load: Load, tasks: Sequence[Task], folder: Path, workers: int, done: Callable[[int], None]) -> None:
    """Single-threaded processes, each with every n-th task: the costly ones, with changes, stand together and are shared out evenly."""
    before = _lines(folder)
    context = mp.get_context("spawn")
    ranks = [context.Process(target=_work, args=(rank, load, tasks[rank::workers], folder), daemon=True) for rank in range(workers)]
    for process in ranks:
        process.start()
    for _ in _while_alive(ranks):
        done(_lines(folder) - before)
    if failed := [process.exitcode for process in ranks if process.exitcode != 0]:
        raise PipelineError(f"an evaluating process ended with status {failed[0]}; its last lines say why; the same command goes on from here")


def _while_alive(ranks: Sequence[mp.process.BaseProcess]) -> Iterator[None]:
    """Until all have ended, or one has failed."""
    while any(process.is_alive() for process in ranks):
        if any(process.exitcode not in (None, 0) for process in ranks):
            for process in ranks:
                process.terminate()
        ranks[0].join(LOOK_EVERY_S) if ranks[0].is_alive() else next(p for p in ranks if p.is_alive()).join(LOOK_EVERY_S)
        yield


def _lines(folder: Path) -> int:
    return sum(path.read_bytes().count(b"\n") for path in folder.glob("*.jsonl"))


def seconds(cases: Sequence[Case]) -> Mapping[str, float]:
    """Mean processor seconds of one phantom, by stage."""
    spent = [one.plain.seconds for one in cases]
    return {name: round(sum(one[name] for one in spent) / len(spent), 3) for name in spent[0]}
