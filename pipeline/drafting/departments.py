"""The departments that a report can be written for: their names in settings and requests, and their control word in the prompt."""

from __future__ import annotations

from pipeline.errors import NotAllowed

RADIOLOGY, ONCOLOGY, PULMONOLOGY = "radiology", "oncology", "pulmonology"
NAMES = {RADIOLOGY: "放射科", ONCOLOGY: "肿瘤科", PULMONOLOGY: "呼吸科"}
TOKENS_PER_LESION = {RADIOLOGY: 128, ONCOLOGY: 64, PULMONOLOGY: 42}  # of finding text, at most


def control_word(department: str) -> str:
    """What stands behind [科室]. Raises NotAllowed for a department that no model writes for."""
    if department not in NAMES:
        raise NotAllowed(f"no model here writes for this department; set CTREPORT_DRAFT_DEPARTMENT to one of {', '.join(NAMES)}")
    return NAMES[department]
