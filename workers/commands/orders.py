"""`ctreport correct STUDY`: an order that was corrected after the images came."""

from __future__ import annotations

from typing import Annotated

import typer

from pipeline.model import Step
from workers import wiring
from workers.commands.answer import Data, Json, answer

app = typer.Typer()


@app.command()
def correct(
    study: Annotated[str, typer.Argument(help="StudyInstanceUID or internal id")],
    by: Annotated[str, typer.Option(help="who corrects it")],
    indication: Annotated[str | None, typer.Option(help="why the examination was asked for")] = None,
    service: Annotated[str | None, typer.Option(help="who asked for it (RequestingService)")] = None,
    data: Data = None,
    json_to: Json = None,
) -> None:
    """Take over a corrected order. Where a text was written from the old one, only the sections that it concerns are written again."""
    from pipeline.flow.renew import correct as take_over
    from pipeline.renewing import Order

    if indication is None and service is None:
        raise typer.BadParameter("say what is new: --indication or --service")
    fields, revised = take_over(wiring.store(), study, Order(indication, service), by)
    if revised:
        wiring.bell().ring(Step.ASSEMBLE)
    if not fields:
        text = "the order says that already"
    else:
        text = f"new: {', '.join(fields)}; " + ("a revision is made" if revised else "it is read when the text is written")
    answer({"study_uid": study, "fields": list(fields), "revision": revised}, json_to, text)
