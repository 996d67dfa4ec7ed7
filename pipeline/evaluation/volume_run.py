"""Volume speed: our reader against SimpleITK's series reader and dicom2nifti on the same series, in one run, in turn (A, B, C, A, B, C …).

Each measurement is a fresh process that has imported what it needs and has read a small series of the same kind; files lie in the page cache. Memory
is looked at in one process more that has read nothing before, and its voxels are compared, one by one, with those of SimpleITK.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pipeline.evaluation.volume_files import J2K, NATIVE, SLICES, Series, Told, sources, write_series
from pipeline.evaluation.volume_grids import differing
from pipeline.evaluation.volume_once import kept
from pipeline.evaluation.volume_readers import READERS, SIMPLEITK

MODULE = "pipeline.evaluation.volume_once"
ROOT = Path(__file__).resolve().parents[2]
ROUNDS, SHORT_ROUNDS = 5, 2
WARM_SLICES = 12
LIMIT_S = 600.0


@dataclass(frozen=True, slots=True)
class Measure:
    """One reading. `round` 0 is the one in which memory and voxels are looked at; the others are timed. `failed` says why nothing counts."""

    what: str
    series: Series
    round: int
    seconds: float = 0.0
    cpu_s: float = 0.0
    peak_mb: float = 0.0  # 10^6 bytes
    array_mb: float = 0.0
    type: str = ""
    differing: int | None = None  # voxels; None: not compared, or another grid
    failed: str = ""


def prepared(data: Path | None, folder: Path, told: Told, slices: int = SLICES) -> tuple[list[tuple[Series, Series]], str]:
    """Each series with its small one for warming up, and what they are made from."""
    source, name = sources(data, folder / "source")
    made = [
        (write_series(kind, folder / kind, source, told, slices), write_series(kind, folder / f"{kind}-warm", source, _quiet, WARM_SLICES))
        for kind in (NATIVE, J2K)
    ]
    return made, name


def run(series: Sequence[tuple[Series, Series]], readers: Sequence[str], rounds: int, folder: Path, told: Told) -> Iterator[Measure]:
    """Measure all, readers in turn; a reader that failed once is left alone. `told` hears the share done and what comes next."""
    done, total = 0, len(series) * len(readers) * (rounds + 1)
    for whole, warm in series:
        out: set[str] = set()
        for number in range(rounds + 1):
            for what in readers:
                told(done / total, f"{what}: {whole.slices} slices, {whole.name}, round {number} of {rounds}")
                done += 1
                if what in out:
                    continue
                one = _timed(what, whole, warm, number) if number else _looked_at(what, whole, folder)
                out |= {what} if one.failed else set()
                yield one
        shutil.rmtree(folder / SIMPLEITK, ignore_errors=True)


def _timed(what: str, series: Series, warm: Series, number: int) -> Measure:
    return _measure(Measure(what, series, number), "--warm", str(warm.folder))


def _looked_at(what: str, series: Series, folder: Path) -> Measure:
    """Peak memory and voxels. Those of SimpleITK, who comes first here, stay until the series is done."""
    mine = folder / what
    one = _measure(Measure(what, series, 0), "--memory", "--keep", str(mine))
    reference = folder / SIMPLEITK
    if not one.failed and reference.is_dir():
        one = replace(one, differing=differing(kept(reference), kept(mine)))
    if what != SIMPLEITK:
        shutil.rmtree(mine, ignore_errors=True)
    return one


def _measure(blank: Measure, *options: str) -> Measure:
    command = (sys.executable, "-m", MODULE, blank.what, str(blank.series.folder), *options)
    try:
        ran = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        return replace(blank, failed=f"not done after {LIMIT_S:.0f} s")
    if ran.returncode != 0:
        return replace(blank, failed=(ran.stderr.strip().splitlines() or [f"ended with {ran.returncode}"])[-1])
    said: Mapping[str, Any] = json.loads(ran.stdout.strip().splitlines()[-1])
    return replace(blank, **said)


def in_order(wanted: Sequence[str]) -> list[str]:
    """Readers that are asked for and installed, SimpleITK first, since the others are compared with it."""
    present = [what for what in READERS if what in wanted and not READERS[what].absent()]
    return sorted(present, key=lambda what: what != SIMPLEITK)


def _quiet(done: float, line: str) -> None:
    """The small series are ready in a second."""
