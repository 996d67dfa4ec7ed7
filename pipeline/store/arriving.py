"""One instance on its way into its rows, and the statements of the hot path: they stand ready, so that SQLAlchemy compiles each of them once."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast
from uuid import UUID, uuid4

from sqlalchemy import Boolean, Date, Row, Table, Text, Uuid, any_, bindparam, case, func, insert, select, update
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.types import TypeEngine

from pipeline.model import Header, StudyState
from pipeline.ports import Filing
from pipeline.store.repository import fixed, plain, plain_list
from pipeline.store.tables import InstanceRow, PatientRow, SeriesRow, StudyAssociationRow, StudyRow

CONFLICTING = "conflicting-bytes"
PATIENT_DIFFERS = "patient-id-differs"
StudyFacts = Row[*tuple[Any, ...]]  # what LOCK selects
STUDIES, PATIENTS, SERIES, INSTANCES, LINKS = (
    cast("Table", table.__table__) for table in (StudyRow, PatientRow, SeriesRow, InstanceRow, StudyAssociationRow)
)
SAID: dict[str, TypeEngine[Any]] = {
    **{name: Text() for name in ("accession", "description", "indication", "station", "requesting_service")},
    "study_date": Date(),
}
LOCK = (
    select(
        *(STUDIES.c[name] for name in ("id", "study_uid", "state", "priority", "rejected_at", *SAID)),
        PATIENTS.c.patient_id.label("named"),
        func.array(
            select(LINKS.c.association_id)
            .where(LINKS.c.study_id == STUDIES.c.id, LINKS.c.with_images)
            .where(LINKS.c.association_id == any_(bindparam("associations", type_=ARRAY(Uuid))))
            .scalar_subquery(),
            type_=ARRAY(Uuid),
        ).label("linked"),
    )
    .join(PATIENTS, PATIENTS.c.id == STUDIES.c.patient_id)
    .where(STUDIES.c.study_uid == any_(bindparam("uids", type_=ARRAY(Text))))
    .order_by(STUDIES.c.study_uid)
    .with_for_update(of=STUDIES, key_share=True)
)
FIND_SERIES = select(SERIES.c.study_id, SERIES.c.series_uid, SERIES.c.id).where(
    SERIES.c.study_id == any_(bindparam("studies", type_=ARRAY(Uuid))), SERIES.c.series_uid == any_(bindparam("uids", type_=ARRAY(Text)))
)
INSERT_SERIES = insert(SERIES).returning(SERIES.c.id)
INSERT_INSTANCE = upsert(INSTANCES).on_conflict_do_nothing().returning(INSTANCES.c.sop_uid, INSTANCES.c.sha256)
KNOWN = select(INSTANCES.c.sop_uid, INSTANCES.c.sha256).where(INSTANCES.c.sop_uid == any_(bindparam("uids", type_=ARRAY(Text))))
_LINK = upsert(LINKS)
INSERT_LINK = _LINK.on_conflict_do_update(
    index_elements=["study_id", "association_id"],
    set_={"with_images": LINKS.c.with_images | _LINK.excluded.with_images},
    where=_LINK.excluded.with_images & ~LINKS.c.with_images,
)
REOPENS = bindparam("reopens", type_=Boolean())
# last_received is clock_timestamp(), not now(): that is when the transaction began, before it waited for the lock.
RESTART = (
    update(STUDIES)
    .where(STUDIES.c.id == bindparam("study"))
    .values(
        images=STUDIES.c.images + bindparam("new"),
        last_received=func.clock_timestamp(),
        due_at=func.now(),
        attempts=0,
        lease_owner=None,
        lease_until=None,
        priority=func.least(STUDIES.c.priority, bindparam("most_urgent")),
        state=bindparam("next_state"),
        reason=func.coalesce(bindparam("because", type_=Text()), STUDIES.c.reason),
        arriving_since=case((REOPENS, func.now()), else_=STUDIES.c.arriving_since),
        text_guess=STUDIES.c.text_guess | (bindparam("guessed", type_=Boolean()) & ((STUDIES.c.description == "") | (STUDIES.c.indication == ""))),
        rejected_at=case((REOPENS, None), else_=STUDIES.c.rejected_at),
        # What an earlier object of the study (a dose report, a localizer) did not say and this one does.
        **{
            name: func.coalesce(STUDIES.c[name] if name == "study_date" else func.nullif(STUDIES.c[name], ""), bindparam(f"said_{name}", type_=kind))
            for name, kind in SAID.items()
        },
    )
)
# The ordinary case in one round trip: one image that is new, of a study that is arriving and of its patient. It takes nothing and returns nothing
# when its SOPInstanceUID is known or the study is in another state.
ROW = tuple(column.name for column in INSTANCES.columns if column.name != "received_at")  # the database says when
_FILED = (
    upsert(INSTANCES)
    .from_select(
        ROW,
        select(*(bindparam(f"row_{name}", type_=INSTANCES.c[name].type) for name in ROW))
        .select_from(STUDIES)
        .where(STUDIES.c.id == bindparam("study"), STUDIES.c.state == fixed(StudyState.RECEIVING), STUDIES.c.rejected_at.is_(None))
        .with_for_update(of=STUDIES, key_share=True),
    )
    .on_conflict_do_nothing()
    .returning(INSTANCES.c.study_id)
    .cte("filed")
)
FILE_ONE = (
    update(STUDIES)
    .where(STUDIES.c.id == select(_FILED.c.study_id).scalar_subquery())
    .values(
        images=STUDIES.c.images + 1,
        last_received=func.clock_timestamp(),
        due_at=func.now(),
        attempts=0,
        lease_owner=None,
        lease_until=None,
        priority=func.least(STUDIES.c.priority, bindparam("most_urgent")),
    )
    .returning(STUDIES.c.id)
)
REMEMBERED = 4096


class Seen:
    """What a SELECT has shown as committed and what never changes: ids of studies (with the PatientID of the first object) and of series, and which
    association has brought images of which study. Only that: an own insert may still be rolled back."""

    def __init__(self) -> None:
        self._values: OrderedDict[Any, Any] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: object) -> Any:
        """The value, or None."""
        return self._values.get(key)

    def remember(self, found: Mapping[Any, Any]) -> None:
        """Keep the newest."""
        with self._lock:
            self._values.update(found)
            while len(self._values) > REMEMBERED:
                self._values.popitem(last=False)


@dataclass
class Arriving:
    """One instance on its way through a registration."""

    header: Header
    association: UUID | None
    study: StudyFacts
    series_id: UUID | None = None
    filing: Filing = Filing.NEW  # until something else is found

    @cached_property
    def sop_uid(self) -> str:
        """SOPInstanceUID as PostgreSQL can hold it."""
        return plain(self.header.instance.sop_uid)

    @cached_property
    def series_key(self) -> tuple[UUID, str]:
        """Study row and SeriesInstanceUID."""
        return self.study.id, plain(self.header.instance.series_uid)

    @property
    def sha256(self) -> str:
        """Hash of the file."""
        return self.header.instance.sha256

    @cached_property
    def patient_differs(self) -> bool:
        """True when it names another PatientID than the study's first object."""
        return bool(plain(self.header.patient.patient_id) != self.study.named)

    def series_values(self) -> dict[str, Any]:
        """A new series row."""
        header = self.header
        return {
            "study_id": self.study.id,
            "series_uid": self.series_key[1],
            "modality": plain(header.instance.modality),
            "description": plain(header.series_description),
            "body_part": plain(header.body_part),
            "kernel": plain(header.kernel),
            "thickness_mm": header.thickness_mm,
            "number": header.series_number,
            "kvp": header.kvp,
            "contrast_agent": plain(header.contrast_agent),
            "protocol": plain(header.protocol),
        }

    def values(self) -> dict[str, Any]:
        """The instance's row."""
        marks = [PATIENT_DIFFERS] if self.patient_differs else []
        if self.filing is Filing.CONFLICT:
            marks.append(CONFLICTING)
        return _instance_values(self.header) | {
            "study_id": self.study.id,
            "series_id": self.series_id,
            "association_id": self.association,
            "is_first": self.filing is Filing.NEW,
            "flags": plain_list((*self.header.instance.flags, *marks)),
        }


def tells_more(header: Header, study: StudyFacts) -> bool:
    """True when it says something that the study's row does not say yet."""
    return header.text_guess or any(text and not getattr(study, name) for name, text in _said(header).items())


def file_one_values(one: Arriving) -> dict[str, Any]:
    """Parameters of FILE_ONE."""
    row = {f"row_{name}": value for name, value in one.values().items()}
    return row | {"row_id": uuid4(), "study": one.study.id, "most_urgent": int(one.header.priority)}


def _said(header: Header) -> dict[str, object]:
    """What an object says about its study."""
    return {
        "accession": plain(header.accession),
        "study_date": header.study_date,
        "description": plain(header.study_description),
        "indication": plain(header.indication),
        "station": plain(header.station),
        "requesting_service": plain(header.requesting_service),
    }


def restart_values(study: StudyFacts, new: Sequence[Header], state: StudyState, reason: str | None, reopens: bool) -> dict[str, Any]:
    """Parameters of RESTART."""
    said: dict[str, Any] = {f"said_{name}": None if name == "study_date" else "" for name in SAID}
    for header in reversed(new):
        said |= {f"said_{name}": value for name, value in _said(header).items() if value}
    urgent = min((int(header.priority) for header in new), default=study.priority)
    said["guessed"] = any(header.text_guess for header in new)
    return {"study": study.id, "new": len(new), "most_urgent": urgent, "next_state": state.value, "because": reason, "reopens": reopens, **said}


def _instance_values(header: Header) -> dict[str, Any]:
    instance = header.instance
    return {
        "sop_uid": plain(instance.sop_uid),
        "sop_class": plain(instance.sop_class),
        "transfer_syntax": plain(instance.transfer_syntax),
        "modality": plain(instance.modality),
        "content": plain(instance.content),
        "sha256": instance.sha256,
        "size_bytes": instance.size_bytes,
        "path": plain(instance.path),
        "instance_number": instance.instance_number,
        "rows": instance.rows,
        "columns": instance.columns,
        "position_mm": None if instance.position_mm is None else list(instance.position_mm),
        "orientation": None if instance.orientation is None else list(instance.orientation),
        "image_type": plain_list(instance.image_type),
        "frames": instance.frames,
        "acquisition": instance.acquisition,
        "temporal": instance.temporal,
        "lossy": instance.lossy,
    }
