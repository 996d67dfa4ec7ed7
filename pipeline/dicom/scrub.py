"""Free text without the patient: names and ids that people type into a request must not reach a prompt."""

from __future__ import annotations

import re
from itertools import permutations

from pipeline.model import Patient

HIDDEN = "某"
SHORTEST_ID = 4
SHORTEST_LATIN = 3


def without_patient(text: str, patient: Patient) -> str:
    """`text` with each form of the patient's name and the patient's id replaced by 某."""
    for form in sorted(_forms(patient), key=len, reverse=True):
        edge = r"\b" if form.isascii() else ""
        text = re.sub(f"{edge}{re.escape(form)}{edge}", HIDDEN, text, flags=re.IGNORECASE)
    return text


def _forms(patient: Patient) -> set[str]:
    """How the name may be typed: Chinese parts joined, Latin parts alone and joined in any order; and the id."""
    forms = {patient.patient_id} if len(patient.patient_id) >= SHORTEST_ID else set()
    for group in patient.name.split("="):
        parts = [part for part in re.split(r"[\^\s]+", group) if part]
        if not parts:
            continue
        if all(part.isascii() for part in parts):
            forms |= {part for part in parts if len(part) >= SHORTEST_LATIN}
            forms |= {glue.join(some) for some in permutations(parts[:3], min(2, len(parts))) for glue in (" ", "^", "")}
        else:
            joined = "".join(parts)
            forms |= {joined, " ".join(parts), "^".join(parts)} if len(joined) > 1 else set()
    return {form for form in forms if len(form) > 1}
