"""One reader reads one series once, in a process of its own: `python -m pipeline.evaluation.volume_once WHAT FOLDER` prints what it took, as JSON."""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.evaluation.volume_grids import Grid
from pipeline.evaluation.volume_memory import Above
from pipeline.evaluation.volume_readers import READERS, Reader

GRID, HU = "grid.json", "hu.npy"


def main(arguments: Sequence[str] | None = None) -> None:
    """Import, read what warms up (`--warm`), then read and measure: the time, or with `--memory` the peak."""
    asked = _asked(arguments)
    warnings.simplefilter("ignore")  # of those who read; standard output is one line of JSON
    reader = READERS[asked.what]
    if message := reader.absent():
        sys.exit(message)
    if asked.warm is not None:
        reader.read(asked.warm)
    took, taken = _watched(reader, asked.folder) if asked.memory else _timed(reader, asked.folder)
    grid = reader.grid(taken)
    if asked.keep is not None:
        keep(grid, asked.keep)
    print(json.dumps({**took, "array_mb": grid.hu.nbytes / 1e6, "type": str(grid.hu.dtype)}))


def _asked(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=sorted(READERS))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--warm", type=Path, help="a small series that is read first")
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--keep", type=Path, help="folder for the voxels and their geometry")
    return parser.parse_args(arguments)


def _timed(reader: Reader, folder: Path) -> tuple[dict[str, float], Any]:
    cpu_before_s, begun_s = _cpu_s(), time.perf_counter()
    taken = reader.read(folder)
    seconds = time.perf_counter() - begun_s
    return {"seconds": seconds, "cpu_s": _cpu_s() - cpu_before_s}, taken


def _watched(reader: Reader, folder: Path) -> tuple[dict[str, float], Any]:
    with Above() as memory:
        taken = reader.read(folder)
    return {"peak_mb": memory.mb}, taken


def _cpu_s() -> float:
    """CPU seconds of this process and of children that it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def keep(grid: Grid, folder: Path) -> None:
    """Write a grid for `kept`."""
    folder.mkdir(parents=True)
    np.save(folder / HU, grid.hu, allow_pickle=False)
    (folder / GRID).write_text(json.dumps(grid.affine.tolist()), encoding="utf-8")


def kept(folder: Path) -> Grid:
    """A grid that `keep` wrote; its voxels stay on disk and are read as they are looked at."""
    affine = np.array(json.loads((folder / GRID).read_text(encoding="utf-8")))
    return Grid(np.load(folder / HU, mmap_mode="r", allow_pickle=False), affine)


if __name__ == "__main__":
    main()
