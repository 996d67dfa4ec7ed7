"""What the receiver is asked to reach, against what was measured. Shares and ratios are of one alternating run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.evaluation.receive_rows import Row

DEFAULT, FAST = "ctreport", "ctreport fast"
MUST, GOAL = "must", "goal"


@dataclass(frozen=True, slots=True)
class Target:
    """`figure` of a row at least (or, for memory, at most) `asked`."""

    kind: str
    object: str
    associations: int
    sender_tcp_nodelay: bool
    figure: str
    asked: float
    at_most: bool = False

    def reached(self, value: float) -> bool:
        """Whether a measured value is good enough."""
        return value <= self.asked if self.at_most else value >= self.asked


TARGETS: tuple[Target, ...] = (
    Target(MUST, "small", 1, True, "ratio_to_orthanc", 1.0),
    Target(MUST, "small", 4, True, "ratio_to_orthanc", 0.6),
    Target(MUST, "small", 8, True, "ratio_to_orthanc", 0.6),
    Target(MUST, "small", 1, False, "ratio_to_orthanc", 5.0),
    Target(MUST, "small", 1, False, "ratio_to_storescp", 5.0),
    Target(MUST, "1GB", 1, True, "peak_pss_mb", 300.0, at_most=True),  # physical memory: forked processes share pages, peak_mb counts them in each
    Target(GOAL, "small", 1, True, "ratio_to_orthanc", 1.5),
    Target(GOAL, "small", 4, True, "ratio_to_orthanc", 1.2),
    Target(GOAL, "small", 8, True, "ratio_to_orthanc", 1.2),
    Target(GOAL, "small", 1, True, "ratio_to_fork", 0.5),
    Target(GOAL, "small", 4, True, "ratio_to_fork", 0.5),
    Target(GOAL, "small", 8, True, "ratio_to_fork", 0.5),
)


def verdicts(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Each target for the default and for the fast path, as far as it was measured."""
    return [
        {"what": what, **_described(target), "measured": row[target.figure], "reached": target.reached(row[target.figure])}
        for target in TARGETS
        for what in (DEFAULT, FAST)
        for row in rows
        if _fits(target, what, row) and row[target.figure] is not None
    ]


def _fits(target: Target, what: str, row: Row) -> bool:
    place = (row["what"], row["object"], row["associations"], row["sender_tcp_nodelay"])
    return place == (what, target.object, target.associations, target.sender_tcp_nodelay)


def _described(target: Target) -> dict[str, Any]:
    return {
        "kind": target.kind,
        "object": target.object,
        "associations": target.associations,
        "sender_tcp_nodelay": target.sender_tcp_nodelay,
        "figure": target.figure,
        "asked": f"{'≤' if target.at_most else '≥'} {target.asked:g}",
    }
