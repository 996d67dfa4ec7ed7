"""`ctreport sample`: the nightly quality sample, its control charts, and what drifts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import date, datetime
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipeline.errors import BadInput
from pipeline.sampling import FIGURES
from workers import wiring
from workers.commands.answer import Data, Json, answer

if TYPE_CHECKING:
    from pipeline.sampling import Alarm, Measured, Sample

app = typer.Typer()
DAY = ["%Y-%m-%d"]


@app.command()
def sample(
    night: Annotated[datetime | None, typer.Option(formats=DAY, help="day on which the night ended; the last one that is over without")] = None,
    anew: Annotated[bool, typer.Option("--anew", help="the change is meant: later nights are held against this one and those after it")] = False,
    data: Data = None,
    json_to: Json = None,
) -> None:
    """Measure a share of a night's drafts where nobody has yet, and show it. Exit 1 when something drifts."""
    from pipeline.flow.sample import night_of, sample_due
    from pipeline.flow.sample import sample as take

    ports = wiring.sampling()
    over = night_of(ports.clock.now(), ports.at, ports.zone)
    wanted = night.date() if night else over
    if wanted > over:
        raise BadInput(f"the night that ends on {wanted} is not over; ask again then, or without --night for the last one")
    sample_due(ports)
    take(ports, wanted)
    with wiring.store().begin() as work:
        found = work.samples.get(wanted)
        if anew:
            work.samples.begin_anew(wanted)
            work.audit.append("sample_anew", night=wanted.isoformat())
    assert found is not None
    answer(as_json(found), json_to, summary(found))
    raise typer.Exit(1 if found.alarms else 0)


def as_json(found: Sample) -> dict[str, Any]:
    """The keys of `ctreport sample --json`."""
    return {
        "night": found.night,
        "since": found.since.isoformat(),
        "until": found.until.isoformat(),
        "share": found.share,
        "seed": found.seed,
        "drafts": found.drafts,
        "sampled": len(found.measured),
        "learning": found.learning,
        "strata": [asdict(one) for one in found.strata],
        "figures": means(found.measured),
        "rows": [_row(one) for one in found.measured],
        "alarms": [asdict(alarm) for alarm in found.alarms],
    }


def summary(found: Sample) -> str:
    """For a person: counts, the mean of each figure, and a line per alarm."""
    lines = [f"night {found.night}: {found.drafts} drafts, {len(found.measured)} measured ({found.share:.0%}, seed {found.seed})"]
    lines += [f"  {name}: {value:.3g}" for name, value in means(found.measured).items() if value is not None]
    if found.learning:
        lines.append(f"the baseline is {found.learning} drafts short: until then nothing can be called drift")
    return "\n".join([*lines, *map(sentence, found.alarms)] if found.alarms else [*lines, "nothing drifts"])


def sentence(alarm: Alarm) -> str:
    """What drifts, how far, and where."""
    where = f"scanner {', '.join(alarm.scanners)}; department {', '.join(alarm.departments)}; model {', '.join(alarm.models)}"
    versions = ", ".join(map(str, alarm.rules_versions))
    fresh = f"; new since: {', '.join(alarm.fresh)}" if alarm.fresh else ""
    return (
        f"DRIFT {alarm.figure} ({alarm.chart.value}): {alarm.value:.3g} in {alarm.drafts} drafts, expected {alarm.expected:.3g}, "
        f"limit {alarm.limit:.3g}; {where}; rules {versions}{fresh}"
    )


def means(measured: Sequence[Measured]) -> dict[str, float | None]:
    """Mean of each figure over the drafts that have it."""
    values = {figure.name: [value for one in measured if (value := one.figures.get(figure.name)) is not None] for figure in FIGURES}
    return {name: fmean(each) if each else None for name, each in values.items()}


def _row(one: Measured) -> dict[str, Any]:
    return {**asdict(one), "figures": dict(one.figures), "night": date.isoformat(one.night)}
