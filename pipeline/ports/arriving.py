"""What comes in: files on their way into the archive, headers, the ledgers of what was acknowledged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol
from uuid import UUID

from pipeline.model import (
    Header,
    Stored,
)


class Incoming(Protocol):
    """One file on its way into the archive, not yet under a final name."""

    def write(self, data: bytes | memoryview) -> None:
        """Append bytes. Raises StorageFull."""

    def seal(self) -> Stored:
        """Write out what waits; nothing can be added any more. Returns where it will stand, `fresh` as far as is known. Raises StorageFull."""

    def commit(self) -> Stored:
        """fsync, then rename to the content-addressed final name. Idempotent per content. `Archive.settle` makes the name durable. Raises
        StorageFull."""

    def quarantine(self, reason: str) -> Stored:
        """Keep the bytes apart from the archive, with the reason, also when they are committed already. Durable when it returns."""

    def discard(self) -> None:
        """Remove the temporary file."""


class Archive(Protocol):
    """Bytes as they came. A final name holds whole, synced bytes or does not exist."""

    def has_room(self) -> bool:
        """False below the free-space floor."""

    def open(self) -> Incoming:
        """Start a file in `incoming/`. Raises StorageFull below the floor."""

    def settle(self, stored: Sequence[Stored]) -> None:
        """Make the names of committed files durable. Raises StorageFull."""

    def path(self, relative: str) -> Path:
        """A local file with what an archive-relative path names, absent where the archive has none. Refuses paths that leave the archive (BadInput);
        raises ServiceUnavailable where it has to be fetched and cannot be."""

    def paths(self, relatives: Sequence[str]) -> list[Path]:
        """As `path`, for several at once: from an object store they come side by side."""

    def features_path(self, identity: str, source: str) -> str:
        """Archive-relative path of what an encoder (its identity) makes of some files (their digest); its folder exists."""

    def publish(self, relative: str) -> None:
        """What was written whole at `path(relative)` is durable and found by every machine when this returns. Raises StorageFull."""

    def sha256(self, relative: str) -> str | None:
        """Hash of the bytes as the archive holds them now, not of a copy; None where it holds none. Raises ServiceUnavailable."""

    def prepare(self) -> None:
        """Make ready for images, once at start. Raises StorageFull."""

    def sweep(self) -> int:
        """Remove what a crash left in `incoming/`; returns how many files."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """One C-STORE request. Its bytes wait in an Incoming: group 2 written by us, then the data set as it came."""

    sop_class: str
    sop_uid: str
    transfer_syntax: str
    head: bytes  # of the data set: all of a small one, the beginning of a large one
    size: int  # bytes of the whole data set
    association: UUID | None
    calling_aet: str = ""


class Answer(StrEnum):
    """What receiving one instance came to. The listener knows each one's DIMSE status."""

    STORED = "stored"  # durable, or the same bytes were already there
    ODD = "odd"  # durable and flagged
    MISMATCH = "mismatch"  # the data set is not of the SOP class that was asked for; quarantined
    UNREADABLE = "unreadable"  # no usable header; quarantined
    FULL = "full"  # nothing kept now; the sender should try again
    TOO_LARGE = "too_large"  # over the size limit; nothing kept


class HeaderReader(Protocol):
    """Reads the header facts of one arrival. Raises UnreadableDicom; nothing else, whatever the bytes."""

    def __call__(self, arrival: Arrival) -> Header:
        """The archive's part of the instance (path, sha256, size) is empty: the bytes may not be filed yet."""


class Receiver(Protocol):
    """The receive step, as the listener calls it."""

    def __call__(self, arrival: Arrival, content: Incoming) -> Answer:
        """File one instance; `content` is committed, quarantined or discarded when it returns."""


class Ledger(Protocol):
    """The listener's own append-only record of acknowledged images, beside the database."""

    def append(self, headers: Sequence[Header]) -> None:
        """Written when it returns, synced soon after. Raises StorageFull."""


class PhantomLedger(Protocol):
    """Which SOP instances are phantoms that this installation made."""

    def holds_all(self, sop_uids: Sequence[str]) -> bool: ...
