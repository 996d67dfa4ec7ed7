"""The picture of a training log."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from pipeline.training.curves import COLUMNS, HEIGHT, LINE, MARK, WIDTH, draw_curves

ROWS = [{"stage": "language" if step < 3 else "mtp", "step": step, "elapsed_s": 10.0 * step, "loss": 3.0 - step, "draft1": 0.5} for step in range(5)]


def pixels(path: Path, colour: str) -> int:
    wanted = [int(colour[at : at + 2], 16) for at in (1, 3, 5)]
    return int((np.asarray(Image.open(path).convert("RGB")) == wanted).all(axis=2).sum())


def test_each_figure_has_its_panel_its_line_and_the_change_of_stage(tmp_path: Path) -> None:
    draw_curves([*ROWS, {"stage": "mtp", "step": 5, "elapsed_s": 50.0, "draft2": 0.4}], tmp_path / "log.png")
    with Image.open(tmp_path / "log.png") as picture:
        assert picture.size == (COLUMNS * WIDTH, 2 * HEIGHT)
    assert pixels(tmp_path / "log.png", LINE) > 300
    assert pixels(tmp_path / "log.png", MARK) > 50


def test_a_log_without_figures_leaves_no_file(tmp_path: Path) -> None:
    draw_curves([], tmp_path / "log.png")
    assert not (tmp_path / "log.png").exists()
