"""The Doses port on PostgreSQL, put together from one class per task."""

from __future__ import annotations

from pipeline.store.dose_recheck import Rechecking
from pipeline.store.dose_reports import DoseReports
from pipeline.store.irradiation import Irradiations


class PgDoses(DoseReports, Irradiations, Rechecking):
    """Dose objects, irradiation events, and the unsigned reports that they concern, inside the current transaction."""
