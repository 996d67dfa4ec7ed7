"""The first version of the rules, from the package's TOML. Later versions are the hospital's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import insert, select
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.orm import Session

from pipeline.model import DoseRule
from pipeline.store.session import PgStore
from pipeline.store.tables import DoseRuleRow, RuleTermRow, RuleVersionRow

FIRST = 1


def seed_rules(url: str, terms: Mapping[str, str], dose_rules: Sequence[DoseRule]) -> int:
    """Write version 1 where no rule version exists; returns the version written, or 0 when there was one. Two at once write it once."""
    store = PgStore(url, pool_size=1)
    try:
        with store.begin() as work:
            return _seed(work.session, terms, dose_rules)
    finally:
        store.dispose()


def _seed(session: Session, terms: Mapping[str, str], dose_rules: Sequence[DoseRule]) -> int:
    if session.scalar(select(RuleVersionRow.version).limit(1)) is not None:
        return 0
    first = upsert(RuleVersionRow).values(version=FIRST, actor="system", note="rules of the package").on_conflict_do_nothing()
    if session.execute(first.returning(RuleVersionRow.version)).first() is None:
        return 0
    if terms:
        session.execute(insert(RuleTermRow), [{"version": FIRST, "forbidden": bad, "standard": good} for bad, good in terms.items()])
    if dose_rules:
        session.execute(insert(DoseRuleRow), [_dose_rule(rule) for rule in dose_rules])
    return FIRST


def _dose_rule(rule: DoseRule) -> dict[str, object]:
    return {
        "version": FIRST,
        "id": rule.id,
        "window_months": rule.window_months,
        "threshold_msv": rule.threshold_msv,
        "triggers": list(rule.triggers),
        "message": rule.message,
    }
