"""The append-only trail."""

from __future__ import annotations

from uuid import UUID

from sqlalchemy import insert

from pipeline.store.repository import Repository, plain
from pipeline.store.tables import AuditRow


class PgAudit(Repository):
    """Audit port on PostgreSQL; a trigger of the schema forbids changing rows."""

    def append(self, action: str, *, study_id: UUID | None = None, job_id: UUID | None = None, actor: str = "system", **detail: str) -> None:
        """Add one event. `detail` holds no patient data."""
        clean = {key: plain(value) for key, value in detail.items()}
        self.session.execute(insert(AuditRow).values(action=action, study_id=study_id, job_id=job_id, actor=plain(actor), detail=clean))
