"""Deliver: who gets which draft, claimed under a lease."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import ColumnElement, func, or_, select, update
from sqlalchemy.dialects.postgresql import insert

from pipeline.errors import BadInput, LeaseLost, NotAllowed
from pipeline.model import Lease, Severity
from pipeline.ports import Delivery
from pipeline.store.repository import Repository, fixed, in_seconds, looked_up, plain
from pipeline.store.tables import DeliveryRow, DeliveryState, DraftRow, FlagRow, JobRow

WITHDRAWAL = "withdrawal"
FREE = {"lease_owner": None, "lease_until": None}


def is_due() -> ColumnElement[bool]:
    """Waiting, due, nobody delivers it now, and nothing in the draft blocks it. The notice of a withdrawal is never barred."""
    free = or_(DeliveryRow.lease_until.is_(None), DeliveryRow.lease_until < func.now())
    blocked = looked_up(select(FlagRow.position).where(FlagRow.draft_id == DeliveryRow.draft_id, blocks()).correlate(DeliveryRow))
    open_ = or_(DeliveryRow.kind == WITHDRAWAL, ~blocked)
    return (DeliveryRow.state == fixed(DeliveryState.WAITING)) & (DeliveryRow.due_at <= func.now()) & free & open_


def blocks() -> ColumnElement[bool]:
    """A hit that blocks its report and that nobody has resolved."""
    return (FlagRow.severity == Severity.BLOCK.value) & FlagRow.resolved_at.is_(None)


class PgDeliveries(Repository):
    """Deliveries port on PostgreSQL."""

    def ask(self, draft_id: UUID, kind: str) -> None:
        """A delivery row (waiting). Idempotent per (draft, kind). Raises NotAllowed for a demo-only draft, BadInput for an unknown one."""
        query = select(JobRow.study_id, DraftRow.phantom_only, JobRow.is_phantom).join(JobRow, JobRow.id == DraftRow.job_id)
        found = self.session.execute(query.where(DraftRow.id == draft_id)).one_or_none()
        if found is None:
            raise BadInput(f"there is no draft {draft_id} to deliver; `ctreport status` lists what there is")
        study_id, phantom_only, is_phantom = found
        if phantom_only and not is_phantom:
            raise NotAllowed(f"draft {draft_id} of a real study was written by a phantom-only model: it is never delivered")
        values = {"id": uuid4(), "draft_id": draft_id, "study_id": study_id, "kind": kind}
        self.session.execute(insert(DeliveryRow).values(**values).on_conflict_do_nothing())

    def claim(self, limit: int, lease: Lease, kind: str | None = None) -> tuple[Delivery, ...]:
        """Up to `limit` due deliveries (of one kind) under a lease, longest due first; each claim counts one attempt."""
        wanted = is_due() if kind is None else is_due() & (DeliveryRow.kind == kind)
        due = select(DeliveryRow.id).where(wanted).order_by(DeliveryRow.due_at).limit(limit).with_for_update(skip_locked=True).cte("due")
        leased = {"lease_owner": lease.owner, "lease_until": in_seconds(lease.seconds), "attempts": DeliveryRow.attempts + 1}
        taken = update(DeliveryRow).where(DeliveryRow.id.in_(select(due.c.id))).values(**leased).returning(DeliveryRow)
        rows = self.session.scalars(taken, execution_options={"populate_existing": True, "synchronize_session": False}).all()
        return tuple(Delivery(row.id, row.draft_id, row.study_id, row.kind, row.attempts) for row in sorted(rows, key=lambda row: row.due_at))

    def done(self, delivery: Delivery, lease: Lease) -> None:
        """waiting → done. Raises LeaseLost."""
        self._hand_over(delivery, lease, state=DeliveryState.DONE.value, done_at=func.now(), reason=None)

    def give_back(self, delivery: Delivery, reason: str, delay_s: float | None, lease: Lease) -> None:
        """Waiting again after `delay_s`, or failed with the reason where there is no next time. Raises LeaseLost."""
        state = DeliveryState.FAILED if delay_s is None else DeliveryState.WAITING
        self._hand_over(delivery, lease, state=state.value, reason=plain(reason), due_at=in_seconds(delay_s or 0.0))

    def _hand_over(self, delivery: Delivery, lease: Lease, **values: Any) -> None:
        mine = (DeliveryRow.id == delivery.id) & (DeliveryRow.lease_owner == lease.owner) & (DeliveryRow.state == DeliveryState.WAITING.value)
        moved = update(DeliveryRow).where(mine).values(**FREE, **values).returning(DeliveryRow.id)
        if self.session.execute(moved, execution_options={"synchronize_session": False}).first() is None:
            raise LeaseLost(f"delivery {delivery.id} is no longer leased by this worker; the holder goes on")
