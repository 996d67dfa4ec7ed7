from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.errors import PipelineError
from pipeline.evaluation.answering import Models, Task, answer_all, plan
from pipeline.evaluation.answers import Case, read_cases
from pipeline.evaluation.cases import HELD_OUT, drawn
from pipeline.model import Features
from pipeline.training.phantom import Phantom
from tests.unit.evaluation.fakes import draft, failing, perfect, see

TASKS = plan(6, HELD_OUT, 2)


def quiet(share: float, line: str) -> None:
    """No progress."""


def counting(seen: list[int], fail_at: int = 99) -> Callable[[], Models]:
    def look(phantom: Phantom) -> Features:
        seen.append(phantom.truth.seed)
        if len(seen) == fail_at:
            raise KeyboardInterrupt
        return see(phantom)

    return lambda: Models(look, draft)


def test_the_plan_changes_the_first_phantoms_that_hold_a_lesion() -> None:
    tasks = plan(12, HELD_OUT, 5)
    assert [task.seed for task in tasks[:12]] == list(range(HELD_OUT, HELD_OUT + 12))
    assert sum(task.changed for task in tasks) == 5
    assert all(drawn(task.seed).truth.lesions for task in tasks if task.changed)


def test_more_changes_than_phantoms_take_seeds_behind_them() -> None:
    tasks = plan(1, HELD_OUT, 4)
    assert sum(task.changed for task in tasks) == 4
    assert len(tasks) >= 4


def test_an_answer_is_the_same_after_a_line_of_json(tmp_path: Path) -> None:
    cases = answer_all(perfect, TASKS, tmp_path, 1, quiet)
    assert {seed: Case.read(one.line()) for seed, one in cases.items()} == cases
    assert {one.seed: one for one in read_cases(tmp_path)} == cases


def test_a_run_that_was_stopped_goes_on_where_it_was(tmp_path: Path) -> None:
    first: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        answer_all(counting(first, fail_at=4), TASKS, tmp_path, 1, quiet)
    done = {one.seed for one in read_cases(tmp_path)}
    second: list[int] = []
    cases = answer_all(counting(second), TASKS, tmp_path, 1, quiet)
    assert done
    assert not done & set(second)
    assert cases == answer_all(perfect, TASKS, tmp_path / "anew", 1, quiet) | {seed: cases[seed] for seed in cases}


def test_half_a_line_of_a_killed_run_is_made_again(tmp_path: Path) -> None:
    answer_all(perfect, TASKS, tmp_path, 1, quiet)
    (path,) = tmp_path.glob("*.jsonl")
    whole = path.read_text(encoding="utf-8")
    path.write_text(whole[:-40], encoding="utf-8")
    again: list[int] = []
    cases = answer_all(counting(again), TASKS, tmp_path, 1, quiet)
    assert {*again} == {TASKS[-1].seed}
    assert {*cases} == {task.seed for task in TASKS}
    assert all(line.endswith("}") for line in path.read_text(encoding="utf-8").splitlines())


def test_a_phantom_whose_changes_are_asked_for_later_is_made_again(tmp_path: Path) -> None:
    plain = [Task(task.seed) for task in TASKS]
    answer_all(perfect, plain, tmp_path, 1, quiet)
    again: list[int] = []
    cases = answer_all(counting(again), TASKS, tmp_path, 1, quiet)
    assert {*again} == {task.seed for task in TASKS if task.changed}
    assert all(cases[task.seed].changed for task in TASKS if task.changed)


def test_a_run_that_is_done_loads_no_model(tmp_path: Path) -> None:
    cases = answer_all(perfect, TASKS, tmp_path, 1, quiet)
    assert answer_all(failing, TASKS, tmp_path, 1, quiet) == cases


def test_two_processes_answer_what_one_does(tmp_path: Path) -> None:
    lines: list[float] = []
    two = answer_all(perfect, TASKS, tmp_path / "two", 2, lambda share, line: lines.append(share))
    one = answer_all(perfect, TASKS, tmp_path / "one", 1, quiet)
    assert {seed: (case.plain.text, case.plain.truth, case.changed is None) for seed, case in two.items()} == {
        seed: (case.plain.text, case.plain.truth, case.changed is None) for seed, case in one.items()
    }
    assert lines[-1] == 1.0
    assert len([*(tmp_path / "two").glob("*.jsonl")]) == 2


def test_a_process_that_fails_ends_the_run_with_a_sentence(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(PipelineError, match="goes on from here"):
        answer_all(failing, TASKS, tmp_path, 2, quiet)
    assert "no weights" in capfd.readouterr().err
