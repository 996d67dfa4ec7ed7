"""Is the person that an object names the one that it is filed under? Id and issuer decide; name and birth date are the check."""

from __future__ import annotations

import re
import unicodedata

from pipeline.model import Patient

OTHER_ID = "患者号或其签发机构与检查登记的不同"
OTHER_BIRTH = "出生日期与登记的不同"
OTHER_NAME = "姓名与登记的不同"
_CHINESE = re.compile(r"[\u3400-\u9fff]")
_MARKS = re.compile(r"[\W_]+")


def differs(named: Patient, known: Patient) -> str:
    """Why `named` (in an object) may not be `known` (whose study it is); empty where nothing speaks against it. What either does not say agrees."""
    if named.patient_id and known.patient_id and named.patient_id.strip() != known.patient_id.strip():
        return OTHER_ID
    if named.issuer and known.issuer and not _is_own(known.issuer) and named.issuer.strip() != known.issuer.strip():
        return OTHER_ID
    if named.birth_date and known.birth_date and named.birth_date != known.birth_date:
        return OTHER_BIRTH
    guessed = named.name_guess or known.name_guess  # a guess contradicts nobody
    return OTHER_NAME if not guessed and _names_differ(named.name, known.name) else ""


def _is_own(issuer: str) -> bool:
    """A patient who is known by one study alone stands under that study's UID."""
    return issuer.replace(".", "").isdigit() and "." in issuer


def _names_differ(one: str, other: str) -> bool:
    """Names in the same script that share no reading: 张^小东 and Zhang^Xiaodong cannot be compared, 张^小东=Zhang^Xiaodong agrees with either."""
    groups, others = _groups(one), _groups(other)
    return any(script in others and groups[script].isdisjoint(others[script]) for script in groups) and not any(
        not groups[script].isdisjoint(others.get(script, set())) for script in groups
    )


def _groups(name: str) -> dict[str, set[str]]:
    """The component groups of a PN (PS3.5 6.2.1) by script, without marks, spaces and case; each also with its parts in order of the alphabet."""
    found: dict[str, set[str]] = {}
    for group in name.split("="):
        plain = unicodedata.normalize("NFKC", group).casefold()
        parts = [part for part in _MARKS.split(plain) if part]
        if parts:
            script = "han" if _CHINESE.search(plain) else "other"
            found.setdefault(script, set()).update({"".join(parts), "".join(sorted(parts))})
    return found
