"""`ctreport verify`: the ledger of acknowledged images against the database rows and the bytes in the archive. Every difference is named."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Protocol

from pipeline.dicom.ledger import Entry

HASHERS = 4  # files that are read at the same time
CHUNK = 1_000


class Row(Protocol):
    """One instance row of the database."""

    @property
    def sop_uid(self) -> str:
        """SOPInstanceUID."""

    @property
    def sha256(self) -> str:
        """Hash of the file when it was received."""

    @property
    def path(self) -> str:
        """Relative to the archive root."""


class Shelf(Protocol):
    """What an archive says of its bytes."""

    def names(self) -> list[str]:
        """Archive-relative paths of all archived instances, sorted."""

    def sha256(self, relative: str) -> str | None:
        """Hash of the bytes as they stand; None where there are none."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is not as it should be."""

    what: str
    sop_uid: str
    sha256: str
    path: str

    def as_json(self) -> dict[str, str]:
        """For `--json`."""
        return {"what": self.what, "sop_uid": self.sop_uid, "sha256": self.sha256, "path": self.path}


@dataclass(frozen=True, slots=True)
class Verification:
    """What was found. An orphan is a file without a row: bytes of an image that was never acknowledged, left by a kill. It is listed and is no
    fault: sending the image again gives the file its row."""

    acknowledged: int  # distinct (SOPInstanceUID, hash)
    missing: tuple[Difference, ...]
    changed: tuple[Difference, ...]
    orphaned: tuple[Difference, ...]
    duplicates: tuple[Difference, ...]
    stuck: tuple[object, ...] = ()

    @property
    def clean(self) -> bool:
        """True when nothing acknowledged is lost, changed or doubled, and nothing is stuck."""
        return not (self.missing or self.changed or self.duplicates or self.stuck)

    def as_json(self) -> dict[str, object]:
        """The keys of `ctreport verify --json`."""
        return {
            "clean": self.clean,
            "acknowledged": self.acknowledged,
            "missing": [d.as_json() for d in self.missing],
            "changed": [d.as_json() for d in self.changed],
            "orphaned": [d.as_json() for d in self.orphaned],
            "duplicates": [d.as_json() for d in self.duplicates],
            "stuck": [_plain(item) for item in self.stuck],
        }

    def summary(self) -> str:
        """For a person: one line of counts, then a line per difference."""
        counts = ", ".join(f"{name} {len(getattr(self, name))}" for name in ("missing", "changed", "orphaned", "duplicates", "stuck"))
        lines = [f"{'clean' if self.clean else 'NOT CLEAN'}: acknowledged {self.acknowledged}, {counts}"]
        for name in ("missing", "changed", "orphaned", "duplicates"):
            lines += [f"{name}: {d.what}: {d.path} (SOP {d.sop_uid or '-'}, sha256 {d.sha256})" for d in getattr(self, name)]
        return "\n".join([*lines, *(f"stuck: {item}" for item in self.stuck)])


def compare(entries: Iterable[Entry], rows: Iterable[Row], shelf: Shelf, stuck: Sequence[object] = ()) -> Verification:
    """Compare the three, re-hashing every archived file once."""
    acknowledged = {(entry.sop_uid, entry.sha256): entry for entry in entries}
    registered: Counter[tuple[str, str]] = Counter()
    paths: dict[str, tuple[str, str]] = {e.path: key for key, e in acknowledged.items()}
    for row in rows:
        registered[row.sop_uid, row.sha256] += 1
        paths[row.path] = row.sop_uid, row.sha256
    found = shelf.names()
    here = frozenset(found)
    missing = [_difference("no database row", key, acknowledged[key].path) for key in sorted(acknowledged.keys() - registered.keys())]
    missing += [_difference("no file in the archive", key, path) for path, key in sorted(paths.items()) if path not in here]
    return Verification(
        acknowledged=len(acknowledged),
        missing=tuple(missing),
        changed=tuple(_changed(shelf, found, paths)),
        orphaned=tuple(Difference("a file without a row", "", PurePosixPath(path).stem, path) for path in found if path not in paths),
        duplicates=tuple(_difference(f"{n} rows for one image", key, "") for key, n in sorted(registered.items()) if n > 1),
        stuck=tuple(stuck),
    )


def _changed(shelf: Shelf, found: Sequence[str], paths: dict[str, tuple[str, str]]) -> Iterator[Difference]:
    known = [path for path in found if path in paths]
    with ThreadPoolExecutor(HASHERS, thread_name_prefix="hash") as pool:
        for start in range(0, len(known), CHUNK):
            chunk = known[start : start + CHUNK]
            for path, now in zip(chunk, pool.map(shelf.sha256, chunk), strict=True):
                if now != paths[path][1]:
                    yield _difference(f"the file's hash is now {now}", paths[path], path)


def _difference(what: str, key: tuple[str, str], path: str) -> Difference:
    return Difference(what, key[0], key[1], path)


def _plain(item: object) -> object:
    """What JSON can carry: named tuples by their fields."""
    fields = getattr(item, "_fields", None)
    return {name: str(getattr(item, name)) for name in fields} if fields else str(item)
