"""The disk of the archive under fire: a small tmpfs that is filled and freed, or, where none can be mounted, an archive that says it is full."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pipeline.dicom.archive import FileArchive

FILLER = "filler"
FLAG = "disk-full"
CHUNK = 1 << 20


class Disk(Protocol):
    """A disk that can be filled and freed. `what` says in the report how."""

    @property
    def what(self) -> str:
        """How it is made full."""

    def fill(self) -> None:
        """From now on nothing can be written."""

    def free(self) -> None:
        """There is room again."""


@dataclass(frozen=True)
class SmallDisk:
    """A file system of its own."""

    root: Path
    size_mb: int

    @property
    def what(self) -> str:
        """How it is made full."""
        return f"a tmpfs of {self.size_mb} MiB is filled to its last byte"

    def fill(self) -> None:
        """Take every block there is."""
        with (self.root / FILLER).open("ab", buffering=0) as file:
            for size in (CHUNK, 4096, 1):
                with contextlib.suppress(OSError):
                    while file.write(b"\0" * size):
                        pass

    def free(self) -> None:
        """Give them back."""
        (self.root / FILLER).unlink(missing_ok=True)


@dataclass(frozen=True)
class FlaggedDisk:
    """A flag that `FullArchive` looks at."""

    flag: Path
    why: str

    @property
    def what(self) -> str:
        """How it is made full, and why not better."""
        return f"an archive that answers ENOSPC on purpose, because {self.why}"

    def fill(self) -> None:
        """Raise the flag."""
        self.flag.touch()

    def free(self) -> None:
        """Take it down."""
        self.flag.unlink(missing_ok=True)


class FullArchive(FileArchive):
    """The archive of a process under fire: full while the flag file is there."""

    flag: Path = Path(os.devnull) / FLAG  # set by the process before it makes one

    def has_room(self) -> bool:
        """False while the flag is up, too: the listener then answers before it takes bytes."""
        return not self.flag.exists() and super().has_room()

    def create(self) -> tuple[Path, int]:
        """As the archive's, but for the flag."""
        if self.flag.exists():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().create()

    def make_folder(self, relative: str) -> None:
        """As the archive's, but for the flag."""
        if self.flag.exists():
            self.check_room()
        super().make_folder(relative)


@contextmanager
def disk_for(root: Path, run: Path, size_mb: int) -> Iterator[Disk]:
    """A small file system on `root`, gone when the block ends; where none can be mounted, a flag in `run`."""
    root.mkdir(parents=True, exist_ok=True)
    why = _mount(root, size_mb)
    if why is not None:
        yield FlaggedDisk(run / FLAG, why)
        return
    try:
        yield SmallDisk(root, size_mb)
    finally:
        subprocess.run(["umount", "--lazy", str(root)], check=False, capture_output=True)


def _mount(root: Path, size_mb: int) -> str | None:
    """Why no file system could be mounted; None when one was."""
    if os.geteuid() != 0:
        return "only root can mount a small file system"
    try:
        made = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size_mb}m,mode=0700", "tmpfs", str(root)], check=False, capture_output=True)
    except FileNotFoundError:
        return "there is no mount command here"
    return None if made.returncode == 0 else "this machine lets nobody mount a file system"
