"""The phantom ledger: SOP UIDs of the phantoms that this installation wrote, one a line. Header text proves nothing; this file does."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path


def append_ledger(path: Path, sop_uids: Iterable[str]) -> None:
    """Add UIDs, durable when it returns; the folder is created. Writing a UID twice changes nothing."""
    known = read_ledger(path)
    fresh = [uid for uid in dict.fromkeys(sop_uids) if uid not in known]
    if not fresh:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as file:
        if file.tell() and not _ends_with_newline(file.fileno()):
            file.write(b"\n")  # an append that was cut short must not grow into the next UID
        file.write("".join(f"{uid}\n" for uid in fresh).encode("ascii"))
        file.flush()
        os.fsync(file.fileno())


def read_ledger(path: Path) -> frozenset[str]:
    """All UIDs; none where there is no ledger. A last line without its newline was cut short and is left out."""
    try:
        text = path.read_bytes().decode("ascii", errors="replace")
    except FileNotFoundError:
        return frozenset()
    return frozenset(line.strip() for line in text.splitlines(keepends=True) if line.endswith("\n") and line.strip())


def _ends_with_newline(descriptor: int) -> bool:
    return os.pread(descriptor, 1, os.fstat(descriptor).st_size - 1) == b"\n"


class FilePhantomLedger:
    """The ledger as a port: `holds_all` is asked once per revision and reads the file anew."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def append(self, sop_uids: Iterable[str]) -> None:
        """Add UIDs, durable when it returns."""
        append_ledger(self._path, sop_uids)

    def holds_all(self, sop_uids: Sequence[str]) -> bool:
        """True when every one is a phantom's; an empty list is none."""
        return bool(sop_uids) and read_ledger(self._path).issuperset(sop_uids)
