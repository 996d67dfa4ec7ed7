"""Blocks: hits that bar a report from being finished and delivered until somebody answers for them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from uuid import UUID

from pipeline import metrics
from pipeline.errors import BadInput, NotAllowed
from pipeline.ports import Block, ReportRow, Store, Work

LONGEST_NAME, LONGEST_REASON = 100, 1000


def resolve(store: Store, report_id: UUID, actor: str, reason: str, positions: Sequence[int] = ()) -> tuple[Block, ...]:
    """Note that `actor` answers for blocking hits (all, or those at `positions`) and why; returns them. What waits for delivery then goes out.

    Raises BadInput without a name or a reason, and for a position where nothing blocks.
    """
    with store.begin() as work:
        report = work.reports.get(report_id)
        waiting = {block.position: block for block in work.reports.blocks(report)}
        unknown = [position for position in positions if position not in waiting]
        if unknown:
            there = ", ".join(map(str, waiting)) or "none"
            raise BadInput(f"no unresolved hit blocks this report at {unknown[0]}; those that do: {there}")
        return _resolved(work, report, [waiting[position] for position in dict.fromkeys(positions)] or list(waiting.values()), actor, reason)


def resolve_open(work: Work, report: ReportRow, actor: str, reason: str) -> None:
    """Before a report is written or signed: without a reason nothing may block it. Raises NotAllowed."""
    waiting = work.reports.blocks(report)
    if not waiting:
        return
    if not reason.strip():
        rules = ", ".join(f"{block.position}: {block.rule}" for block in waiting)
        raise NotAllowed(
            f"{len(waiting)} hit(s) of the rules block this report ({rules}): look at them with `ctreport show`, then answer for them with "
            "`ctreport resolve`, or give a reason"
        )
    _resolved(work, report, waiting, actor, reason)


def _resolved(work: Work, report: ReportRow, waiting: Sequence[Block], actor: str, reason: str) -> tuple[Block, ...]:
    actor, reason = actor.strip(), reason.strip()
    if not actor or len(actor) > LONGEST_NAME:
        raise BadInput(f"say who answers for what blocks the report, in at most {LONGEST_NAME} characters")
    if not reason or len(reason) > LONGEST_REASON:
        raise BadInput(f"say why the report may go on although a rule blocks it, in at most {LONGEST_REASON} characters")
    for block in waiting:
        work.reports.resolve(report, block, actor, reason)
        audit = partial(work.audit.append, study_id=report.study_id, actor=actor, draft_id=str(report.draft_id))
        # the reason stays with the hit: a doctor's free text may name the patient, and the trail holds no patient data
        audit("block_resolved", rule=block.rule, position=str(block.position), reason_characters=str(len(reason)))
        metrics.BLOCKS_RESOLVED.labels(block.rule).inc()
    return tuple(waiting)
