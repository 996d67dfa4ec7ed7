"""The Studies port on PostgreSQL, put together from one class per step."""

from __future__ import annotations

from pipeline.store.assembling import Assembling
from pipeline.store.evidence import Judging
from pipeline.store.frozen import Frozen
from pipeline.store.receiving import Receiving
from pipeline.store.rejecting import Rejecting
from pipeline.store.retention import Retention
from pipeline.store.rounds import Rounds
from pipeline.store.saving import Saving
from pipeline.store.series_rules import SeriesRules
from pipeline.store.upkeep import Upkeep


class PgStudies(Receiving, Judging, Assembling, SeriesRules, Rejecting, Frozen, Saving, Upkeep, Rounds, Retention):
    """Rows of studies, instances and jobs inside the current transaction."""
