"""`ctreport chaos`: faults at seeded times while phantoms are sent, and the proof that nothing was lost, stuck or doubled. For test stacks alone."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.errors import BadInput
from pipeline.settings import settings
from workers import wiring
from workers.commands.answer import Data, Json, answer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from workers.chaos.blows import Target
    from workers.chaos.drafts import FakeDrafts
    from workers.chaos.plan import Fault
    from workers.chaos.report import TrialReport
    from workers.chaos.trial import Ground

chaos_app = typer.Typer(no_args_is_help=True, help="Faults on purpose, in test stacks alone, and the proof that nothing was lost or doubled.")
NO_CLOCK = "the clocks of a stack that is not ours are left alone; give a command with --on"
OFFSET = 10_000  # phantoms of one seed; another seed sends others


@chaos_app.command("mark")
def mark_database(remove: Annotated[bool, typer.Option("--remove", help="take the marker away")] = False, data: Data = None) -> None:
    """Say that the database of this stack is one for tests. Refused where it holds studies that are not phantoms."""
    from workers.chaos.mark import mark, unmark

    (unmark if remove else mark)(wiring.urls(settings()).database)
    typer.echo("the marker is gone; faults are refused here" if remove else "marked: `ctreport chaos run` may make faults here")


@chaos_app.command("run")
def run_trial(
    seed: int = 1,
    studies: Annotated[int, typer.Option(min=1, max=OFFSET)] = 20,
    seconds: Annotated[float, typer.Option(min=1, help="how long faults are made")] = 60.0,
    host: Annotated[str, typer.Option(help="where the listener is")] = "127.0.0.1",
    port: int | None = None,
    on: Annotated[
        list[str] | None, typer.Option(help="FAULT=COMMAND: how a fault is made here, as kill-listener='docker compose kill listener'")
    ] = None,
    draft_port: Annotated[int | None, typer.Option(help="run a fake draft server here; the stack's CTREPORT_SGLANG_URL must point to it")] = None,
    patience_s: Annotated[float, typer.Option(help="how long everything may take to come to rest")] = 300.0,
    data: Data = None,
    json_to: Json = None,
) -> None:
    """Send phantoms to a marked test stack and strike it; exit 1 when anything does not hold."""
    from workers.chaos.mark import refuse_unmarked

    commands = commands_of(on or [])
    refuse_unmarked(wiring.urls(settings()).database)
    with tempfile.TemporaryDirectory(prefix="ctreport-chaos-") as folder:
        report = _held(Path(folder), seed, studies, seconds, (host, port), commands, draft_port, patience_s)
    answer(report.as_json(), json_to, report.summary())
    raise typer.Exit(0 if report.clean else 1)


@chaos_app.command("fire")
def fire(
    seeds: Annotated[int, typer.Option(min=1, help="how many seeds")] = 20,
    first: Annotated[int, typer.Option(help="the first of them")] = 1,
    embedded: Annotated[int, typer.Option(min=1, help="studies that the embedded engine drafts")] = 20,
    served: Annotated[int, typer.Option(min=1, help="studies that a fake draft server drafts")] = 180,
    seconds: Annotated[float, typer.Option(min=1, help="how long the second storm lasts")] = 45.0,
    work: Annotated[Path | None, typer.Option(help="folder to work in, kept; default: a temporary one")] = None,
    json_to: Json = None,
) -> None:
    """A stack of its own for each seed, under every fault; exit 1 when anything does not hold."""
    from workers.chaos.fire import Size, burn

    size = Size(embedded, served, then_s=seconds)
    with tempfile.TemporaryDirectory(prefix="ctreport-fire-") as folder:
        reports = []
        for seed in range(first, first + seeds):
            reports.append(burn((work or Path(folder)).absolute(), seed, size))
            typer.echo(reports[-1].summary(), err=True)
    answer({"trials": [one.as_json() for one in reports]}, json_to, _total(reports))
    raise typer.Exit(0 if all(one.clean for one in reports) else 1)


def commands_of(given: Sequence[str]) -> Mapping[Fault, str]:
    """FAULT=COMMAND → the command of each fault. Raises BadInput with the names there are."""
    from workers.chaos.plan import Fault

    found = {}
    for entry in given:
        name, _, command = entry.partition("=")
        if name not in list(Fault) or not command.strip():
            raise BadInput(f"--on '{entry}' names no fault and command; write FAULT=COMMAND with one of {', '.join(Fault)}")
        found[Fault(name)] = command
    return found


def _held(
    folder: Path,
    seed: int,
    studies: int,
    seconds: float,
    peer: tuple[str, int | None],
    commands: Mapping[Fault, str],
    draft_port: int | None,
    patience_s: float,
) -> TrialReport:
    from contextlib import ExitStack

    from workers.chaos.drafts import fake_drafts, served_folder
    from workers.chaos.studies import READABLE, write_studies
    from workers.chaos.trial import hold

    written = write_studies(folder / "studies", seed * OFFSET, studies, READABLE)
    with ExitStack() as begun:
        drafts = None if draft_port is None else begun.enter_context(fake_drafts(served_folder(folder / "model"), draft_port))
        return hold(_ground(peer, patience_s), _target(commands, drafts), written, seed, seconds)


def _ground(peer: tuple[str, int | None], patience_s: float) -> Ground:
    from workers.chaos.senders import Peer
    from workers.chaos.trial import Ground
    from workers.commands.studies import listener_port
    from workers.health import verify_all

    config, (host, port) = settings(), peer
    return Ground(
        store=wiring.store(),
        path_of=lambda relative: wiring.archive().paths([relative])[0],
        peer=Peer(host, port or listener_port(), config.listener.aet),
        department=config.draft.department,
        lease_s=config.work.lease_s,
        patience=wiring.patience(),
        exported=config.deliver.folder,
        verify=lambda: verify_all(wiring.store(), config.archive_root / "ledger").as_json(),
        phantoms=config.phantom_ledger,
        patience_s=patience_s,
    )


def _target(commands: Mapping[Fault, str], drafts: FakeDrafts | None) -> Target:
    """The stack of the settings; where it is an embedded one, its processes are seen."""
    from workers.chaos.blows import Target
    from workers.local import read_stack

    urls, data = wiring.urls(settings()), settings().site.data
    stack = read_stack(data)

    def pid_of(part: str) -> int | None:
        now = read_stack(data)
        return {one.name: one.pid for one in now.parts}.get(part) if now is not None else None

    seen = pid_of if stack is not None and stack.embedded else None
    return Target(urls.database, urls.broker, seen, commands, drafts=drafts, no_clock=NO_CLOCK)


def _total(reports: Sequence[TrialReport]) -> str:
    bad = [str(one.seed) for one in reports if not one.clean]
    seconds = sum(one.seconds for one in reports)
    return f"{len(reports)} seeds in {seconds:.0f} s: " + (f"NOT CLEAN: {', '.join(bad)}" if bad else "all clean")
