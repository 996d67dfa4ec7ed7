"""From what was measured of the whole flow to rows: CPU time per study as a fixed part and a part per image, memory and connections over the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

Row = dict[str, Any]
OVERHEAD, EMBEDDED, TABLES = "overhead", "embedded", "tables"
MOST_FIXED_MS = 150.0  # CPU per study beside what each image costs
MOST_BEND = 1.25  # of the last images' cost over the first images'
MOST_QUERY_MS = 20.0


@dataclass(frozen=True, slots=True)
class Block:
    """Studies of one size, sent and worked through: wall and CPU seconds, the latter by process and without what the idle stack takes."""

    images: int
    studies: int
    wall_s: float
    cpu: Mapping[str, float]
    encoded: int = 0  # studies that the encoder had to read after all


@dataclass(frozen=True, slots=True)
class Sample:
    """One moment of a run: studies drafted so far, private memory of each process family in KiB, open connections by service."""

    studies: int
    memory_kb: Mapping[str, int]
    connections: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Line:
    """y = fixed + slope × x, by least squares."""

    fixed: float
    slope: float


def line(points: Sequence[tuple[float, float]]) -> Line:
    """The least-squares line; flat through the mean where all x are equal."""
    middle_x, middle_y = fmean(x for x, _ in points), fmean(y for _, y in points)
    spread = sum((x - middle_x) ** 2 for x, _ in points)
    slope = sum((x - middle_x) * (y - middle_y) for x, y in points) / spread if spread else 0.0
    return Line(middle_y - slope * middle_x, slope)


def bend(points: Sequence[tuple[float, float]]) -> float | None:
    """What one more image costs in the largest studies over what it costs in the smallest: 1 is linear; None with fewer than three sizes."""
    sizes = sorted({x for x, _ in points})
    if len(sizes) < 3:
        return None
    half = len(sizes) // 2
    low, high = ([point for point in points if point[0] in some] for some in (sizes[: half + 1], sizes[half:]))
    first = line(low).slope
    return round(line(high).slope / first, 2) if first > 0 else None


def growth_kb(samples: Sequence[Sample], name: str) -> float:
    """KiB that a process family grows per study, by least squares over the second half of the run: the first one fills caches."""
    half = samples[len(samples) // 2 :]
    return round(line([(one.studies, float(one.memory_kb[name])) for one in half]).slope, 2)


def overhead_rows(part: str, blocks: Sequence[Block], idle_ms_per_s: float) -> list[Row]:
    """One row per size, then the line through all of them: of all processes together, and of each."""
    per_size = [_size_row(part, images, [one for one in blocks if one.images == images]) for images in sorted({one.images for one in blocks})]
    names = sorted({name for one in blocks for name in one.cpu})
    lines = [_line_row(part, "all processes", [(one.images, 1000 * sum(one.cpu.values()) / one.studies) for one in blocks])]
    lines += [_line_row(part, name, [(one.images, 1000 * one.cpu.get(name, 0.0) / one.studies) for one in blocks]) for name in names]
    lines[0]["idle_cpu_ms_per_s"] = round(idle_ms_per_s, 1)
    return [*per_size, *lines]


def _size_row(part: str, images: int, blocks: Sequence[Block]) -> Row:
    studies, wall = sum(one.studies for one in blocks), sum(one.wall_s for one in blocks)
    cpu = sum(sum(one.cpu.values()) for one in blocks)
    return {
        "part": part,
        "what": f"{images} images",
        "images": images,
        "studies": studies,
        "studies_per_hour": round(3600 * studies / wall),
        "cpu_ms_per_study": round(1000 * cpu / studies, 1),
        "encoded_after_all": sum(one.encoded for one in blocks),
    }


def _line_row(part: str, what: str, points: Sequence[tuple[float, float]]) -> Row:
    found = line(points)
    return {"part": part, "what": what, "fixed_ms": round(found.fixed, 1), "per_image_ms": round(found.slope, 2), "bend": bend(points)}


def memory_rows(part: str, samples: Sequence[Sample]) -> list[Row]:
    """Per process family its private memory at the end and its growth per 1,000 studies; per service the most connections."""
    if len(samples) < 4:
        return []
    last = samples[-1]
    rows: list[Row] = []
    for name, kb in last.memory_kb.items():
        growth = round(1000 * growth_kb(samples, name) / 1024, 1)
        rows.append({"part": part, "what": f"memory of {name}", "end_mb": round(kb / 1024, 1), "growth_mb_per_1000": growth})
    most = {name: max(one.connections.get(name, 0) for one in samples) for name in last.connections}
    for name, count in most.items():
        rows.append({"part": part, "what": f"connections to {name}", "most": count})
    return rows


def verdicts(rows: Sequence[Row]) -> list[Row]:
    """What was asked of the rows that are there, and whether it was reached."""
    found: list[Row] = []
    for row in rows:
        if row["part"] == OVERHEAD and row["what"] == "all processes":
            found.append(_verdict("CPU per study beside its images, ms", MOST_FIXED_MS, row["fixed_ms"]))
            if row["bend"] is not None:
                found.append(_verdict("cost of the last image over the first: linear", MOST_BEND, row["bend"]))
        if row["part"] == TABLES and row.get("kind"):
            found.append(_verdict(f"{row['what']}, ms", MOST_QUERY_MS, row["median_ms"]))
            found.append(_verdict(f"{row['what']}, tables read from end to end", 0, len(row["scanned"])))
    return found


def _verdict(what: str, asked: float, measured: float) -> Row:
    return {"what": what, "asked": f"at most {asked:g}", "measured": measured, "reached": measured <= asked}
