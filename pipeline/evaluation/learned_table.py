"""The figures of the denoiser and the side check as Markdown tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

CONTENDERS = {
    "none": "none",
    "article": "the article's autoencoder",
    "ours": "ours, always",
    "ours, auto": "ours, where noise asks (as shipped)",
}
DENOISE = {
    "noise_hu": "noise, HU",
    "dice": "nodule Dice",
    "dice_ground_glass": "Dice, ground glass",
    "dice_gain": "Dice − none",
    "false_thickening": "normals called thickened",
    "found_thickening": "thickened found",
}
SIDES = {
    "slice_accuracy": "slices right",
    "sure": "slices that tell",
    "sure_accuracy": "right of those",
    "right": "volumes right",
    "unsure": "unsure",
    "wrong": "wrong",
}
PERCENT = {"false_thickening", "found_thickening", *SIDES}


def denoise_markdown(result: Mapping[str, Any]) -> str:
    """One line per dose and contender, and how long each takes."""
    head = ["dose", "denoising", *DENOISE.values()]
    body = [[row["dose"], CONTENDERS[row["what"]], *(cell(name, row[name]) for name in DENOISE)] for row in result["rows"]]
    times = ", ".join(f"{CONTENDERS[one['what']].removesuffix(', always')} {one['cpu_s_per_275_slices']:.0f} s" for one in result["seconds"])
    return f"{table(head, body)}\n\n275 slices of 512², processor time of one thread: {times}."


def sides_markdown(result: Mapping[str, Any]) -> str:
    """One line per kind of volume."""
    head = ["pixels", "volumes", "slices", *SIDES.values()]
    body = [
        [row["what"], str(row["volumes"]), str(row["slices"]), *(cell(name, row[name]) if name in row else "" for name in SIDES)]
        for row in result["rows"]
    ]
    return table(head, body)


def cell(name: str, figure: Mapping[str, float | None]) -> str:
    """A figure and its 95 % interval; a dash where nothing was counted."""
    if figure["value"] is None:
        return "–"
    if name in PERCENT:
        return f"{figure['value']:.1%} ({figure['low']:.1%} to {figure['high']:.1%})"
    digits = 1 if name == "noise_hu" else 3
    return f"{figure['value']:.{digits}f} ({figure['low']:.{digits}f} to {figure['high']:.{digits}f})"


def table(head: list[str], body: list[list[str]]) -> str:
    """A Markdown table."""
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *body))
