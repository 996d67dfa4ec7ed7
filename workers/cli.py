"""The command line. Exit 0 = fine, 1 = found something wrong, 2 = wrong use; progress goes to standard error."""

from __future__ import annotations

import sys

import typer

from pipeline.errors import PipelineError
from workers.commands import (
    alerts,
    bench,
    blocks,
    chaos,
    demo,
    dose,
    drafts,
    identity,
    images,
    keyimages,
    model_check,
    models,
    night,
    orders,
    processes,
    quality,
    rules,
    sample,
    studies,
    waiting,
)

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="CT report drafts, from C-STORE to PostgreSQL; a draft is never a diagnosis.",
)
for group in (
    processes.app,
    studies.app,
    waiting.app,
    orders.app,
    drafts.app,
    identity.app,
    images.app,
    keyimages.app,
    dose.app,
    models.app,
    quality.app,
    rules.app,
    blocks.app,
    sample.app,
    demo.app,
):
    app.registered_commands.extend(group.registered_commands)
app.add_typer(processes.worker_app, name="worker")
app.add_typer(rules.rules_app, name="rules")
app.add_typer(alerts.alert_app, name="alert")
app.add_typer(night.night_app, name="night")
app.add_typer(bench.app, name="bench")
app.add_typer(chaos.chaos_app, name="chaos")
app.add_typer(model_check.model_app, name="model")


def main() -> None:
    """Run a command; an error of ours is one sentence on standard error and exit 1."""
    try:
        app()
    except PipelineError as error:
        typer.echo(f"ctreport: {error}", err=True)
        sys.exit(1)
