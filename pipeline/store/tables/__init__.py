"""The schema as typed ORM classes. Importing this package knows every table, so `Base.metadata` is whole."""

from pipeline.store.tables.arrival import AssociationRow, InstanceRow, PatientRow, QuarantineRow, SeriesRow, StudyAssociationRow, StudyRow
from pipeline.store.tables.base import Base, DeliveryState
from pipeline.store.tables.reading import DeliveryRow, DraftRow, FindingRow, FlagRow, ReportRow
from pipeline.store.tables.ruling import DoseEventRow, DoseRuleRow, RuleTermRow, RuleVersionRow
from pipeline.store.tables.work import AuditRow, JobRow

__all__ = [
    "AssociationRow",
    "AuditRow",
    "Base",
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
    "QuarantineRow",
    "ReportRow",
    "RuleTermRow",
    "RuleVersionRow",
    "SeriesRow",
    "StudyAssociationRow",
    "StudyRow",
]
