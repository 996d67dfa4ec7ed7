"""Real CT series beside the phantoms: how far from them the encoder says that they are. Nothing is said of what they show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pipeline.encoder.compact import OUTLYING, CompactEncoder
from pipeline.encoder.prepare import preparing
from pipeline.encoder.series import SeriesEncoder
from pipeline.errors import Unsupported
from pipeline.settings import ImagingSettings


def distances(folders: list[Path], encoder: Path) -> list[dict[str, Any]]:
    """Of each folder with one series: distance, whether it is flagged, or the reason why no encoder reads it. Raises ModelMissing."""
    reader = SeriesEncoder(CompactEncoder.load(encoder), preparing(ImagingSettings())) if folders else None
    return [_distance(folder, reader) for folder in folders if reader is not None]


def _distance(folder: Path, reader: SeriesEncoder) -> dict[str, Any]:
    try:
        features = reader.encode(sorted(folder.rglob("*.dcm")))
    except Unsupported as error:
        return {"folder": folder.name, "ood": None, "flagged": None, "reason": str(error)}
    return {"folder": folder.name, "ood": features.ood, "flagged": OUTLYING in features.flags, "reason": ""}
