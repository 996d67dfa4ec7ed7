"""The schema as typed ORM classes. Importing this package knows every table, so `Base.metadata` is whole."""

from pipeline.store.tables.arrival import (
    AssociationRow,
    InstanceRow,
    PatientRow,
    QuarantineRow,
    RejectionRow,
    SeriesRow,
    StudyAssociationRow,
    StudyRow,
)
from pipeline.store.tables.base import Base, DeliveryState
from pipeline.store.tables.performing import CommitmentRow, CommitmentState, PerformedStepRow, PerformedStepStudyRow
from pipeline.store.tables.reading import DeliveryRow, DraftRow, FindingRow, FlagRow, ReportRow
from pipeline.store.tables.ruling import DoseEventRow, DoseRuleRow, RuleTermRow, RuleVersionRow
from pipeline.store.tables.work import AuditRow, JobRow

__all__ = [
    "AssociationRow",
    "AuditRow",
    "Base",
    "CommitmentRow",
    "CommitmentState",
    "DeliveryRow",
    "DeliveryState",
    "DoseEventRow",
    "DoseRuleRow",
    "DraftRow",
    "FindingRow",
    "FlagRow",
    "InstanceRow",
    "JobRow",
    "PatientRow",
    "PerformedStepRow",
    "PerformedStepStudyRow",
    "QuarantineRow",
    "RejectionRow",
    "ReportRow",
    "RuleTermRow",
    "RuleVersionRow",
    "SeriesRow",
    "StudyAssociationRow",
    "StudyRow",
]
