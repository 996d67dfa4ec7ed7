"""Commands about what waits and what failed: the dead-letter list, and the operator's hand on the order."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from workers import wiring
from workers.commands.answer import Data, Json, answer

app = typer.Typer()
Study = Annotated[str, typer.Argument(help="StudyInstanceUID or internal id")]


@app.command()
def failed(
    retry: Annotated[bool, typer.Option("--retry", help="start every failed job again")] = False, data: Data = None, json_to: Json = None
) -> None:
    """What failed and waits for a person, each with its reason and the next step; exit 1 when there is any."""
    from pipeline.store import letters, operator

    again = operator.retry_all(wiring.store()) if retry else 0
    if again:
        wiring.ring_all()
    left = letters.dead_letters(wiring.store())
    lines = [f"{one['at']:%Y-%m-%d %H:%M:%S}  {one['kind']:<8} {one['study_uid']}  {one['reason']} → {one['next']}" for one in left]
    started = [f"{again} jobs start again"] if retry else []
    answer({"failed": left, "retried": again}, json_to, "\n".join([*started, *(lines or ["nothing failed"])]))
    raise typer.Exit(1 if left else 0)


@app.command()
def expedite(
    study: Study,
    to: Annotated[Literal["stat", "inpatient", "routine", "night"], typer.Option(help="the priority that it gets")] = "stat",
    data: Data = None,
    json_to: Json = None,
) -> None:
    """Give a study another priority, at once; STAT goes before all others."""
    from pipeline.model import Priority
    from pipeline.store import operator

    before, after = operator.expedite(wiring.store(), study, Priority[to.upper()])
    answer({"study_uid": study, "before": before, "after": after}, json_to, f"{before} → {after}")
    wiring.ring_all()
