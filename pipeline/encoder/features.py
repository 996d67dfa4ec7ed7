"""Features on disk: safetensors with their provenance as JSON in the header, the same bytes for the same features."""

from __future__ import annotations

import hashlib
import json
import os
import struct
from dataclasses import asdict
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from pipeline.errors import BadInput, StorageFull
from pipeline.model import Candidate, Features, Frame, Side

FORMAT = "ctreport-features-3"
OLDER = ("ctreport-features-1", "ctreport-features-2")  # without what a volume shows; without emphysema, fibrosis and the distance


def save_features(path: Path, features: Features) -> None:
    """Write whole and durable: temporary name, fsync, rename, fsync of the folder. Raises StorageFull where it cannot be written."""
    body = save({"features": np.ascontiguousarray(features.array, dtype=np.float32)}, metadata={"ctreport": _header(features)})
    temporary = path.with_suffix(f".{uuid4().hex}.part")  # of this writer alone: another may have lost its lease and not know
    try:
        _write(temporary, path, body)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise StorageFull(f"a features file cannot be written ({error.strerror}); make space or mend the archive folder") from error


def _write(temporary: Path, path: Path, body: bytes) -> None:
    with temporary.open("wb") as file:
        file.write(body)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def load_features(path: Path) -> Features:
    """The features that `save_features` wrote. Raises BadInput where the file is missing or not ours."""
    try:
        with safe_open(path, framework="numpy") as file:
            array = file.get_tensor("features")
            raw = json.loads((file.metadata() or {})["ctreport"])
        return _features(raw, array)
    except (OSError, SafetensorError, KeyError, ValueError, TypeError, AttributeError, struct.error) as error:
        raise BadInput(f"a features file cannot be read ({type(error).__name__}); `ctreport retry` encodes the study again") from error


def _features(raw: dict[str, Any], array: NDArray[np.float32]) -> Features:
    if raw.get("format") not in (FORMAT, *OLDER):
        raise BadInput(f"a features file has format '{raw.get('format')}', this version reads '{FORMAT}'; `ctreport retry` encodes the study again")
    if raw.get("sha256", (found := _digest(array))) != found:
        raise BadInput("a features file holds other numbers than were written (SHA-256 differs); `ctreport retry` encodes the study again")
    return Features(
        array=array,
        encoder=raw["encoder"],
        version=raw["version"],
        preprocessing=raw["preprocessing"],
        candidates=tuple(_candidate(c) for c in raw["candidates"]),
        effusion=_sides(raw["effusion"]),
        flags=tuple(raw["flags"]),
        phantom_only=bool(raw["phantom_only"]),
        source=raw.get("source", ""),
        covers=tuple(raw.get("covers", ())),
        contrast=raw.get("contrast"),
        noise_hu=raw.get("noise_hu"),
        denoised=bool(raw.get("denoised")),
        key_slices=tuple((str(uid), int(frame)) for uid, frame in raw.get("key_slices", ())),
        frame=_frame(raw.get("frame")),
        emphysema=_sides(raw.get("emphysema")),
        fibrosis=_sides(raw.get("fibrosis")),
        ood=raw.get("ood"),
    )


def _header(features: Features) -> str:
    fields: dict[str, Any] = asdict(features)
    del fields["array"]
    return json.dumps({"format": FORMAT, "sha256": _digest(features.array), **fields}, ensure_ascii=False, sort_keys=True)


def _digest(array: NDArray[np.float32]) -> str:
    return hashlib.sha256(np.ascontiguousarray(array, dtype=np.float32).tobytes()).hexdigest()


def _sides(raw: list[str] | None) -> tuple[Side, ...] | None:
    return None if raw is None else tuple(map(Side, raw))


def _frame(raw: dict[str, Any] | None) -> Frame | None:
    """None in features from before it was kept: they cannot be compared by position."""
    return None if raw is None else Frame(**raw | {"lungs_mm": tuple(raw["lungs_mm"])})


def _candidate(raw: dict[str, Any]) -> Candidate:
    x, y, z = raw["center_mm"]
    return Candidate(**raw | {"side": Side(raw["side"]), "center_mm": (x, y, z)})
