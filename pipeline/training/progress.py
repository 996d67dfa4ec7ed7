"""A progress bar on standard error; plain lines now and then where standard error is no terminal."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

LINE_EVERY_S = 15.0


class Bar:
    """How far a stage is, 0 to 1, with one line of figures; `shown=False` keeps quiet."""

    def __init__(self, title: str, *, shown: bool = True) -> None:
        self._title = title
        self._console = Console(stderr=True)
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:3.0f}%"), TimeElapsedColumn())
        self._progress = Progress(*columns, TimeRemainingColumn(), TextColumn("{task.fields[line]}"), console=self._console)
        self._shown = shown
        self._task = self._progress.add_task(title, total=1.0, line="")
        self._printed = 0.0

    def __enter__(self) -> Self:
        if self._shown and self._console.is_terminal:
            self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._progress.stop()

    def update(self, done: float, line: str) -> None:
        """Show `done` (0..1) and a line of figures."""
        if not self._shown:
            return
        self._progress.update(self._task, completed=done, line=line)
        if not self._console.is_terminal and time.monotonic() - self._printed > LINE_EVERY_S:
            self._printed = time.monotonic()
            print(f"{self._title} {100 * done:.0f}% {line}", file=sys.stderr, flush=True)
