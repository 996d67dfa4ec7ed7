"""Dose rules and dose factors as TOML: those of the package, and those that a hospital gives. A row that cannot be is refused with its number."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from importlib.resources import files

from pipeline.errors import BadInput
from pipeline.irradiation import DoseFactor, DoseRule
from pipeline.rules.factors import REGION_NAMES

FIRST_VERSION = 1
Entry = Mapping[str, object]


def seed_dose_rules() -> tuple[DoseRule, ...]:
    """The dose rules of a new installation."""
    return dose_rules(_packaged("dose.toml", "rule"), FIRST_VERSION)


def seed_dose_factors() -> tuple[DoseFactor, ...]:
    """The factors k of a new installation."""
    return dose_factors(_packaged("dose_factors.toml", "factor"))


def dose_rules(entries: Sequence[Entry], version: int) -> tuple[DoseRule, ...]:
    """`[[rule]]` tables → rules. Raises BadInput naming the entry and the key."""
    rules = tuple(_rule(entry, number, version) for number, entry in enumerate(entries, start=1))
    if len({rule.id for rule in rules}) < len(rules):
        raise BadInput("two dose rules have one id; give each its own")
    return rules


def dose_factors(entries: Sequence[Entry]) -> tuple[DoseFactor, ...]:
    """`[[factor]]` tables (region, phantom_cm, ages, k, source) → one factor per age. Raises BadInput naming the entry and the key."""
    rows = tuple(row for number, entry in enumerate(entries, start=1) for row in _factors(entry, number))
    if len({(row.region, row.age_years, row.phantom_cm) for row in rows}) < len(rows):
        raise BadInput("two dose factors are for one region, age and phantom; keep one of them")
    if not any(row.age_years >= ADULT for row in rows):
        raise BadInput(f"no dose factor is for adults (age {ADULT}); the table must hold at least one")
    return rows


ADULT = 18
OTHERS = {"dose.identity", "completeness", "series", "image"}  # of hits that no row makes: checking again takes a row's hits by its id
KEYS = {"id", "window_months", "threshold_msv", "triggers", "message", "region", "min_age_years", "max_age_years"}


def _rule(entry: Entry, number: int, version: int) -> DoseRule:
    where = f"dose rule {number}"
    unknown = sorted(entry.keys() - KEYS)
    if unknown:
        raise BadInput(f"{where}: '{unknown[0]}' is no field of a dose rule; those are {', '.join(sorted(KEYS))}")
    triggers, message = _list(entry, "triggers", where), _text(entry, "message", where)
    if not triggers or not all(isinstance(one, str) and one.strip(" …") for one in triggers):
        raise BadInput(f"{where}: 'triggers' must be a list of wordings that ask for CT")
    if "（" in message or "）" in message:
        raise BadInput(f"{where}: 'message' must not hold （ or ）: the sum follows it in such")
    own = _text(entry, "id", where)
    if own in OTHERS or ("." in own and not own.startswith("dose.")):
        raise BadInput(f"{where}: the id '{own}' is, or looks like, that of another rule; begin it with dose. or leave out the point")
    months = _number(entry, "window_months", where)
    if months != int(months) or not 1 <= months <= 1200:
        raise BadInput(f"{where}: 'window_months' is {months:g}; give a whole number from 1 to 1200")
    limits = {key: _number(entry, key, where) if key in entry else None for key in ("min_age_years", "max_age_years")}
    low, high = limits["min_age_years"], limits["max_age_years"]
    if low is not None and high is not None and low >= high:
        raise BadInput(f"{where}: 'min_age_years' {low:g} is not below 'max_age_years' {high:g}; nobody is of such an age")
    region = _text(entry, "region", where) if entry.get("region") else ""
    if region not in REGION_NAMES:
        raise BadInput(f"{where}: no dose is of region '{region}'; known are {', '.join(name for name in REGION_NAMES if name)}")
    return DoseRule(
        id=own,
        version=version,
        window_months=int(months),
        threshold_msv=_number(entry, "threshold_msv", where),
        triggers=tuple(map(str, triggers)),
        message=message,
        region=region,
        **limits,
    )


def _factors(entry: Entry, number: int) -> list[DoseFactor]:
    where = f"dose factor {number}"
    region, source = _text(entry, "region", where), _text(entry, "source", where)
    phantom_cm = _number(entry, "phantom_cm", where)
    ages, ks = _list(entry, "ages", where), _list(entry, "k", where)
    if phantom_cm not in (16, 32):
        raise BadInput(f"{where}: 'phantom_cm' is {phantom_cm:g}; CT dosimetry knows 16 and 32")
    if not ages or len(ages) != len(ks):
        raise BadInput(f"{where}: 'ages' and 'k' must be lists of one length, not {len(ages)} and {len(ks)}")
    pairs = [(_checked(age, "ages", where), _checked(k, "k", where)) for age, k in zip(ages, ks, strict=True)]
    if any(age != int(age) for age, _ in pairs) or any(not 0 < k < 1 for _, k in pairs):
        raise BadInput(f"{where}: ages are whole years, and k lies between 0 and 1 mSv/(mGy cm)")
    return [DoseFactor(region, int(age), int(phantom_cm), k, source) for age, k in pairs]


def _text(entry: Entry, key: str, where: str) -> str:
    value = entry.get(key)
    if not isinstance(value, str) or not value.strip():
        raise BadInput(f"{where}: '{key}' is missing or no text; write it")
    return value


def _list(entry: Entry, key: str, where: str) -> Sequence[object]:
    value = entry.get(key)
    if not isinstance(value, list):
        raise BadInput(f"{where}: '{key}' is missing or no list; write it")
    return value


def _number(entry: Entry, key: str, where: str) -> float:
    return _checked(entry.get(key), key, where)


def _checked(value: object, key: str, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value < 0:
        raise BadInput(f"{where}: '{key}' is missing or no number of 0 or more; write it")
    return float(value)


def _packaged(name: str, table: str) -> list[Entry]:
    entries: list[Entry] = tomllib.loads(files("pipeline.rules.seed").joinpath(name).read_text(encoding="utf-8"))[table]
    return entries
