"""Reports as readers move them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from sqlalchemy import func, select, update

from pipeline.errors import BadInput
from pipeline.model import ReportState
from pipeline.ports import Block
from pipeline.ports import ReportRow as Report
from pipeline.store.deliveries import blocks
from pipeline.store.repository import Repository, plain
from pipeline.store.shown import shown
from pipeline.store.tables import FlagRow, ReportRow

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
        return Report(found.id, found.study_id, ReportState(found.state), found.demo_only, found.draft_id)

    def move(self, report: Report, to: ReportState, actor: str) -> None:
        """Move a report that `get` locked, noting who and when. Raises IllegalMove."""
        values: dict[str, Any] = {"state": report.state.move(to).value}
        if to in NOTED:
            values |= {f"{NOTED[to]}_by": plain(actor), f"{NOTED[to]}_at": func.now()}
        self.session.execute(update(ReportRow).where(ReportRow.id == report.id).values(**values))

    def blocks(self, report: Report) -> tuple[Block, ...]:
        """Unresolved hits that block it, in their order, locked until the end of the transaction."""
        query = select(FlagRow).where(FlagRow.draft_id == report.draft_id, blocks()).order_by(FlagRow.position).with_for_update()
        return tuple(Block(row.position, row.rule, row.section, row.message) for row in self.session.scalars(query))

    def resolve(self, report: Report, block: Block, actor: str, reason: str) -> None:
        """Note who answers for a hit that blocks, and why."""
        mine = (FlagRow.draft_id == report.draft_id) & (FlagRow.position == block.position)
        values = {"resolved_by": plain(actor), "resolved_at": func.now(), "resolution": plain(reason)}
        self.session.execute(update(FlagRow).where(mine).values(**values))

    def shown(self, draft_id: UUID) -> Mapping[str, object]:
        """What `ctreport show` prints of one draft. Raises BadInput for an unknown id."""
        return shown(self.session, draft_id)
