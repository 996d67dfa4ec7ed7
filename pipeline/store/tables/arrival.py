"""What arrived: patients, studies, series, instances, the associations that brought them, and bytes in quarantine.

`association_id` has no foreign key: an association that began while the database was down has no row, and its images count all the same.
"""

from __future__ import annotations

import uuid
from datetime import date, datetime

from sqlalchemy import CheckConstraint, Double, ForeignKey, Index, UniqueConstraint, false, text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Mapped, mapped_column

from pipeline.model import Priority, StudyState
from pipeline.store.tables.base import NO_FACTS, Base, Facts, Id, Now, PatientKey, Strings, StudyKey, lease_whole, states


class PatientRow(Base):
    """Who was scanned. A patient without an id is known by the study alone: empty patient_id, issuer = study UID."""

    __tablename__ = "patients"
    __table_args__ = (
        UniqueConstraint("patient_id", "issuer"),
        CheckConstraint("(name_confirmed_at IS NULL) = (name_confirmed_by IS NULL)", name="confirmed"),
        Index("ix_patients_guesses", "created_at", postgresql_where=text("name_guess AND name_confirmed_at IS NULL")),
    )
    id: Mapped[Id]
    patient_id: Mapped[str]
    issuer: Mapped[str]
    name: Mapped[str]
    name_charset: Mapped[str] = mapped_column(server_default="")  # what the bytes of the name were read as
    name_guess: Mapped[bool]
    name_confirmed_at: Mapped[datetime | None]  # by a person who looked at the guess
    name_confirmed_by: Mapped[str | None]
    birth_date: Mapped[date | None]
    sex: Mapped[str]
    created_at: Mapped[Now]


class StudyRow(Base):
    """One study: the state of its arrival and, under a lease, its assembly. `images` counts first instances."""

    __tablename__ = "studies"
    __table_args__ = (
        UniqueConstraint("study_uid"),
        states(StudyState),
        lease_whole(),
        CheckConstraint("revision >= 0 AND images >= 0 AND attempts >= 0", name="counts"),
        CheckConstraint("(text_confirmed_at IS NULL) = (text_confirmed_by IS NULL)", name="confirmed"),
        Index("ix_studies_quiet", "last_received", postgresql_where=text("state = 'receiving'")),
        Index("ix_studies_quiet_urgent", "last_received", postgresql_where=text("priority = 0 AND state = 'receiving'")),
        Index("ix_studies_lease_until", "lease_until", postgresql_where=text("lease_until IS NOT NULL")),
        Index("ix_studies_first_received", "first_received"),
        Index("ix_studies_accession", "accession"),
        Index("ix_studies_guesses", "first_received", postgresql_where=text("text_guess AND text_confirmed_at IS NULL")),
    )
    id: Mapped[Id]
    study_uid: Mapped[str]
    patient_id: Mapped[PatientKey]
    state: Mapped[str] = mapped_column(default=StudyState.RECEIVING.value)
    revision: Mapped[int] = mapped_column(default=0)
    images: Mapped[int] = mapped_column(default=0)
    accession: Mapped[str]
    study_date: Mapped[date | None]
    description: Mapped[str]
    indication: Mapped[str]
    station: Mapped[str]
    requesting_service: Mapped[str] = mapped_column(server_default="")  # who asked for the examination, as it names itself
    text_guess: Mapped[bool] = mapped_column(server_default=false())  # description or indication
    text_confirmed_at: Mapped[datetime | None]
    text_confirmed_by: Mapped[str | None]
    priority: Mapped[int] = mapped_column(default=Priority.ROUTINE.value)
    first_received: Mapped[Now]
    last_received: Mapped[Now]
    arriving_since: Mapped[Now]  # when this arrival began: the first image, or the one that reopened the study
    due_at: Mapped[Now]
    attempts: Mapped[int] = mapped_column(default=0)
    lease_owner: Mapped[str | None]
    lease_until: Mapped[datetime | None]
    reason: Mapped[str | None]
    evidence: Mapped[Facts] = mapped_column(server_default=NO_FACTS)  # of the last verdict
    renewal: Mapped[str] = mapped_column(server_default="")  # why its next revision will be made, where that is not for images
    rejected_at: Mapped[datetime | None]  # when rejection notes had taken back every image; a new one reopens the study


class SeriesRow(Base):
    """One series, with the header facts that choosing it needs."""

    __tablename__ = "series"
    __table_args__ = (UniqueConstraint("study_id", "series_uid"),)
    id: Mapped[Id]
    study_id: Mapped[StudyKey]
    series_uid: Mapped[str]
    modality: Mapped[str]
    description: Mapped[str]
    body_part: Mapped[str]
    kernel: Mapped[str]
    thickness_mm: Mapped[float | None]
    number: Mapped[int | None]  # SeriesNumber
    kvp: Mapped[float | None]
    contrast_agent: Mapped[str] = mapped_column(server_default="")
    protocol: Mapped[str] = mapped_column(server_default="")
    created_at: Mapped[Now]


class AssociationRow(Base):
    """One C-STORE association; `how` it ended is released, aborted or lost."""

    __tablename__ = "associations"
    __table_args__ = (
        CheckConstraint("(closed_at IS NULL) = (how IS NULL)", name="closed"),
        Index("ix_associations_open", "listener", postgresql_where=text("closed_at IS NULL")),
        Index("ix_associations_closed_at", "closed_at", postgresql_where=text("closed_at IS NOT NULL")),
    )
    id: Mapped[Id]
    listener: Mapped[str]
    calling_aet: Mapped[str]
    host: Mapped[str]
    opened_at: Mapped[Now]
    closed_at: Mapped[datetime | None]
    how: Mapped[str | None]


class StudyAssociationRow(Base):
    """Which association brought images of which study: the open ones keep a study from being complete."""

    __tablename__ = "study_associations"
    __table_args__ = (Index("ix_study_associations_association_id", "association_id"),)
    study_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("studies.id"), primary_key=True)
    association_id: Mapped[uuid.UUID] = mapped_column(primary_key=True)
    with_images: Mapped[bool] = mapped_column(server_default=false())  # not only reports; also images that were there already


class InstanceRow(Base):
    """One acknowledged image. Other bytes under a known SOPInstanceUID stand beside the first with `is_first` false."""

    __tablename__ = "instances"
    __table_args__ = (
        UniqueConstraint("sop_uid", "sha256"),
        Index("uq_instances_first", "sop_uid", unique=True, postgresql_where=text("is_first")),
        Index("ix_instances_study_id_series_id", "study_id", "series_id"),
        Index("ix_instances_content", "study_id", postgresql_where=text("content <> ''")),
    )
    id: Mapped[Id]
    study_id: Mapped[StudyKey]
    series_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("series.id"))
    association_id: Mapped[uuid.UUID | None]
    sop_uid: Mapped[str]
    sop_class: Mapped[str]
    transfer_syntax: Mapped[str]
    modality: Mapped[str]
    sha256: Mapped[str]
    size_bytes: Mapped[int]
    path: Mapped[str]
    is_first: Mapped[bool]
    instance_number: Mapped[int | None]
    rows: Mapped[int | None]
    columns: Mapped[int | None]
    position_mm: Mapped[list[float] | None] = mapped_column(ARRAY(Double))
    orientation: Mapped[list[float] | None] = mapped_column(ARRAY(Double))
    image_type: Mapped[Strings]
    frames: Mapped[int] = mapped_column(server_default="1")
    acquisition: Mapped[int | None]  # AcquisitionNumber
    temporal: Mapped[int | None]  # TemporalPositionIdentifier
    lossy: Mapped[bool] = mapped_column(server_default=text("false"))  # LossyImageCompression is 01
    content: Mapped[str] = mapped_column(server_default="")  # dose-report, dose-screen; empty for an image to be read
    flags: Mapped[Strings]
    received_at: Mapped[Now]


class QuarantineRow(Base):
    """Bytes that could not be understood, kept apart."""

    __tablename__ = "quarantine"
    id: Mapped[Id]
    path: Mapped[str]
    sha256: Mapped[str]
    size_bytes: Mapped[int]
    reason: Mapped[str]
    association_id: Mapped[uuid.UUID | None]
    received_at: Mapped[Now]


class RejectionRow(Base):
    """One image that a rejection note took back (IHE IOCM), also one that has not come yet. `ko_study_id` is the note's own study."""

    __tablename__ = "rejections"
    __table_args__ = (
        UniqueConstraint("sop_uid", "ko_sop_uid"),
        Index("ix_rejections_study_uid", "study_uid"),
    )
    id: Mapped[Id]
    sop_uid: Mapped[str]
    study_uid: Mapped[str]  # as the note names it
    ko_sop_uid: Mapped[str]
    ko_study_id: Mapped[StudyKey]
    code: Mapped[str]
    meaning: Mapped[str]
    created_at: Mapped[Now]
