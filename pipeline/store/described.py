"""The findings of a draft as readers get them: every element, where each is from, and the image that shows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from pipeline.model import Severity
from pipeline.store.repository import any_of
from pipeline.store.tables import FindingRow, InstanceRow, SeriesRow

WRITTEN = ("candidate", "kind", "side", "lobe", "density", "size_mm", "margin", "internal", "surround")
FOLLOWS = ("segment", "shape", "enhancement", "advice", "grading", "malignancy", "sources")
BY_DRAFTER, BY_RULES = "draft", "rules"
Numbers = tuple[int | None, int | None]  # of the series and of the image, as viewers show them


def findings(session: Session, draft_id: UUID) -> list[dict[str, Any]]:
    """One object per finding, in the order of the list."""
    rows = session.scalars(select(FindingRow).where(FindingRow.draft_id == draft_id).order_by(FindingRow.position)).all()
    images = _images(session, [row.slice_sop_uid for row in rows if row.slice_sop_uid])
    return [{name: getattr(row, name) for name in (*WRITTEN, *FOLLOWS)} | {"evidence": _evidence(row, images)} for row in rows]


def section_sources(sections: Mapping[str, str], flags: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Section → who wrote it: the drafter, and the rules where they replaced or added words."""
    edited = {flag["section"] for flag in flags if flag["severity"] == Severity.REPLACED}
    return {name: [BY_DRAFTER, *([BY_RULES] if name in edited else [])] for name in sections}


def _images(session: Session, sop_uids: Sequence[str]) -> Mapping[str, Numbers]:
    if not sop_uids:
        return {}
    query = (
        select(InstanceRow.sop_uid, SeriesRow.number, InstanceRow.instance_number)
        .join(SeriesRow, SeriesRow.id == InstanceRow.series_id)
        .where(InstanceRow.sop_uid == any_of(sop_uids), InstanceRow.is_first)
    )
    return {row.sop_uid: (row.number, row.instance_number) for row in session.execute(query)}


def _evidence(row: FindingRow, images: Mapping[str, Numbers]) -> dict[str, Any] | None:
    """The candidate region that a finding is, and the slice that shows it; None where it names none."""
    if row.candidate is None:
        return None
    series, image = images.get(row.slice_sop_uid or "", (None, None))
    frame = row.slice_frame if row.slice_sop_uid else None
    return {"candidate": row.candidate, "slice_sop_uid": row.slice_sop_uid, "frame": frame, "series_number": series, "image_number": image}
