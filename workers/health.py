"""Readiness of each part, and `ctreport verify`: ledger against database against archive."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.errors import PipelineError
from pipeline.settings import settings
from workers import broker, wiring

if TYPE_CHECKING:
    from pipeline.dicom.verify import Verification
    from pipeline.store.session import PgStore

OK = "ok"
STUCK_GRACE_S = 120.0


def readiness() -> dict[str, str]:
    """Each part with `ok` or a sentence that says what is wrong and holds no secret."""
    return {"database": _database(), "broker": _broker(), "archive": _archive()}


def _database() -> str:
    try:
        wiring.store().ping()
    except PipelineError as error:
        return str(error)
    return OK


def _broker() -> str:
    try:
        broker.ping(wiring.urls(settings()).broker)
    except PipelineError as error:
        return str(error)
    return OK


def _archive() -> str:
    return wiring.archive().refusal() or OK


def verify_all(store: PgStore, ledgers: Path) -> Verification:
    """Compare what was acknowledged with the rows and the bytes; also rows that no longer move, and what must not be twice."""
    from pipeline.dicom.ledger import read_ledger
    from pipeline.dicom.verify import Difference, compare
    from pipeline.store import proof

    stuck = proof.stuck(store, STUCK_GRACE_S, wiring.patience())
    report = compare(read_ledger(ledgers), proof.instance_rows(store), wiring.archive(), stuck=stuck)
    doubled = [Difference(json.dumps(row, default=str), "", "", "") for row in proof.duplicates(store)]
    return replace(report, duplicates=(*report.duplicates, *doubled))
