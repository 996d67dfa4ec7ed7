"""Reports as readers move them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from sqlalchemy import func, select, update

from pipeline.errors import BadInput
from pipeline.model import ReportState
from pipeline.ports import ReportRow as Report
from pipeline.store.repository import Repository, plain
from pipeline.store.shown import shown
from pipeline.store.tables import ReportRow

# state → the columns that say who and when
NOTED = {
    ReportState.REVIEWING: "reviewed",
    ReportState.WRITTEN: "written",
    ReportState.SIGNED: "signed",
    ReportState.AMENDED: "signed",
}


class PgReports(Repository):
    """Reports port on PostgreSQL."""

    def get(self, report_id: UUID) -> Report:
        """The report, its row locked until the end of the transaction. Raises BadInput for an unknown id."""
        found = self.session.scalars(select(ReportRow).where(ReportRow.id == report_id).with_for_update()).one_or_none()
        if found is None:
            raise BadInput(f"there is no report {report_id}; `ctreport status` lists what there is")
        return Report(found.id, found.study_id, ReportState(found.state), found.demo_only)

    def move(self, report: Report, to: ReportState, actor: str) -> None:
        """Move a report that `get` locked, noting who and when. Raises IllegalMove."""
        values: dict[str, Any] = {"state": report.state.move(to).value}
        if to in NOTED:
            values |= {f"{NOTED[to]}_by": plain(actor), f"{NOTED[to]}_at": func.now()}
        self.session.execute(update(ReportRow).where(ReportRow.id == report.id).values(**values))

    def shown(self, draft_id: UUID) -> Mapping[str, object]:
        """What `ctreport show` prints of one draft. Raises BadInput for an unknown id."""
        return shown(self.session, draft_id)
