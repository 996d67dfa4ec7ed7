"""The findings that a revision's texts are written from: made once, never changed, gone when the images are encoded anew."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert

from pipeline.model import DraftSource, Found, Generation, Job
from pipeline.store.repository import Repository, plain
from pipeline.store.tables import FrozenFindingsRow


class Frozen(Repository):
    """The rows of frozen findings."""

    def found(self, job_id: UUID) -> Found | None:
        """The frozen findings of a job's revision; None while there are none."""
        row = self.session.get(FrozenFindingsRow, job_id, populate_existing=True)
        return None if row is None else _found(row)

    def keep_found(self, job: Job, found: Found) -> Found:
        """Freeze them; the first word stands, and is what this returns (without `whole` where it is another's)."""
        values = {"text": plain(found.text), "source": source_facts(found.source), "generation": generation_facts(found.generation)}
        kept = insert(FrozenFindingsRow).values(job_id=job.id, **values).on_conflict_do_nothing().returning(FrozenFindingsRow.job_id)
        if self.session.execute(kept).first() is not None:
            return found
        return _found(self.session.scalars(select(FrozenFindingsRow).where(FrozenFindingsRow.job_id == job.id)).one())


def source_facts(source: DraftSource) -> dict[str, Any]:
    """Who wrote, as `ctreport show` has it."""
    names = ("rung", "model", "model_digest", "phantom_only", "server", "speculation")
    return {name: getattr(source, name) for name in names}


def generation_facts(made: Generation) -> dict[str, Any]:
    """How it was written, as `ctreport show` has it. `k`: section → drafted per step, the empty name for one number of all."""
    plain_facts = {"tokens": made.tokens, "verify_count": made.verify_count, "seconds": made.seconds, "forced": made.forced}
    lists = {"accepted_histogram": list(made.accepted_histogram), "positions": [list(pair) for pair in made.positions]}
    tables = {"sections": made.sections, "sources": made.sources}
    counted = {key: {name: list(counts) for name, counts in table.items()} for key, table in tables.items()}
    return {**plain_facts, **lists, **counted, "first_token_s": made.first_token_s, "k": lengths_used(made)}


def lengths_used(made: Generation) -> dict[str, int | None]:
    """Tokens drafted per step by section; null where the engine chose."""
    return dict(made.lengths) or {"": made.k}


def _found(row: FrozenFindingsRow) -> Found:
    source: dict[str, Any] = row.source
    return Found(row.text, _generation(row.generation), DraftSource(**source))


def _generation(facts: dict[str, Any]) -> Generation:
    return Generation(
        tokens=facts["tokens"],
        verify_count=facts["verify_count"],
        accepted_histogram=tuple(facts["accepted_histogram"]),
        seconds=facts["seconds"],
        forced=facts["forced"],
        positions=tuple((drafted, accepted) for drafted, accepted in facts["positions"]),
        sections={name: (a, b, c) for name, (a, b, c) in facts["sections"].items()},
        sources={name: (a, b) for name, (a, b) in facts["sources"].items()},
        first_token_s=facts["first_token_s"],
        lengths=facts["k"],
    )
