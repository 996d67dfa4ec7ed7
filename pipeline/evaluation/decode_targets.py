"""What decoding is asked to reach, against what was measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.evaluation.decode_contenders import ADAPTIVE, DEFAULT, MTP, PLAIN

Row = Mapping[str, Any]
JUDGED = MTP.format(k=4)  # whose first four positions are looked at: it always drafts four
OURS = "ctreport"


@dataclass(frozen=True, slots=True)
class Target:
    """A figure of the rows that is at least, or at most, `must` and `goal`."""

    name: str
    value: Callable[[Sequence[Row]], float | None]
    must: float
    goal: float
    at_most: bool = False

    def reached(self, value: float, asked: float) -> bool:
        """Whether a measured value is good enough."""
        return value <= asked if self.at_most else value >= asked


def best_k(rows: Sequence[Row]) -> Row | None:
    """The row of MTP alone with the fixed draft length that is fastest; None when none was measured."""
    fixed = [row for row in rows if row["part"] == "single" and row["what"].startswith(MTP.format(k="")) and row["what"] != ADAPTIVE]
    return max(fixed, key=lambda row: float(row["speedup_vs_plain"]), default=None)


def differing(rows: Sequence[Row]) -> int:
    """Texts of ours that are not those of plain decoding, singly and in batches."""
    ours = [row for row in rows if row["part"] in ("single", "batch") and row["what"].startswith(OURS)]
    return sum(int(row["texts"] - row["identical"]) for row in ours)


def _best(rows: Sequence[Row]) -> float | None:
    row = best_k(rows)
    return None if row is None else row["speedup_vs_plain"]


def _single(what: str, figure: str) -> Callable[[Sequence[Row]], float | None]:
    return lambda rows: next((row.get(figure) for row in rows if row["part"] == "single" and row["what"] == what), None)


def _first(rows: Sequence[Row]) -> float | None:
    shares = next((row.get("acceptance_at") for row in rows if row["part"] == "single" and row["what"] == JUDGED), None)
    return shares[0] if shares else None


def _batch(what: str) -> Callable[[Sequence[Row]], float | None]:
    return lambda rows: next(
        (row["speedup_vs_batch_1"] for row in rows if row["part"] == "batch" and row["what"] == what and row["batch"] == 8), None
    )


TARGETS = (
    Target("texts that differ from plain decoding", differing, 0, 0, at_most=True),
    Target("MTP alone at its best k, against plain without jumps", _best, 2.5, 2.8),
    Target("default policy, against plain without jumps", _single(DEFAULT, "speedup_vs_plain"), 3.2, 4.0),
    Target("first position accepted (k = 4)", _first, 0.94, 0.95),
    Target("first four: mean of positions 1–4, each given that it was drafted", _single(JUDGED, "first_four_mean"), 0.72, 0.80),
    Target("first four: all four stand", _single(JUDGED, "first_four_all"), 0.72, 0.80),
    Target("batch 8 against 1, default policy", _batch(DEFAULT), 1.7, 2.0),
    Target("batch 8 against 1, plain", _batch(PLAIN), 1.7, 2.0),
)


def verdicts(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Each target with what was measured and whether must and goal are reached; None where nothing was measured."""
    return [_verdict(target, target.value(rows)) for target in TARGETS]


def _verdict(target: Target, value: float | None) -> dict[str, Any]:
    sign = "≤" if target.at_most else "≥"
    told: dict[str, Any] = {"figure": target.name, "measured": value}
    for name, asked in (("must", target.must), ("goal", target.goal)):
        told[name] = f"{sign} {asked:g}"
        told[f"{name}_reached"] = None if value is None else target.reached(value, asked)
    return told
