"""What a folder of safetensors holds, told from the headers alone: no weight is read, however large the files are.

A file begins with the header's length (8 bytes, little endian) and the header, a JSON object of name → dtype, shape, data_offsets; several
files have an index beside them (safetensors format; Hugging Face's `model.safetensors.index.json`).
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
LONGEST = 100_000_000  # bytes of a header, as the format limits it
AGAIN = "copy the weights again"


@dataclass(frozen=True, slots=True)
class Stored:
    """One tensor as its file describes it."""

    dtype: str  # the format's word: F32, BF16, F8_E4M3 …
    shape: tuple[int, ...]
    size_bytes: int

    @property
    def elements(self) -> int:
        """Numbers that it holds."""
        return math.prod(self.shape)


@dataclass
class Headers:
    """Every tensor of a folder, the files that hold them, and what is wrong with the files."""

    tensors: dict[str, Stored] = field(default_factory=dict)
    files: list[Path] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    lost: set[str] = field(default_factory=set)  # names whose file is missing or damaged, which was said already

    @property
    def label(self) -> str:
        """What a sentence calls the weights."""
        return WEIGHTS if len(self.files) <= 1 else f"{len(self.files)} safetensors files"


def weight_files(folder: Path) -> list[Path]:
    """The files that hold a folder's weights, whether they exist or not."""
    try:
        index = json.loads((folder / INDEX).read_text(encoding="utf-8"))
        return [folder / name for name in sorted(set(index["weight_map"].values()))]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return [folder / WEIGHTS]


def read_headers(folder: Path) -> Headers:
    """All headers of a checkpoint folder, with one sentence for each thing that is wrong with its files."""
    if (folder / INDEX).is_file():
        return _read_sharded(folder)
    found = Headers()
    if (folder / WEIGHTS).is_file():
        _add(found, folder / WEIGHTS)
    else:
        found.problems.append(f"no {WEIGHTS} in the model folder '{folder.name}'; copy the weights there or run `ctreport train`")
    return found


def _read_sharded(folder: Path) -> Headers:
    found = Headers()
    placed = _weight_map(folder / INDEX)
    if placed is None:
        found.problems.append(f'{INDEX} cannot be read or has no "weight_map"; {AGAIN}')
        return found
    missing = []
    for path in weight_files(folder):
        if path.is_file():
            _add(found, path)
        else:
            missing.append(path.name)
    if missing:
        found.problems.append(f"{INDEX} names {len(missing)} files that are missing, first '{missing[0]}'; copy them there")
    damaged = {path.name for path in found.files} - _readable(found, placed)
    found.lost = {name for name, file in placed.items() if file in missing or file in damaged}
    if astray := sorted(set(placed) - found.lost - set(found.tensors)):
        found.problems.append(f"{INDEX} places {len(astray)} tensors in files that do not hold them, first '{astray[0]}'; {AGAIN}")
    return found


def _readable(found: Headers, placed: Mapping[str, str]) -> set[str]:
    """Files of which at least one tensor was found."""
    return {file for name, file in placed.items() if name in found.tensors}


def _weight_map(path: Path) -> dict[str, str] | None:
    """Name of a tensor → name of its file; None when the index is none, or leads out of the folder."""
    try:
        placed = json.loads(path.read_text(encoding="utf-8"))["weight_map"]
        plain = {str(name): str(file) for name, file in placed.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return plain if all(Path(file).name == file for file in plain.values()) else None


def _add(found: Headers, path: Path) -> None:
    found.files.append(path)
    try:
        found.tensors.update(read_header(path))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, struct.error) as error:
        found.problems.append(f"{path.name} cannot be read ({error}); {AGAIN}")


def read_header(path: Path) -> dict[str, Stored]:
    """The tensors of one file; ValueError when it is cut or no safetensors file."""
    with path.open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        if length > LONGEST:
            raise ValueError(f"a header of {length} bytes is none")
        text = file.read(length)
    raw = json.loads(text)
    raw.pop("__metadata__", None)
    ends = [8 + length, *(8 + length + int(entry["data_offsets"][1]) for entry in raw.values())]
    if (size := path.stat().st_size) < max(ends):
        raise ValueError(f"{size} bytes, its header speaks of {max(ends)}")
    if not raw:
        raise ValueError("it holds no tensor")
    return {name: _stored(entry) for name, entry in raw.items()}


def _stored(entry: Mapping[str, list[int]]) -> Stored:
    first, last = entry["data_offsets"]
    return Stored(str(entry["dtype"]), tuple(int(size) for size in entry["shape"]), int(last) - int(first))
