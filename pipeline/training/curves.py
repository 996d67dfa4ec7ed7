"""Curves of a training log as one PNG: a panel per figure, over the time of the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

WIDTH, HEIGHT, MARGIN, COLUMNS = 420, 260, 44, 2
INK, GRID, LINE, MARK = "#222222", "#dddddd", "#1f6f8b", "#b04a2f"
Row = Mapping[str, float | str]


def draw_curves(rows: Sequence[Row], path: Path, *, over: str = "elapsed_s", left_out: Sequence[str] = ("step", "stage")) -> None:
    """Write a panel for each numeric figure of the rows against `over`; a new stage is a vertical line. No rows, no file."""
    names = [name for name in dict.fromkeys(name for row in rows for name in row) if name not in (over, *left_out)]
    if not names:
        return
    lines = -(-len(names) // COLUMNS)
    picture = Image.new("RGB", (COLUMNS * WIDTH, lines * HEIGHT), "white")
    pen = ImageDraw.Draw(picture)
    for number, name in enumerate(names):
        corner = (number % COLUMNS * WIDTH, number // COLUMNS * HEIGHT)
        points = [(float(row[over]), float(row[name])) for row in rows if name in row]
        _panel(pen, corner, name, points, _turns(rows, over))
    picture.save(path, optimize=True)


def _turns(rows: Sequence[Row], over: str) -> list[float]:
    """Where the stage changes."""
    return [float(after[over]) for before, after in pairwise(rows) if before.get("stage") != after.get("stage")]


def _panel(pen: ImageDraw.ImageDraw, corner: tuple[int, int], name: str, points: Sequence[tuple[float, float]], turns: Sequence[float]) -> None:
    left, top = corner[0] + MARGIN, corner[1] + MARGIN // 2
    right, bottom = corner[0] + WIDTH - MARGIN // 4, corner[1] + HEIGHT - MARGIN // 2
    xs, ys = [x for x, _ in points], [y for _, y in points]
    low, high = min(ys), max(ys)
    first, wide, tall = min(xs), (max(xs) - min(xs)) or 1.0, (high - low) or 1.0
    font = ImageFont.load_default(size=12)

    def place(x: float, y: float) -> tuple[float, float]:
        return left + (x - first) / wide * (right - left), bottom - (y - low) / tall * (bottom - top)

    pen.rectangle((left, top, right, bottom), outline=GRID)
    pen.text((left, corner[1] + 4), name, INK, font)
    for value in (low, (low + high) / 2, high):
        at = place(first, value)[1]
        pen.line((left, at, right, at), GRID)
        pen.text((corner[0] + 2, at - 7), f"{value:.3g}", INK, font)
    pen.text((left, bottom + 3), f"{first:.0f}", INK, font)
    pen.text((right - 30, bottom + 3), f"{first + wide:.0f}", INK, font)
    for turn in turns:
        if xs[0] <= turn <= xs[-1]:
            pen.line((*place(turn, low), *place(turn, high)), MARK)
    pen.line([place(x, y) for x, y in points], LINE, 2)
