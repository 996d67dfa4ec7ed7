"""Commands about the rules: what is in force, a site's change of it, its history, and the rules over a text."""

from __future__ import annotations

from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.errors import BadInput
from workers import wiring
from workers.commands.answer import Data, Json, answer

if TYPE_CHECKING:
    from pipeline.checking import RuleSet
    from pipeline.irradiation import DoseEvent

rules_app = typer.Typer(no_args_is_help=True, help="The rules in PostgreSQL: every change is a new version, with an audit line.")
app = typer.Typer()
KindName = Annotated[str, typer.Argument(metavar="KIND", help="terms, lexicon, dose, factors, series, critical, guidelines, history or growth")]
File = Annotated[Path, typer.Argument(exists=True, dir_okay=False)]


@rules_app.command("list")
def list_(kind: Annotated[str | None, typer.Argument(metavar="[KIND]")] = None, data: Data = None, json_to: Json = None) -> None:
    """The version in force and how many rules of each kind; with KIND, each of its rules in a line."""
    from pipeline.store import versions
    from workers.commands.rule_kinds import kind_of, kinds

    wanted = [kind_of(kind)] if kind else list(kinds().values())
    with wiring.store().begin() as work:
        version = versions.in_force(work.session)
        found = {one.name: one.lines(one.current(work.session, version)) for one in wanted}
    body = found[kind] if kind else [f"{one.name:<8} {len(found[one.name]):>5}  {one.what}" for one in wanted]
    value: dict[str, object] = {"version": version, "kinds": {name: len(lines) for name, lines in found.items()}}
    answer(value | ({"rules": body} if kind else {}), json_to, "\n".join([f"version {version}", *body]))


@rules_app.command("set")
def set_(
    kind: KindName,
    file: File,
    by: Annotated[str, typer.Option(help="who changes them; stands in the trail")],
    note: Annotated[str, typer.Option(help="why")] = "",
    add: Annotated[bool, typer.Option("--add", help="terms and lexicon: add to what is in force, or change it, by form or term")] = False,
    data: Data = None,
    json_to: Json = None,
) -> None:
    """Put the rules of a TOML file in force, as a new version; the next draft is checked with it. A bad file changes nothing."""
    from workers.commands.rule_kinds import change, kind_of

    chosen = kind_of(kind)
    with wiring.store().begin() as work:
        version = change(work.session, chosen, file, by, note or f"{kind} from {file.name}", add=add)
    answer({"kind": kind, "version": version}, json_to, f"version {version} is in force")


@rules_app.command()
def show(kind: KindName, data: Data = None) -> None:
    """Print the rules in force as TOML, to edit and to `set` again."""
    from pipeline.store import versions
    from workers.commands.rule_kinds import kind_of

    chosen = kind_of(kind)
    with wiring.store().begin() as work:
        typer.echo(chosen.toml(chosen.current(work.session, versions.in_force(work.session))), nl=False)


@rules_app.command()
def history(data: Data = None, json_to: Json = None) -> None:
    """Every version: when, who, why."""
    from pipeline.store import versions

    with wiring.store().begin() as work:
        found = versions.history(work.session)
    rows = [{"version": one.version, "at": one.created_at.isoformat(), "actor": one.actor, "note": one.note} for one in found]
    answer({"versions": rows}, json_to, "\n".join(f"{one.version:>4}  {one.created_at:%Y-%m-%d %H:%M:%S}  {one.actor}: {one.note}" for one in found))


@app.command()
def check(
    file: File,
    doses: Annotated[list[str] | None, typer.Option("--dose", metavar="DATE=MSV", help="an earlier dose of the patient (repeat)")] = None,
    on: Annotated[datetime | None, typer.Option("--date", formats=["%Y-%m-%d"], help="date of the examination; today")] = None,
    indication: Annotated[str, typer.Option(help="what the request says; quotations of it are left alone")] = "",
    sex: Annotated[str, typer.Option(help="M or F")] = "",
    age: Annotated[float | None, typer.Option(help="in years")] = None,
    contrast: Annotated[bool | None, typer.Option("--contrast/--no-contrast", help="contrast agent was given")] = None,
    prior: Annotated[bool, typer.Option("--prior", help="an earlier examination is at hand")] = False,
    covers: Annotated[list[str] | None, typer.Option(help="an organ that the scan shows (repeat)")] = None,
    stored: Annotated[bool, typer.Option("--stored", help="with the rules in the database instead of the package's")] = False,
    data: Data = None,
    json_to: Json = None,
) -> None:
    """The rules over a report as text (检查所见, 诊断意见, 建议 as headings) or JSON; exit 1 when any rule has something to say."""
    from pipeline.checking import CheckContext
    from pipeline.rules.checks import run
    from pipeline.rules.written import written

    report = written(_text(file))
    context = CheckContext(
        study_date=on.date() if on else date.today(),
        doses=tuple(_dose(number, given) for number, given in enumerate(doses or (), start=1)),
        indication=indication,
        covers=tuple(covers or ()),
        contrast=contrast,
        sex=sex,
        age_years=age,
        has_prior=prior,
    )
    told = report.told(run(report.report, _ruleset(stored), context))
    lines = [f"{hit['severity']:<8} {hit['rule']}: {hit['message']}" for hit in told["hits"]]
    answer(told, json_to, "\n".join([str(told["text"]), "", *(lines or ["no rule has anything to say"])]))
    raise typer.Exit(1 if told["hits"] else 0)


def _text(file: Path) -> str:
    """Raises BadInput for what is no UTF-8."""
    try:
        return file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInput(f"{file.name} is not UTF-8 (byte {error.start}); save it as UTF-8") from None


def _ruleset(stored: bool) -> RuleSet:
    """The rules in force in the database, or those of the package: they need no stack."""
    if stored:
        with wiring.store().begin() as work:
            return work.rules.current()
    from pipeline.rules.seed import seed_ruleset

    return seed_ruleset(0)


def _dose(number: int, given: str) -> DoseEvent:
    """`2026-01-31=12.5` → one event. Raises BadInput."""
    from pipeline.irradiation import DoseEvent

    day, _, msv = given.partition("=")
    try:
        return DoseEvent(f"given {number}", date.fromisoformat(day), "", 0.0, float(msv))
    except ValueError:
        raise BadInput(f"--dose '{given}' is not DATE=MSV, such as 2026-01-31=12.5") from None
