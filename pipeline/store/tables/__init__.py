"""The schema as typed ORM classes. Importing this package knows every table, so `Base.metadata` is whole."""

from pipeline.store.tables.alerting import (
    AlertRow,
    CriticalRuleRow,
    DraftCandidateRow,
    DraftFrameRow,
    GrowthRuleRow,
    GuidelineLineRow,
    GuidelineTableRow,
    HistoryCueRow,
)
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
from pipeline.store.tables.asking import RequestRow
from pipeline.store.tables.base import Base, DeliveryState
from pipeline.store.tables.changing import ChangeRow
from pipeline.store.tables.choosing import SeriesRuleRow
from pipeline.store.tables.nights import ExpectedReadingRow, NightItemRow, NightPlanRow
from pipeline.store.tables.performing import CommitmentRow, CommitmentState, PerformedStepRow, PerformedStepStudyRow
from pipeline.store.tables.reading import DeliveryRow, DraftRow, FindingRow, FlagRow, FrozenFindingsRow, ReportRow
from pipeline.store.tables.ruling import DoseEventRow, DoseFactorRow, DoseReportRow, DoseRuleRow, LexiconEntryRow, RuleTermRow, RuleVersionRow
from pipeline.store.tables.sampling import SampleAlarmRow, SampledDraftRow, SampleRow
from pipeline.store.tables.work import AuditRow, JobRow, RoundRow

__all__ = [
    "AlertRow",
    "AssociationRow",
    "AuditRow",
    "Base",
    "ChangeRow",
    "CommitmentRow",
    "CommitmentState",
    "CriticalRuleRow",
    "DeliveryRow",
    "DeliveryState",
    "DoseEventRow",
    "DoseFactorRow",
    "DoseReportRow",
    "DoseRuleRow",
    "DraftCandidateRow",
    "DraftFrameRow",
    "DraftRow",
    "ExpectedReadingRow",
    "FindingRow",
    "FlagRow",
    "FrozenFindingsRow",
    "GrowthRuleRow",
    "GuidelineLineRow",
    "GuidelineTableRow",
    "HistoryCueRow",
    "InstanceRow",
    "JobRow",
    "LexiconEntryRow",
    "NightItemRow",
    "NightPlanRow",
    "PatientRow",
    "PerformedStepRow",
    "PerformedStepStudyRow",
    "QuarantineRow",
    "RejectionRow",
    "ReportRow",
    "RequestRow",
    "RoundRow",
    "RuleTermRow",
    "RuleVersionRow",
    "SampleAlarmRow",
    "SampleRow",
    "SampledDraftRow",
    "SeriesRow",
    "SeriesRuleRow",
    "StudyAssociationRow",
    "StudyRow",
]
