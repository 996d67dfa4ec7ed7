"""What changed in a draft: against the revision before, or under newer rules."""

from __future__ import annotations

import uuid

from sqlalchemy import BigInteger, CheckConstraint, ForeignKey, Identity
from sqlalchemy.orm import Mapped, mapped_column

from pipeline.renewing import NOTED
from pipeline.store.tables.base import Base, Now

CAUSES = ", ".join(f"'{cause.value}'" for cause in NOTED)


class ChangeRow(Base):
    """One section of one draft, before and after; `applied` is False where a reader has touched the report, whose text then stays as it was."""

    __tablename__ = "draft_changes"
    __table_args__ = (CheckConstraint(f"cause IN ({CAUSES})", name="cause"),)
    id: Mapped[int] = mapped_column(BigInteger, Identity(always=True), primary_key=True)
    draft_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("drafts.id", ondelete="CASCADE"), index=True)
    at: Mapped[Now]
    cause: Mapped[str]
    section: Mapped[str]
    before: Mapped[str]
    after: Mapped[str]
    applied: Mapped[bool]
