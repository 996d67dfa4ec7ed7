"""Retain: once an hour what only tells how work went is removed where it is old, in small transactions. The record itself is never touched."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from pipeline import log, metrics
from pipeline.ports import Store

ROUND, EVERY_S = "retain", 3600.0
BATCH, BATCHES = 1_000, 50  # rows of a table per transaction, and transactions per round: the next round goes on
logger = log.get(__name__)


@dataclass(frozen=True)
class Retaining:
    """What the job works with. `days`: how long rows that only tell how work went are kept; None: for ever."""

    store: Store
    days: float | None


def retain(ports: Retaining) -> Mapping[str, int]:
    """Rows that were removed, by table; none where another process has just done it, or where everything is kept."""
    if ports.days is None:
        return {}
    with ports.store.begin() as work:
        if not work.studies.turn(ROUND, EVERY_S):
            return {}
    removed: Counter[str] = Counter()
    for _ in range(BATCHES):
        with ports.store.begin() as work:
            gone = {table: rows for table, rows in work.studies.forget(ports.days, BATCH).items() if rows}
            if gone:
                facts = {"days": f"{ports.days:g}"} | {table: str(rows) for table, rows in gone.items()}
                work.audit.append("forgotten", study_id=None, job_id=None, actor="system", **facts)
        removed.update(gone)
        if not gone:
            break
    for table, rows in removed.items():
        metrics.FORGOTTEN.labels(table).inc(rows)
    if removed:
        logger.info("retain", **removed)
    return removed
