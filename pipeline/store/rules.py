"""Rules and doses as rows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from pipeline.checking import RuleSet
from pipeline.store.doses import DoseHistory, dose_rules
from pipeline.store.guidance import critical_rules, cues, growth_rules, guidelines
from pipeline.store.lexicon import lexicon, terms
from pipeline.store.priors import Priors
from pipeline.store.tables import RuleVersionRow


@dataclass(slots=True)
class KeptRules:
    """The rule set that this process read last from its database, with the version and the time at which that was written: both tell it from one
    that was rolled back. Each reader checks the version; only a new one is read whole (and compiled by the rules)."""

    read: tuple[int, datetime, RuleSet] | None = None


class PgRules(DoseHistory, Priors):
    """Rules port on PostgreSQL; what is asked of doses stands in `doses`."""

    def __init__(self, session: Session, kept: KeptRules | None = None) -> None:
        super().__init__(session)
        self._kept = kept if kept is not None else KeptRules()

    def current(self) -> RuleSet:
        """The newest version of all rules; version 0 without any rule where none was ever seeded. The same object until there is a newer one."""
        newest = select(RuleVersionRow.version, RuleVersionRow.created_at).order_by(RuleVersionRow.version.desc()).limit(1)
        row = self.session.execute(newest).one_or_none()
        if row is None:
            return RuleSet(0, {})
        kept = self._kept.read
        if kept is None or kept[:2] != (row.version, row.created_at):
            kept = self._kept.read = (row.version, row.created_at, read_rules(self.session, row.version))
        return kept[2]


def read_rules(session: Session, version: int) -> RuleSet:
    """All rules of one version."""
    return RuleSet(
        version,
        terms(session, version),
        dose_rules(session, version),
        lexicon(session, version),
        critical_rules(session, version),
        guidelines(session, version),
        cues(session, version),
        next(iter(growth_rules(session, version)), None),
    )
