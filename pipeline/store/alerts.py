"""Alerts on suspected critical findings: raised with the draft, climbing while nobody was told, closed by who told whom and when."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import ColumnElement, func, literal, or_, select, update
from sqlalchemy.dialects.postgresql import insert as upsert

from pipeline.alerting import Acknowledgement, Alert, Escalated
from pipeline.checking import Suspected
from pipeline.errors import BadInput
from pipeline.model import AlertState
from pipeline.store.repository import Repository, fixed, plain
from pipeline.store.tables import AlertRow, StudyRow

OPEN = AlertRow.state == fixed(AlertState.OPEN)
UNSYNCED = {"synchronize_session": False}


class PgAlerts(Repository):
    """Alerts port on PostgreSQL."""

    def suspect(self, study_id: UUID, revision: int, draft_id: UUID, found: Sequence[Suspected]) -> tuple[UUID, ...]:
        """One open alert per finding that the study has none of yet; an open one moves to the newer draft and keeps its clock, one that was waived
        for an older revision is open again. Returns those that are open anew."""
        fresh = []
        for one in sorted(found, key=lambda one: one.rule.id):
            place = {"revision": revision, "draft_id": draft_id}
            made = upsert(AlertRow).values(id=uuid4(), study_id=study_id, **place, **_values(one)).on_conflict_do_nothing().returning(AlertRow.id)
            anew = self.session.execute(made).scalar_one_or_none() or self._again(study_id, one, place)
            fresh += [anew] if anew is not None else []
        return tuple(fresh)

    def _again(self, study_id: UUID, one: Suspected, place: dict[str, Any]) -> UUID | None:
        """The study has this alert already; returns its id where it is open again."""
        mine = (AlertRow.study_id == study_id) & (AlertRow.rule == one.rule.id)
        certain = or_(AlertRow.certain, literal(one.certain))
        moved = update(AlertRow).where(mine, OPEN, AlertRow.revision <= place["revision"]).values(**place, certain=certain)
        self.session.execute(moved, execution_options=UNSYNCED)
        waived = (AlertRow.state == fixed(AlertState.WAIVED)) & (AlertRow.revision < place["revision"])
        anew = {"seen_at": func.now(), "escalated_at": None, "waived_by": None, "waived_reason": None, "waived_at": None, **_values(one)}
        reopened = update(AlertRow).where(mine, waived).values(**place, **anew).returning(AlertRow.id)
        return self.session.execute(reopened, execution_options=UNSYNCED).scalar_one_or_none()

    def open_of(self, study_id: UUID) -> tuple[Alert, ...]:
        """Open alerts of a study, locked until the end of the transaction, in the order of their ids."""
        return self._alerts(select(AlertRow, func.now()).where(AlertRow.study_id == study_id, OPEN).order_by(AlertRow.id).with_for_update())

    def get(self, alert_id: UUID) -> Alert:
        """The alert, its row locked. Raises BadInput for an unknown id."""
        found = self._alerts(select(AlertRow, func.now()).where(AlertRow.id == alert_id).with_for_update())
        if not found:
            raise BadInput(f"there is no alert {alert_id}; `ctreport alert list --all` lists what there is")
        return found[0]

    def listed(self, *, every: bool = False, overdue: bool = False, study: UUID | None = None, limit: int = 1000) -> tuple[Alert, ...]:
        """Open alerts, the one that is due first first; `every`: closed ones behind them."""
        query = select(AlertRow, func.now()).order_by(OPEN.desc(), AlertRow.due_at).limit(limit)
        query = query if every else query.where(OPEN)
        query = query.where(OPEN, AlertRow.due_at <= func.now()) if overdue else query
        return self._alerts(query if study is None else query.where(AlertRow.study_id == study))

    def acknowledge(self, alert: Alert, done: Acknowledgement) -> None:
        """Note who told whom, when and how. Raises IllegalMove for an alert that is acknowledged already."""
        values = {
            "state": alert.state.move(AlertState.ACKNOWLEDGED).value,
            "told_by": plain(done.told_by),
            "received_by": plain(done.received_by),
            "received_at": done.received_at,
            "method": done.method.value,
            "read_back": done.read_back,
            "acknowledged_at": func.now(),
        }
        self.session.execute(update(AlertRow).where(AlertRow.id == alert.id).values(**values))

    def waive(self, alert: Alert, by: str, reason: str) -> None:
        """Close it although nobody was told, for this reason. Raises IllegalMove."""
        values = {"state": alert.state.move(AlertState.WAIVED).value, "waived_by": plain(by), "waived_reason": plain(reason), "waived_at": func.now()}
        self.session.execute(update(AlertRow).where(AlertRow.id == alert.id).values(**values))

    def escalate(self) -> tuple[Escalated, ...]:
        """Every open alert at the level that its age calls for; returns those that have climbed. Done twice it changes nothing."""
        level = _level()
        query = select(AlertRow.id).where(OPEN, AlertRow.due_at <= func.now(), level > AlertRow.level).order_by(AlertRow.id)
        due = self.session.scalars(query.with_for_update(skip_locked=True)).all()
        if not due:
            return ()
        climbed = (
            update(AlertRow)
            .where(AlertRow.id.in_(due))
            .values(level=level, escalated_at=func.now())
            .returning(AlertRow.id, AlertRow.study_id, AlertRow.rule, AlertRow.level)
        )
        rows = self.session.execute(climbed, execution_options=UNSYNCED).all()
        return tuple(Escalated(*row) for row in sorted(rows))

    def counts(self) -> tuple[int, int]:
        """Open alerts, and those of them that are overdue."""
        row = self.session.execute(select(func.count(), func.count().filter(AlertRow.due_at <= func.now())).select_from(AlertRow).where(OPEN)).one()
        return row[0], row[1]

    def received(self, study_id: UUID) -> datetime:
        """When the study's first image came."""
        return self.session.execute(select(StudyRow.first_received).where(StudyRow.id == study_id)).scalar_one()

    def now(self) -> datetime:
        """The database's clock."""
        return self.session.execute(select(func.now())).scalar_one()

    def _alerts(self, query: Any) -> tuple[Alert, ...]:
        rows = self.session.execute(query, execution_options={"populate_existing": True}).all()
        return tuple(_alert(row) for row in rows)


def _level() -> ColumnElement[int]:
    """1 when due, and one more for each `minutes` after, up to `levels`."""
    overdue: Any = func.extract("epoch", func.now() - AlertRow.due_at)
    return func.least(AlertRow.levels, 1 + func.floor(overdue / (60 * AlertRow.minutes)))


def _values(one: Suspected) -> dict[str, object]:
    rule = one.rule
    return {
        "rule": plain(rule.id),
        "rules_version": one.version,
        "finding": plain(rule.finding),
        "severity": rule.severity,
        "certain": one.certain,
        "minutes": rule.minutes,
        "levels": rule.levels,
        "state": AlertState.OPEN.value,
        "due_at": func.now() + timedelta(minutes=rule.minutes),
        "level": 0,
    }


def _alert(found: Any) -> Alert:
    row, now = found[0], found[1]
    state = AlertState(row.state)
    return Alert(
        id=row.id,
        study_id=row.study_id,
        revision=row.revision,
        draft_id=row.draft_id,
        rule=row.rule,
        finding=row.finding,
        severity=row.severity,
        certain=row.certain,
        state=state,
        seen_at=row.seen_at,
        due_at=row.due_at,
        level=row.level,
        overdue_s=max((now - row.due_at).total_seconds(), 0.0) if state is AlertState.OPEN else 0.0,
        told_by=row.told_by,
        received_by=row.received_by,
        received_at=row.received_at,
        method=row.method,
        read_back=row.read_back,
        waived_by=row.waived_by,
        waived_reason=row.waived_reason,
    )
