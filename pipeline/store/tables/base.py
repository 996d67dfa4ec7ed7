"""What every table shares: names of constraints, the types of annotations, and checks made from the state enums."""

from __future__ import annotations

import enum
import uuid
from datetime import datetime
from typing import Annotated, ClassVar

from sqlalchemy import BigInteger, CheckConstraint, DateTime, ForeignKey, MetaData, Text, Uuid, func, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import DeclarativeBase, mapped_column

NAMES = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}

Id = Annotated[uuid.UUID, mapped_column(Uuid, primary_key=True, default=uuid.uuid4, server_default=func.gen_random_uuid())]
Now = Annotated[datetime, mapped_column(server_default=func.now())]
StudyKey = Annotated[uuid.UUID, mapped_column(ForeignKey("studies.id"))]
PatientKey = Annotated[uuid.UUID, mapped_column(ForeignKey("patients.id"), index=True)]
Strings = list[str]
Pairs = list[list[str]]
Facts = dict[str, object]
FactRows = list[dict[str, object]]
CountRows = list[list[int]]
Counts = dict[str, list[int]]
Optionals = dict[str, int | None]
Readings = dict[str, float | None]
NO_FACTS = text("'{}'::jsonb")
NO_ROWS = text("'[]'::jsonb")


class Base(DeclarativeBase):
    """Base of every table: text without a length, times with a zone, 64-bit counts, lists as JSONB."""

    metadata = MetaData(naming_convention=NAMES)
    type_annotation_map: ClassVar = {
        str: Text,
        datetime: DateTime(timezone=True),
        int: BigInteger,
        Strings: JSONB,
        Pairs: JSONB,
        dict[str, str]: JSONB,
        Facts: JSONB,
        FactRows: JSONB,
        CountRows: JSONB,
        Counts: JSONB,
        Optionals: JSONB,
        Readings: JSONB,
    }


class DeliveryState(enum.StrEnum):
    """Where one delivery stands."""

    WAITING = "waiting"
    DONE = "done"
    FAILED = "failed"


def states(enumeration: type[enum.StrEnum]) -> CheckConstraint:
    """A check that the column `state` holds a member of the enum."""
    members = ", ".join(f"'{member.value}'" for member in enumeration)
    return CheckConstraint(f"state IN ({members})", name="state")


def lease_whole() -> CheckConstraint:
    """A check that a lease has both an owner and an end, or neither."""
    return CheckConstraint("(lease_owner IS NULL) = (lease_until IS NULL)", name="lease")
