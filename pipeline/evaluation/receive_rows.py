"""From measurements to rows: medians over rounds, ratios between contenders of the same round."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from pipeline.evaluation.receive_load import Load

ORTHANC, STORESCP, FORK = "orthanc", "dcmtk storescp", "dcmtk storescp --fork"
PEERS = (ORTHANC, STORESCP, FORK)
Row = dict[str, Any]
Runner = tuple[str, bool | None]  # what, receiver_tcp_nodelay


@dataclass(frozen=True, slots=True)
class Measure:
    """One contender under one load in one round. `failed` says why the figures count for nothing."""

    what: str
    receiver_tcp_nodelay: bool | None
    load: Load
    round: int
    seconds: float = 0.0
    images: int = 0
    megabytes: float = 0.0  # 10^6 bytes
    cpu_s: float = 0.0  # the receiver's own processes
    database_cpu_s: float = 0.0  # those that serve it
    peak_mb: float = 0.0
    peak_pss_mb: float = 0.0
    failed: str = ""

    @property
    def runner(self) -> Runner:
        """The contender."""
        return self.what, self.receiver_tcp_nodelay

    @property
    def images_per_s(self) -> float:
        """Throughput."""
        return self.images / self.seconds if self.seconds else 0.0


def rows(measures: Iterable[Measure]) -> list[Row]:
    """One row per load and contender, in the order in which they were first measured."""
    loads: dict[Load, dict[Runner, list[Measure]]] = defaultdict(lambda: defaultdict(list))
    for one in measures:
        loads[one.load][one.runner].append(one)
    return [_row(load, taken, runners) for load, runners in loads.items() for taken in runners.values()]


def _row(load: Load, taken: Sequence[Measure], runners: Mapping[Runner, Sequence[Measure]]) -> Row:
    sound = [one for one in taken if not one.failed]
    row: Row = {
        "what": taken[0].what,
        "associations": load.associations,
        "object": load.object,
        "images": load.images,
        "sender_tcp_nodelay": load.sender_tcp_nodelay,
        "receiver_tcp_nodelay": taken[0].receiver_tcp_nodelay,
        "images_per_s": _middle(sound, lambda one: one.images_per_s),
        "mb_per_s": _middle(sound, lambda one: one.megabytes / one.seconds),
        "cpu_s_per_1000": _middle(sound, lambda one: 1000 * one.cpu_s / one.images),
        "cpu_s_per_1000_with_database": _middle(sound, lambda one: 1000 * (one.cpu_s + one.database_cpu_s) / one.images),
        "peak_mb": _middle(sound, lambda one: one.peak_mb),
        "peak_pss_mb": _middle(sound, lambda one: one.peak_pss_mb),
        "rounds": len(sound),
        "spread": _spread([one.images_per_s for one in sound]),
    }
    for name, peer in (("ratio_to_orthanc", ORTHANC), ("ratio_to_storescp", STORESCP), ("ratio_to_fork", FORK)):
        row[name] = ratio(taken, runners.get((peer, load.sender_tcp_nodelay), ()))
    failures = [one.failed for one in taken if one.failed]
    return row | ({"failed": failures} if failures else {})


def ratio(ours: Sequence[Measure], theirs: Sequence[Measure]) -> float | None:
    """Median over the rounds of our throughput over theirs in the same round; None where no round has both.

    A load with a NODELAY sender is compared with the peer at its best (TCP_NODELAY set), one with a default sender with the peer as shipped.
    """
    other = {one.round: one.images_per_s for one in theirs if not one.failed}
    both = [one.images_per_s / other[one.round] for one in ours if not one.failed and one.round in other]
    return round(median(both), 2) if both else None


def _middle(sound: Sequence[Measure], figure: Callable[[Measure], float]) -> float | None:
    return round(median(figure(one) for one in sound), 2) if sound else None


def _spread(values: Sequence[float]) -> float | None:
    """(largest − smallest) / median."""
    return round((max(values) - min(values)) / median(values), 2) if values else None
