"""Storage commitments as rows: asked, claimed under a lease, reported. A row is waiting until its peer has confirmed the report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import ColumnElement, case, func, or_, select, update
from sqlalchemy.dialects.postgresql import insert

from pipeline.errors import LeaseLost
from pipeline.modalities import Commitment, Held, Reference
from pipeline.model import Lease
from pipeline.store.repository import Repository, fixed, in_seconds, plain, plain_list
from pipeline.store.tables import CommitmentRow, CommitmentState, InstanceRow

FREE = {"lease_owner": None, "lease_until": None}
NO_SYNC = {"synchronize_session": False}
BATCH = 1000  # UIDs per look-up


class PgCommitments(Repository):
    """Commitments port on PostgreSQL."""

    def ask(
        self, transaction_uid: str, calling_aet: str, host: str, requested: Sequence[Reference], association: UUID, lease: Lease
    ) -> Commitment | None:
        """Insert, or let a known transaction of the same peer wait anew; see the Commitments port."""
        pairs = [plain_list((reference.sop_class, reference.sop_uid)) for reference in requested]
        asked: dict[str, Any] = {"requested": pairs, "host": plain(host), "association_id": association, "state": CommitmentState.WAITING.value}
        asked |= {"attempts": 0, "failures": None, "reason": None, "reported_at": None, "due_at": func.now()}
        asked |= {"lease_owner": lease.owner, "lease_until": in_seconds(lease.seconds)}
        new = insert(CommitmentRow).values(id=uuid4(), transaction_uid=plain(transaction_uid), calling_aet=plain(calling_aet), **asked)
        idle = or_(CommitmentRow.state != fixed(CommitmentState.WAITING), _free())
        known = [CommitmentRow.transaction_uid, CommitmentRow.calling_aet]
        changed = CommitmentRow.requested != new.excluded.requested
        renewed = asked | {"created_at": func.now()}  # giving up counts from the latest asking
        query = new.on_conflict_do_update(index_elements=known, set_=renewed, where=or_(idle, changed)).returning(CommitmentRow)
        row = self.session.scalars(query, execution_options={"populate_existing": True}).one_or_none()
        return None if row is None else _commitment(row)

    def claim(self, limit: int, lease: Lease, calling_aet: str | None = None) -> tuple[Commitment, ...]:
        """Up to `limit` waiting commitments, longest due first; each claim counts one attempt."""
        wanted = CommitmentRow.due_at <= func.now() if calling_aet is None else CommitmentRow.calling_aet == plain(calling_aet)
        waiting = select(CommitmentRow.id).where(CommitmentRow.state == fixed(CommitmentState.WAITING), wanted, _free())
        due = waiting.order_by(CommitmentRow.due_at).limit(limit).with_for_update(skip_locked=True).cte("due")
        leased = {"lease_owner": lease.owner, "lease_until": in_seconds(lease.seconds), "attempts": CommitmentRow.attempts + 1}
        taken = update(CommitmentRow).where(CommitmentRow.id.in_(select(due.c.id))).values(**leased).returning(CommitmentRow)
        rows = self.session.scalars(taken, execution_options={"populate_existing": True, **NO_SYNC}).all()
        return tuple(_commitment(row) for row in sorted(rows, key=lambda row: row.due_at))

    def heartbeat(self, commitment: Commitment, lease: Lease) -> bool:
        """Extend the lease; False when it belongs to somebody else now."""
        return self._update(commitment, lease, lease_until=in_seconds(lease.seconds)) is not None

    def held(self, sop_uids: Sequence[str]) -> tuple[Held, ...]:
        """Archived objects of these SOPInstanceUIDs, those beside the first among them."""
        wanted, found = sorted({plain(uid) for uid in sop_uids}), []
        for start in range(0, len(wanted), BATCH):
            query = select(InstanceRow.sop_class, InstanceRow.sop_uid, InstanceRow.path, InstanceRow.sha256)
            rows = self.session.execute(query.where(InstanceRow.sop_uid.in_(wanted[start : start + BATCH])))
            found += [Held(Reference(sop_class, sop_uid), path, sha256) for sop_class, sop_uid, path, sha256 in rows]
        return tuple(found)

    def reported(self, commitment: Commitment, failures: int, lease: Lease) -> None:
        """waiting → reported. Raises LeaseLost."""
        values = {"state": CommitmentState.REPORTED.value, "reported_at": func.now(), "failures": failures, "reason": None}
        if self._update(commitment, lease, **FREE, **values) is None:
            raise _lost(commitment)

    def give_back(self, commitment: Commitment, reason: str, delay_s: float, give_up_s: float, lease: Lease) -> bool:
        """Due again after `delay_s`, or waiting → failed when it is too old: then False. Raises LeaseLost."""
        too_old = CommitmentRow.created_at <= in_seconds(-give_up_s)
        state = case((too_old, fixed(CommitmentState.FAILED)), else_=fixed(CommitmentState.WAITING))
        left = self._update(commitment, lease, **FREE, state=state, reason=plain(reason), due_at=in_seconds(delay_s))
        if left is None:
            raise _lost(commitment)
        return left == CommitmentState.WAITING

    def _update(self, commitment: Commitment, lease: Lease, **values: Any) -> str | None:
        """Change a row that this worker still leases; its state afterwards, None when it is not ours."""
        mine = (CommitmentRow.id == commitment.id) & (CommitmentRow.lease_owner == lease.owner)
        waiting = CommitmentRow.state == fixed(CommitmentState.WAITING)
        changed = update(CommitmentRow).where(mine, waiting).values(**values).returning(CommitmentRow.state)
        return self.session.execute(changed, execution_options=NO_SYNC).scalar_one_or_none()


def _free() -> ColumnElement[bool]:
    return or_(CommitmentRow.lease_until.is_(None), CommitmentRow.lease_until < func.now())


def _commitment(row: CommitmentRow) -> Commitment:
    requested = tuple(Reference(sop_class, sop_uid) for sop_class, sop_uid in row.requested)
    return Commitment(row.id, row.transaction_uid, row.calling_aet, requested, row.attempts)


def _lost(commitment: Commitment) -> LeaseLost:
    return LeaseLost(f"commitment {commitment.id} is no longer leased by this listener; the holder goes on")
