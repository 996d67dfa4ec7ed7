"""Task bodies are thin, and no bell waits in the broker: an eta or a countdown there is lost with it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LONGEST_BODY = 12
WAITING = {"eta", "countdown"}
TASKS = ast.parse((ROOT / "workers" / "tasks.py").read_text(encoding="utf-8"))


def tasks() -> Iterator[ast.FunctionDef]:
    for node in TASKS.body:
        if isinstance(node, ast.FunctionDef) and node.decorator_list:
            yield node


@pytest.mark.parametrize("task", list(tasks()), ids=lambda task: task.name)
def test_a_task_body_is_shorter_than_twelve_lines(task: ast.FunctionDef) -> None:
    body = task.body[1:]  # without the docstring
    assert body[-1].end_lineno is not None
    assert body[-1].end_lineno - body[0].lineno + 1 < LONGEST_BODY


@pytest.mark.parametrize("path", sorted((ROOT / "workers").rglob("*.py")), ids=lambda path: path.name)
def test_no_message_waits_in_the_broker(path: Path) -> None:
    calls = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]
    assert not [node.lineno for node in calls if WAITING & {keyword.arg for keyword in node.keywords}]
