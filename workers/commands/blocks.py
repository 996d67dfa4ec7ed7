"""`ctreport resolve`: who answers for what blocks a report."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

import typer

from pipeline.settings import settings
from workers import wiring
from workers.commands.answer import Data, Department, Json, answer

app = typer.Typer()


@app.command()
def resolve(
    study: Annotated[str, typer.Argument(help="StudyInstanceUID or internal id")],
    by: Annotated[str, typer.Option(help="who answers for it")],
    reason: Annotated[str, typer.Option(help="why the report may go on although a rule blocks it")],
    flag: Annotated[list[int] | None, typer.Option(help="number of one hit among the draft's flags, from 0 (repeat); all that block")] = None,
    department: Department = None,
    data: Data = None,
    json_to: Json = None,
) -> None:
    """Answer for the hits that block a study's report, so that it can be signed and delivered."""
    from pipeline.flow.blocks import resolve as answer_for
    from pipeline.store import queries

    shown = queries.show(wiring.store(), study, department, settings().draft.department)
    resolved = answer_for(wiring.store(), UUID(str(shown["report_id"])), by, reason, flag or ())
    told = [{"flag": block.position, "rule": block.rule, "section": block.section} for block in resolved]
    lines = [f"{block.position}  {block.rule}〔{block.section}〕" for block in resolved] or ["nothing blocks this report"]
    answer({"study_uid": shown["study_uid"], "resolved": told}, json_to, "\n".join(lines))
