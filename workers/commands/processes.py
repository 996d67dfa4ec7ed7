"""Commands that are a process: the stack, the listener, workers, beat, web, migrate."""

from __future__ import annotations

import typer

from pipeline import log
from pipeline.model import Step
from pipeline.settings import settings
from workers import wiring, wiring_drafts
from workers.commands.answer import Data, Json, answer

app = typer.Typer()
worker_app = typer.Typer(no_args_is_help=True, help="Celery workers, one per kind of work.")


@app.command()
def up(data: Data = None, port: int | None = None, web_port: int | None = None, json_to: Json = None) -> None:
    """Run the embedded stack until Ctrl-C."""
    from workers.stack import as_json, run_stack, summary

    log.configure(settings().log.level)
    run_stack(settings(), port, web_port, on_ready=lambda info: answer(as_json(info), json_to, summary(info)))


@app.command()
def down(data: Data = None, timeout_s: float = 60.0) -> None:
    """Stop the embedded stack in order."""
    from workers.local import stop_stack

    folder = settings().site.data
    typer.echo("stopped" if stop_stack(folder, timeout_s) else f"nothing runs on '{folder}'")


@app.command()
def migrate() -> None:
    """Bring the database to its newest schema and seed the rules."""
    _start("migrate")
    wiring.migrate(wiring.urls(settings()).database)


@app.command()
def listener() -> None:
    """Run the C-STORE service until SIGTERM."""
    from workers.listener import serve

    _start("listener")
    serve()


@app.command()
def web() -> None:
    """Run the health page until SIGTERM."""
    from workers.web import serve

    _start("web")
    serve()


@app.command()
def beat() -> None:
    """Ring the sweeper at its time."""
    _start("beat")
    wiring.celery_app().Beat(loglevel=settings().log.level, quiet=True, scheduler_cls="celery.beat:Scheduler", pidfile="").run()


@worker_app.command("encode")
def worker_encode() -> None:
    """Encode volumes; one model in memory."""
    _work("encode", ["encode"], ["--pool=solo"])


@worker_app.command("draft")
def worker_draft() -> None:
    """Draft reports with the embedded engine; one model in memory."""
    _work("draft", ["draft"], ["--pool=solo"])


@worker_app.command("io")
def worker_io(concurrency: int = 2) -> None:
    """Assemble, deliver and sweep."""
    _work("io", ["assemble", "deliver", "maintenance"], ["--pool=prefork", f"--concurrency={concurrency}"])


def _work(kind: str, queues: list[str], pool: list[str]) -> None:
    from workers import hearing
    from workers.app import on_worker_ready
    from workers.ending import end_in_order

    _start(f"worker-{kind}")
    steps, room = [Step(queue) for queue in queues], settings().work

    def ready() -> None:
        wiring_drafts.warm(kind)
        for step in steps:  # what waited while nobody listened needs no sweeper
            wiring.bell().ring(step)
        hearing.watch(room.deaf_s, lambda: wiring.waiting(steps), wiring.broker_answers)

    on_worker_ready(ready)
    if "--pool=solo" in pool:  # children of the io pool do short work, which the pool waits for
        end_in_order(room.grace_s, wiring.hand_back)
    arguments = ["worker", f"--queues={','.join(queues)}", f"--hostname={kind}@%h", "--without-gossip", "--without-mingle", *pool]
    wiring.celery_app().worker_main(arguments)


def _start(name: str) -> None:
    log.configure(settings().log.level)
    log.get(name).info("start", process=name)
