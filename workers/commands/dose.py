"""Radiation dose: what files say, and what a patient has had."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from workers import wiring
from workers.commands.answer import Data, Json, answer

app = typer.Typer()
COLUMNS = ("date", "source", "region", "ctdivol_mgy", "dlp_mgy_cm", "k", "msv", "notes")


@app.command()
def dose(
    paths: Annotated[list[Path] | None, typer.Argument(help="files or folders", exists=True)] = None,
    patient: Annotated[str | None, typer.Option("--patient", metavar="ID", help="PatientID of somebody in the database")] = None,
    issuer: Annotated[str | None, typer.Option(help="with --patient: issuer of the id, where several have it")] = None,
    data: Data = None,
    json_to: Json = None,
) -> None:
    """CT dose out of dose reports (no stack needed), or all that is known of a patient; exit 1 when a file or an examination has no dose to give."""
    if bool(paths) == (patient is not None) or (issuer is not None and patient is None):
        raise typer.BadParameter("give either PATH…, or --patient ID with or without --issuer")
    found = _of_patient(patient, issuer) if patient is not None else _of_files(paths or [])
    answer(found, json_to, _table(found))
    raise typer.Exit(1 if found["missing"] or not found["events"] else 0)


def _of_files(paths: Sequence[Path]) -> dict[str, Any]:
    """Every event once, with the package's factors; files that give none with their reason."""
    from pipeline.rules.factors import weigh, years_between
    from pipeline.rules.seed import seed_dose_factors

    factors = seed_dose_factors()
    stands: dict[str, dict[str, Any]] = {}
    missing: list[dict[str, Any]] = []
    for file, reading in _readings(paths):
        if isinstance(reading, str):
            missing.append({"file": str(file), "reason": reading})
            continue
        by_birth = years_between(reading.patient.birth_date, reading.study_date)
        age_years = reading.age_years if by_birth is None else by_birth
        for event in reading.events:
            one = _weighed(weigh(event, age_years, factors), str(file), reading.study_date)
            other = stands.get(event.event_uid)
            if other is None or _rank(other) < _rank(one):
                stands[event.event_uid] = one
    return _summed([{key: value for key, value in one.items() if key != "strength"} for one in stands.values()], missing)


def _readings(paths: Sequence[Path]) -> Iterator[tuple[Path, Any]]:
    from pipeline.dicom.dose import read_dose
    from pipeline.errors import PipelineError

    for path in paths:
        for file in sorted(one for one in path.rglob("*") if one.is_file()) if path.is_dir() else [path]:
            try:
                yield file, read_dose(file)
            except PipelineError as error:
                yield file, str(error)


def _weighed(one: Any, file: str, day: Any) -> dict[str, Any]:
    """One event under the command's keys. `strength` is for choosing between two records of it."""
    event = one.event
    return {
        "source": event.source.value,
        "region": event.region or None,
        "ctdivol_mgy": event.ctdivol_mgy,
        "dlp_mgy_cm": event.dlp_mgy_cm,
        "k": one.k,
        "msv": one.msv,
        "notes": list(one.notes),
        "event_uid": event.event_uid,
        "date": day.isoformat() if day is not None else None,
        "kind": event.kind or None,
        "phantom_cm": event.phantom_cm,
        "kvp": event.kvp,
        "file": file,
        "strength": event.source.strength,
    }


def _rank(one: dict[str, Any]) -> tuple[int, float]:
    return one["strength"], -1.0 if one["dlp_mgy_cm"] is None else one["dlp_mgy_cm"]


def _of_patient(patient_id: str, issuer: str | None) -> dict[str, Any]:
    from pipeline.store.dose_listing import patient_doses

    events, missing = patient_doses(wiring.store(), patient_id, issuer)
    return _summed(events, missing)


def _summed(events: list[dict[str, Any]], missing: list[dict[str, Any]]) -> dict[str, Any]:
    """What is in doubt is listed, and not summed; an event without a usable dose is missing as well."""
    unusable = [one for one in events if one["dlp_mgy_cm"] is None]
    missing = missing + [{"event_uid": one["event_uid"], "date": one["date"], "reason": "；".join(one["notes"])} for one in unusable]
    counted = [one for one in events if not one.get("doubt")]
    total = {key: round(sum(one[key] or 0.0 for one in counted), 6) for key in ("dlp_mgy_cm", "msv")}
    return {"events": events, "total_dlp_mgy_cm": total["dlp_mgy_cm"], "total_msv": total["msv"], "missing": missing}


def _table(found: dict[str, Any]) -> str:
    """For people: one line per event, the sums, and what is missing."""
    lines = ["  ".join(("date      ", "source     ", "region        ", "CTDIvol mGy", "DLP mGy·cm", "     k", "  mSv", "notes"))]
    for one in found["events"]:
        notes = "；".join([*one["notes"], *([one["doubt"]] if one.get("doubt") else [])])
        numbers = f"{_number(one['ctdivol_mgy'], 11, 2)}  {_number(one['dlp_mgy_cm'], 10, 2)}  {_number(one['k'], 6, 4)}  {_number(one['msv'], 5, 2)}"
        lines.append(f"{one['date'] or '':<10}  {one['source']:<11}  {one['region'] or '?':<14}  {numbers}  {notes}".rstrip())
    lines.append(f"total DLP {found['total_dlp_mgy_cm']:.2f} mGy·cm, effective dose {found['total_msv']:.2f} mSv, {len(found['events'])} events")
    lines += [f"no dose: {one.get('file') or one['date']}: {one['reason']}" for one in found["missing"]]
    return "\n".join(lines)


def _number(value: float | None, width: int, places: int) -> str:
    return f"{'–' if value is None else format(value, f'.{places}f'):>{width}}"
