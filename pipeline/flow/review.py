"""Review: what a doctor does with a report, as state moves."""

from __future__ import annotations

from uuid import UUID

from pipeline.errors import NotAllowed
from pipeline.flow.alert import waive_open
from pipeline.flow.blocks import resolve_open
from pipeline.model import ReportState
from pipeline.ports import Store

SIGNING = frozenset({ReportState.SIGNED, ReportState.AMENDED})
FINISHING = SIGNING | {ReportState.WRITTEN}


def review(store: Store, report_id: UUID, to: ReportState, actor: str, reason: str = "") -> ReportState:
    """Move a report to `to` in the name of `actor`; returns the state before. Raises IllegalMove, or NotAllowed for signing a demo draft, and for
    writing or signing one while a critical finding of its study is open, or a rule's hit blocks it, and no `reason` is given."""
    with store.begin() as work:
        report = work.reports.get(report_id)
        if to in SIGNING and report.demo_only:
            raise NotAllowed("this draft of a real study was written by a phantom-only model (演示模型，不可用于临床): it can never be signed")
        report.state.move(to)
        if to in FINISHING:
            waive_open(work, report.study_id, actor, reason)
            resolve_open(work, report, actor, reason)
        work.reports.move(report, to, actor)
        work.audit.append("review", study_id=report.study_id, actor=actor, report_id=str(report.id), before=report.state.value, after=to.value)
    return report.state
