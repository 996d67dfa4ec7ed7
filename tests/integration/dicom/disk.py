"""A disk that fails: at the n-th call, or for as long as a test wants, below one folder only."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

# Every call that needs room or can fail to make it durable. `descriptor`: its first argument is one, else a path (the last of them decides).
WRITES = ("write", "writev", "pwrite", "fsync", "fdatasync", "sendfile", "copy_file_range", "ftruncate", "posix_fallocate")
NAMES = ("mkdir", "rename", "replace", "link", "open")


class Disk:
    """Counts the calls below `root`, and fails those that `fails` picks by their name and number."""

    def __init__(self, root: Path) -> None:
        self.calls = 0
        self.fails: Callable[[str, int], bool] = lambda name, number: False
        self.error = errno.ENOSPC
        self._root = str(root.resolve())

    def check(self, name: str, place: object) -> None:
        """Called before each call."""
        if self._is_below(place):
            self.calls += 1
            if self.fails(name, self.calls):
                raise OSError(self.error, os.strerror(self.error))

    def _is_below(self, place: object) -> bool:
        if isinstance(place, int):
            try:
                place = os.readlink(f"/proc/self/fd/{place}")
            except OSError:
                return False
        return isinstance(place, (str, os.PathLike)) and os.path.abspath(place).startswith(self._root)


@contextmanager
def failing(root: Path) -> Iterator[Disk]:
    """The disk below `root`, whoever uses it by way of the module `os` (pathlib does)."""
    disk = Disk(root)
    with pytest.MonkeyPatch.context() as patch:
        for name in (*WRITES, *NAMES):
            patch.setattr(os, name, _watched(disk, name, getattr(os, name)))
        yield disk


def _watched(disk: Disk, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        creates = name != "open" or (len(args) > 1 and bool(args[1] & os.O_CREAT))
        if creates:
            disk.check(name, args[0])
        return original(*args, **kwargs)

    return call
