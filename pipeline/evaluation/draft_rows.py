"""From texts to rows: what each section costs, what each department's report costs both ways, and what all departments cost together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from statistics import median
from typing import Any

from pipeline.drafting.generator import WHOLE
from pipeline.drafting.schema import FINDINGS, SECTIONS
from pipeline.evaluation.draft_ways import EMBEDDED, PLAIN_WAY, Failure, Part
from pipeline.model import Generation

Row = dict[str, Any]
Key = tuple[str, ...]
ALARM = 0.5  # acceptance below which drafts are longer than they are worth: the source article shortens there
MODES = ("sections", "whole")
ALL = "all departments"


def rows(taken: Sequence[Part], failures: Sequence[Failure], departments: Sequence[str]) -> list[Row]:
    """Rows of three kinds (`part`): section, report and study; within each, engines in the order in which they were measured."""
    runs = list(dict.fromkeys((one.engine, one.family, one.way) for one in taken))
    found: list[Row] = []
    for section, whose in _sections(departments):
        found += _compared("section", runs, taken, _of_section(section, whose), section, whose)
    for mode in MODES:
        for department in departments:
            found += _compared("report", runs, taken, _of_report(mode, department), mode, department)
        found += _compared("study", runs, taken, _of_mode(mode), mode, ALL)
    return [row | {"failed": _failed(row, failures)} for row in found]


def _sections(departments: Sequence[str]) -> Iterable[tuple[str, str]]:
    yield FINDINGS, ""
    yield from ((section, department) for section in SECTIONS[1:] for department in departments)
    yield from ((WHOLE, department) for department in departments)


def _of_section(section: str, department: str) -> Callable[[Part], bool]:
    return lambda one: (one.section, one.department) == (section, department)


def _of_mode(mode: str) -> Callable[[Part], bool]:
    return lambda one: one.mode == mode


def _of_report(mode: str, department: str) -> Callable[[Part], bool]:
    """The texts that one department's report takes when it is the only one: the findings and its own three, or the one call."""
    return lambda one: one.mode == mode and one.department in ("", department)


def _compared(part: str, runs: Sequence[Key], taken: Sequence[Part], mine: Callable[[Part], bool], what: str, department: str) -> list[Row]:
    """One row per engine and way that has such texts, beside plain decoding of its family."""
    chosen = [one for one in taken if mine(one)]
    groups = {run: _by_case([one for one in chosen if (one.engine, one.family, one.way) == run]) for run in runs}
    embedded = next((group for (engine, _, way), group in groups.items() if (engine, way) == (EMBEDDED, PLAIN_WAY)), {})
    found = []
    for (engine, family, way), group in groups.items():
        if group:
            plain = next((other for (_, kin, how), other in groups.items() if (kin, how) == (family, PLAIN_WAY)), {})
            name = {"part": part, "what": f"{engine} {way}", "engine": engine, "way": way, "of": what or "one call", "department": department}
            found.append(name | _figures(group) | _beside(group, plain, embedded))
    return found


def _by_case(parts: Sequence[Part]) -> dict[int, list[Part]]:
    cases: dict[int, list[Part]] = {}
    for one in parts:
        cases.setdefault(one.case, []).append(one)
    return cases


def _figures(group: dict[int, list[Part]]) -> Row:
    """Medians over scans; acceptance over all tokens."""
    made = [[one.generation for one in parts] for parts in group.values()]
    first = [seconds for parts in made if (seconds := parts[0].first_token_s) is not None]
    return {
        "texts": len(group),
        "tokens": median(sum(one.tokens for one in parts) for parts in made),
        "verify_steps": median(sum(one.verify_count for one in parts) for parts in made),
        "median_ms": round(1000 * median(sum(one.seconds for one in parts) for parts in group.values()), 1),
        "cpu_median_ms": round(1000 * median(sum(one.cpu_s for one in parts) for parts in group.values()), 1),
        "first_token_ms": round(1000 * median(first), 1) if first else None,
        "acceptance": acceptance([one for parts in made for one in parts]),
    }


def _beside(group: dict[int, list[Part]], plain: dict[int, list[Part]], embedded: dict[int, list[Part]]) -> Row:
    """Speed-up: the median over scans of plain seconds over these. Identical: scans whose every text is that of plain decoding."""
    both = [(plain[case], parts) for case, parts in group.items() if case in plain]
    ratios = [sum(one.seconds for one in before) / sum(one.seconds for one in parts) for before, parts in both]
    worked = [sum(one.cpu_s for one in before) / sum(one.cpu_s for one in parts) for before, parts in both]
    same = [_texts(before) == _texts(parts) for before, parts in both]
    engine = [_texts(embedded[case]) == _texts(parts) for case, parts in group.items() if case in embedded]
    return {
        "speedup_vs_plain": round(median(ratios), 2) if ratios else None,
        "speedup_cpu": round(median(worked), 2) if worked and group[next(iter(group))][0].engine == EMBEDDED else None,
        "compared": len(same),
        "identical": sum(same),
        "like_embedded": sum(engine),
        "like_embedded_of": len(engine),
    }


def _texts(parts: Sequence[Part]) -> list[str]:
    return [one.text for one in parts]


def acceptance(made: Sequence[Generation]) -> float | None:
    """Drafted tokens accepted per drafted token over several texts; None where nothing was drafted."""
    if any(one.positions for one in made):
        pairs = [pair for one in made for pair in one.positions]
        drafted, accepted = sum(pair[0] for pair in pairs), sum(pair[1] for pair in pairs)
    else:
        drafted = sum((len(one.accepted_histogram) - 1) * sum(one.accepted_histogram) for one in made if one.accepted_histogram)
        accepted = sum(place * count for one in made for place, count in enumerate(one.accepted_histogram))
    return round(accepted / drafted, 4) if drafted else None


def _failed(row: Row, failures: Sequence[Failure]) -> int:
    """Drafts of this row's engine, way and mode that did not come; a section's row has those of its own department."""
    mine = [one for one in failures if (one.engine, one.way) == (row["engine"], row["way"])]
    if row["part"] == "section":
        return 0
    return sum(one.mode == row["of"] and row["department"] in (ALL, one.department) for one in mine)


def alarms(found: Sequence[Row]) -> list[str]:
    """One sentence for each row of a section whose acceptance calls for shorter drafts."""
    low = [row for row in found if row["part"] == "section" and row["acceptance"] is not None and row["acceptance"] < ALARM]
    return [
        f"{row['what']}: {row['acceptance']:.0%} of the drafted tokens stand in {_place(row)}, below {ALARM:.0%}: draft fewer per step there"
        for row in low
    ]


def _place(row: Row) -> str:
    return f"{row['of']} of {row['department']}" if row["department"] else str(row["of"])
