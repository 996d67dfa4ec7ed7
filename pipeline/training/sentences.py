"""Typical reports of the training corpus: the texts that the engine's lookup drafter starts from."""

from __future__ import annotations

from pipeline.drafting.schema import dumps
from pipeline.training.batches import DEPARTMENT_SHARES, DEPARTMENTS
from pipeline.training.corpus import report
from pipeline.training.reasons import Reason
from pipeline.training.scene import scene
from pipeline.training.shards import Views

MAX_BYTES = 190_000


def typical_reports(views: Views, max_bytes: int = MAX_BYTES) -> list[str]:
    """Reports of the first views, as JSON, until they fill `max_bytes`: departments by their share in training, every kind of indication in turn."""
    turn = [name for name, share in zip(DEPARTMENTS, DEPARTMENT_SHARES, strict=True) for _ in range(round(5 * share))]
    reasons = list(Reason)
    lines, used = [], 0
    for row, (candidates, truth) in enumerate(zip(views.candidates, views.truths, strict=True)):
        line = dumps(report(scene(candidates, truth, reasons[row % len(reasons)]), turn[row % len(turn)]))
        used += len(line.encode()) + 1
        if used > max_bytes:
            break
        lines.append(line)
    return lines
