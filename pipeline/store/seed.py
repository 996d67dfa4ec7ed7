"""The first version of the rules, from the package's TOML. Later versions are the hospital's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.orm import Session

from pipeline.entry import Entry
from pipeline.guidance import Guidance
from pipeline.irradiation import DoseFactor, DoseRule
from pipeline.store.audit import PgAudit
from pipeline.store.doses import set_dose, set_factors
from pipeline.store.guidance import set_guidance
from pipeline.store.lexicon import set_lexicon, set_terms
from pipeline.store.session import PgStore
from pipeline.store.tables import CriticalRuleRow, DoseFactorRow, GuidelineTableRow, LexiconEntryRow, RuleVersionRow
from pipeline.store.versions import changed

FIRST = 1
NONE = Guidance()


def seed_rules(
    url: str,
    terms: Mapping[str, str],
    dose_rules: Sequence[DoseRule],
    factors: Sequence[DoseFactor] = (),
    lexicon: Sequence[Entry] = (),
    guidance: Guidance = NONE,
) -> int:
    """Write version 1 where no rule version exists; returns the version written, or 0 when there was one. Two at once write it once."""
    store = PgStore(url, pool_size=1)
    try:
        with store.begin() as work:
            return _seed(work.session, terms, dose_rules, factors, lexicon, guidance)
    finally:
        store.dispose()


def _seed(
    session: Session,
    terms: Mapping[str, str],
    dose_rules: Sequence[DoseRule],
    factors: Sequence[DoseFactor],
    lexicon: Sequence[Entry],
    guidance: Guidance,
) -> int:
    newest = session.scalar(select(RuleVersionRow.version).order_by(RuleVersionRow.version.desc()).limit(1).with_for_update())
    if newest is not None:
        _complete(session, newest, factors, lexicon)
        _complete_guidance(session, guidance)
        return 0
    first = upsert(RuleVersionRow).values(version=FIRST, actor="system", note="rules of the package").on_conflict_do_nothing()
    if session.execute(first.returning(RuleVersionRow.version)).first() is None:
        return 0
    set_terms(session, terms, FIRST)
    set_dose(session, dose_rules, FIRST)
    set_factors(session, factors, FIRST)
    set_lexicon(session, lexicon, FIRST)
    set_guidance(session, guidance, FIRST)
    return FIRST


def _complete_guidance(session: Session, guidance: Guidance) -> None:
    """Rules from before there were critical findings and guidelines get the package's."""
    rows = (CriticalRuleRow.version, GuidelineTableRow.version)
    if guidance != NONE and all(session.scalar(select(column).limit(1)) is None for column in rows):
        note, count = "critical findings and guidelines of the package", len(guidance.critical) + len(guidance.guidelines)
        changed(session, "critical", "system", note, lambda now, version: set_guidance(now, guidance, version), count)


def _complete(session: Session, newest: int, factors: Sequence[DoseFactor], lexicon: Sequence[Entry]) -> None:
    """Rules from before there were dose factors or a lexicon get the package's; a hospital that has any of its own keeps them."""
    if factors and session.scalar(select(DoseFactorRow.version).limit(1)) is None:
        set_factors(session, factors, newest)
        PgAudit(session).append("rules", version=str(newest), kind="factors", note="dose factors of the package")
    if lexicon and session.scalar(select(LexiconEntryRow.version).limit(1)) is None:
        note = "lexicon of the package"
        changed(session, "lexicon", "system", note, lambda now, version: set_lexicon(now, lexicon, version), len(lexicon))
