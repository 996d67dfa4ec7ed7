"""Commands about names: what is read from files, which guesses wait for a person, and the person's word."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from workers import wiring
from workers.commands.answer import Data, Json, answer

app = typer.Typer()


@app.command()
def identity(
    paths: Annotated[list[Path] | None, typer.Argument(help="files or folders", exists=True)] = None,
    guesses: Annotated[bool, typer.Option("--guesses", help="list the guesses in the database that nobody has confirmed")] = False,
    confirm: Annotated[str | None, typer.Option(metavar="ROW", help="confirm one of them, by its row id")] = None,
    name: Annotated[str | None, typer.Option(help="with --confirm: the right name, where the guess is wrong")] = None,
    by: Annotated[str, typer.Option(help="with --confirm: who confirms it")] = "",
    data: Data = None,
    json_to: Json = None,
) -> None:
    """Names as they are read from files (no stack needed), the guesses that wait, and their confirmation; exit 1 when a file cannot be read."""
    if sum((bool(paths), guesses, confirm is not None)) != 1:
        raise typer.BadParameter("give either PATH…, or --guesses, or --confirm ROW")
    if (name is not None or by) and confirm is None:
        raise typer.BadParameter("--name and --by belong to --confirm")
    if confirm is not None:
        _confirm(confirm, name, by, json_to)
    elif guesses:
        _list(json_to)
    else:
        _read(paths or [], json_to)


def _read(paths: list[Path], json_to: str | None) -> None:
    from pipeline.dicom.named import names_in_files

    files = [found.as_json() for found in names_in_files(paths)]
    answer({"files": files}, json_to, "\n".join(map(_line, files)) or "no DICOM file here")
    raise typer.Exit(1 if not files or any(file["reason"] for file in files) else 0)


def _line(file: dict[str, object]) -> str:
    if file["reason"]:
        return f"{file['file']}: {file['reason']}"
    how = "guess, please confirm" if file["guess"] else "repaired" if file["repaired"] else "as labelled"
    return f"{file['file']}: {file['patient_name']}  ({file['charset']}; {how})"


def _list(json_to: str | None) -> None:
    from pipeline.store import guesses

    waiting = guesses.guesses(wiring.store())
    answer({"guesses": waiting}, json_to, "\n".join(map(_waiting, waiting)) or "no guess waits for a person")


def _waiting(one: dict[str, Any]) -> str:
    text = f"{one['patient_name']}  ({one['charset']})" if one["what"] == "name" else f"{one['description']} / {one['indication']}"
    return f"{one['row']}  {one['what']}  {text}  {' '.join(one['study_uids'])}"


def _confirm(row: str, name: str | None, by: str, json_to: str | None) -> None:
    from pipeline.store import guesses

    done = guesses.confirm(wiring.store(), row, by, name)
    answer(done, json_to, f"{done['before']} → {done['after']}" if done["changed"] else f"confirmed: {done['after']}")
