"""The departments that a report can be written for: their names in settings and requests, their control word in the prompt, and who asks."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pipeline.errors import NotAllowed
from pipeline.model import DEPARTMENTS

NAMES = DEPARTMENTS
RADIOLOGY, ONCOLOGY, PULMONOLOGY = NAMES
TOKENS_PER_LESION = {RADIOLOGY: 128, ONCOLOGY: 64, PULMONOLOGY: 42}  # of finding text, at most
# the first that is found in the name of a requesting service; radiotherapy stands before radiology, whose word it contains
_WORDS = (
    (ONCOLOGY, re.compile(r"肿瘤|放疗|放射治疗|化疗|ONCOLOG|RADIOTHERAP|RADIATION THERAP|\bONC\b")),
    (PULMONOLOGY, re.compile(r"呼吸|肺病|肺科|结核|PULMON|RESPIRAT|PNEUMOLOG|CHEST MEDICINE")),
    (RADIOLOGY, re.compile(r"放射|影像|RADIOLOG|IMAGING")),
)


def control_word(department: str) -> str:
    """What stands behind [科室]. Raises NotAllowed for a department that no model writes for."""
    if department not in NAMES:
        raise NotAllowed(f"no model here writes for this department; set CTREPORT_DRAFT_DEPARTMENT to one of {', '.join(NAMES)}")
    return NAMES[department]


def asked_by(service: str, local: Mapping[str, str] | None = None) -> str | None:
    """The department that a RequestingService (0032,1033) names, by the site's own names first, in any letter case; None for one that no model
    writes for. Its own name and its control word are always understood."""
    name = " ".join(service.split()).upper()
    if not name:
        return None
    own = {key.upper(): department for key, department in (local or {}).items()}
    known = {department.upper(): department for department in NAMES} | {word: department for department, word in NAMES.items()} | own
    return known.get(name) or next((department for department, words in _WORDS if words.search(name)), None)
