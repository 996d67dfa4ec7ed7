"""The Pareto sweep as one PNG: a panel per engine, latency to the right, term F1 upward, the darker the more reports invent a finding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw, ImageFont

Row = Mapping[str, Any]
WIDTH, HEIGHT, LEFT, EDGE = 860, 440, 64, 40
NAMES = 180  # room to the right for what a point is
INK, GRID, FRONT = "#222222", "#dddddd", "#b04a2f"
GOOD, BAD = (31, 111, 139), (20, 20, 20)  # of a point: no report invents a finding, every one does
RADIUS = 6


def draw_pareto(rows: Sequence[Row], path: Path) -> bool:
    """Write a panel for each engine whose quality is known; False, and no file, where none is. Points of the front have a ring."""
    engines = [name for name in dict.fromkeys(row["engine"] for row in rows) if _points(rows, name)]
    if not engines:
        return False
    picture = Image.new("RGB", (WIDTH, HEIGHT * len(engines)), "white")
    pen = ImageDraw.Draw(picture)
    for number, name in enumerate(engines):
        _panel(pen, HEIGHT * number, name, _points(rows, name))
    picture.save(path, optimize=True)
    return True


def _points(rows: Sequence[Row], engine: str) -> list[Row]:
    return [row for row in rows if row["engine"] == engine and row["term_f1"] is not None]


def _panel(pen: ImageDraw.ImageDraw, top: int, name: str, points: Sequence[Row]) -> None:
    font = ImageFont.load_default(size=12)
    box = (LEFT, top + EDGE, WIDTH - NAMES, top + HEIGHT - EDGE)
    wide, (low, high) = _ends([row["median_ms"] for row in points]), _ends([row["term_f1"] for row in points])

    def place(row: Row) -> tuple[float, float]:
        x = box[0] + (row["median_ms"] - wide[0]) / (wide[1] - wide[0]) * (box[2] - box[0])
        return x, box[3] - (row["term_f1"] - low) / (high - low) * (box[3] - box[1])

    pen.rectangle(box, outline=GRID)
    pen.text((LEFT, top + 8), f"{name}: term F1 over ms per report; ring: nothing better in all three; darker: more invented findings", INK, font)
    for share in (0.0, 0.5, 1.0):
        ms, f1 = wide[0] + share * (wide[1] - wide[0]), low + share * (high - low)
        pen.text((box[0] + share * (box[2] - box[0]) - 16, box[3] + 6), f"{ms:.0f}", INK, font)
        pen.text((6, box[3] - share * (box[3] - box[1]) - 7), f"{f1:.3f}", INK, font)
    for row in points:
        _point(pen, place(row), row, font)


def _point(pen: ImageDraw.ImageDraw, at: tuple[float, float], row: Row, font: Any) -> None:
    x, y = at
    pen.ellipse((x - RADIUS, y - RADIUS, x + RADIUS, y + RADIUS), fill=_shade(row["hallucination"] or 0.0))
    if row["front"]:
        pen.ellipse((x - RADIUS - 4, y - RADIUS - 4, x + RADIUS + 4, y + RADIUS + 4), outline=FRONT, width=2)
    pen.text((x + RADIUS + 5, y - 7), row["what"].removeprefix(f"{row['engine']} "), INK, font)


def _shade(hallucination: float) -> tuple[int, int, int]:
    red, green, blue = (round(good + hallucination * (bad - good)) for good, bad in zip(GOOD, BAD, strict=True))
    return red, green, blue


def _ends(values: Sequence[float]) -> tuple[float, float]:
    """Both ends of an axis, a little beyond the values."""
    low, high = min(values), max(values)
    room = (high - low) * 0.08 or max(abs(high) * 0.05, 0.01)
    return low - room, high + room
