"""`ctreport night plan|report|expect`: what is pre-generated off-peak, in which order, and what came of it."""

from __future__ import annotations

import json
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from pipeline.errors import BadInput
from workers import wiring
from workers.commands.answer import Data, Json, answer

if TYPE_CHECKING:
    from pipeline.nightly import Expected, OffPeak, Window

night_app = typer.Typer(no_args_is_help=True, help="The night shift: its plan and the morning report.")
FACTS = ("position", "id", "priority", "kind", "reads_at", "expected_at", "fits")


@night_app.command()
def plan(data: Data = None, json_to: Json = None) -> None:
    """What would be pre-generated now, or at the next opening, in this order; nothing is changed. Exit 1 when not all of it fits in."""
    from pipeline.flow.night import preview

    shift = wiring.night_shift()
    seen = preview(shift)
    rows = [
        {
            "position": position,
            "id": str(one.study_id),
            "priority": one.priority.name.lower(),
            "kind": one.kind.value,
            "reads_at": _local(one.reads_at, shift.off_peak),
            "expected_at": _local(one.expected_at, shift.off_peak),
            "fits": one.expected_at <= seen.window.closes,
        }
        for position, one in enumerate(seen.items)
    ]
    window = {"opens": _local(seen.window.opens, shift.off_peak), "closes": _local(seen.window.closes, shift.off_peak)}
    pace = {"encode_s": seen.pace.encode_s, "draft_s": seen.pace.draft_s, "measured_on": seen.pace.studies}
    beyond = sum(not row["fits"] for row in rows)
    told = {"window": window, "first_reader": _local(seen.first_reader_at, shift.off_peak), "pace": pace, "beyond": beyond, "studies": rows}
    if json_to is None:
        _print(told)
    else:
        answer(told, json_to, "")
    raise typer.Exit(1 if beyond else 0)


@night_app.command()
def report(
    night: Annotated[datetime | None, typer.Option(formats=["%Y-%m-%d"], help="day on which the window opened; the last one without")] = None,
    data: Data = None,
    json_to: Json = None,
) -> None:
    """The morning report: planned, ready, partial, failed, flags, drift, times, acceptance, hours, per department. Exit 1 when a reader will wait."""
    from pipeline.export.morning import morning_markdown
    from pipeline.flow.morning import morning
    from pipeline.flow.sample import night_with

    off_peak, sampling = wiring.off_peak(), wiring.sampling()
    with wiring.store().begin() as work:
        window = _window(off_peak, work.night.now(), night.date() if night else None)
        sample = work.samples.get(night_with(window.opens, sampling.at, sampling.zone))
        facts = morning(work.night.night(window, off_peak.read_from(window)), sample)
    answer(facts, json_to, morning_markdown(facts, off_peak.zone))
    raise typer.Exit(1 if facts["not_ready"] else 0)


@night_app.command()
def expect(
    file: Annotated[Path, typer.Argument(help="JSON list of {patient_id, accession, reads_at}", exists=True, dir_okay=False)],
    data: Data = None,
    json_to: Json = None,
) -> None:
    """Note when patients are expected to be read: their studies and priors come first in the plan."""
    readings = appointments(file.read_text(encoding="utf-8"), wiring.off_peak())
    with wiring.store().begin() as work:
        new = work.night.expect(readings, file.name)
    answer({"given": len(readings), "new": new}, json_to, f"{len(readings)} appointments, {new} of them new")


def appointments(text: str, off_peak: OffPeak) -> list[Expected]:
    """Appointments out of a JSON list; a time without a zone is the site's. Raises BadInput that names the entry and holds nothing of it."""
    from pipeline.nightly import Expected

    found = []
    try:
        entries = json.loads(text)
    except ValueError:
        entries = None
    if not isinstance(entries, list):
        raise BadInput('the file is no JSON list; write [{"patient_id": …, "accession": …, "reads_at": "2026-01-31T08:15"}, …]')
    for number, entry in enumerate(entries, start=1):
        said = entry if isinstance(entry, dict) else {}
        patient_id, accession = said.get("patient_id", ""), said.get("accession", "")
        if not isinstance(patient_id, str) or not isinstance(accession, str) or not (patient_id or accession):
            raise BadInput(f"entry {number} names neither patient_id nor accession, as texts; give one of them")
        found.append(Expected(patient_id, accession, _moment(said.get("reads_at"), number, off_peak)))
    return found


def _moment(value: object, number: int, off_peak: OffPeak) -> datetime:
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        moment = None
    if moment is None:
        raise BadInput(f"entry {number} has no time in reads_at; write it as 2026-01-31T08:15, or with a zone as 2026-01-31T08:15+08:00")
    return moment if moment.tzinfo else moment.replace(tzinfo=off_peak.zone)


def _window(off_peak: OffPeak, now: datetime, day: date | None) -> Window:
    """The window that opened on a day, else the last one. Raises BadInput for one that has not opened."""
    window = off_peak.latest(now) if day is None else off_peak.opening_on(day)
    if window.opens > now:
        raise BadInput(f"the window of {day} has not opened yet; `ctreport night plan` says what is planned")
    return window


def _local(moment: datetime | None, off_peak: OffPeak) -> str | None:
    return None if moment is None else moment.astimezone(off_peak.zone).isoformat(timespec="seconds")


def _print(told: dict[str, Any]) -> None:
    window, pace = told["window"], told["pace"]
    basis = f"measured on {pace['measured_on']} studies" if pace["measured_on"] else "a guess: nothing was drafted yet"
    typer.echo(f"{window['opens']} to {window['closes']}, first reader {told['first_reader']}")
    typer.echo(f"{pace['encode_s']:g} s to encode and {pace['draft_s']:g} s to draft a study ({basis})")
    table = Table(*FACTS)
    for row in told["studies"]:
        table.add_row(*(str(row[fact]) if row[fact] is not None else "" for fact in FACTS))
    Console().print(table if told["studies"] else "nothing waits for a draft", soft_wrap=True)
    if told["beyond"]:
        typer.echo(f"{told['beyond']} of {len(told['studies'])} will not be drafted in this window; they go on in the next one, or by day")
