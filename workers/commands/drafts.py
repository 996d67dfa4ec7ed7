"""`ctreport draft STUDY`: ask for the draft of one more department."""

from __future__ import annotations

from typing import Annotated

import typer

from pipeline.model import DEPARTMENTS, Step
from workers import wiring
from workers.commands.answer import Data, Json, answer

app = typer.Typer()
ACTOR = "operator"


@app.command()
def draft(
    study: Annotated[str, typer.Argument(help="StudyInstanceUID or internal id")],
    department: Annotated[str, typer.Option(help=", ".join(DEPARTMENTS))],
    k: Annotated[int | None, typer.Option(min=0, max=16, help="tokens drafted per step; the text is the same")] = None,
    data: Data = None,
    json_to: Json = None,
) -> None:
    """Ask for a department's draft of a study, written from its frozen findings, or say how it stands. Exit 1 when it could not be written."""
    if department not in DEPARTMENTS:
        raise typer.BadParameter(f"no model here writes for '{department}'; choose one of {', '.join(DEPARTMENTS)}")
    with wiring.store().begin() as work:
        asked, new = work.requests.ask_for(study, department, k, ACTOR)
    if new:
        wiring.bell().ring(Step.DRAFT)
    told = {"study_uid": study, "department": department, "state": asked.state.value, "reason": asked.reason, "draft_id": asked.draft_id}
    text = f"{department}: {asked.state.value}" + (f" ({asked.reason})" if asked.reason else "")
    answer(told, json_to, text)
    raise typer.Exit(1 if asked.state == "failed" else 0)
