"""A process that reads good files, then others, and says what that took: `python -m … GOOD OTHERS`, two folders."""

from __future__ import annotations

import json
import resource
import sys
import time
import warnings
from pathlib import Path
from typing import Any

from pipeline.errors import PipelineError
from pipeline.evaluation.volume_memory import Above
from pipeline.imaging.survey import survey
from pipeline.imaging.volume import read_volume


def main() -> None:
    """Print JSON: what became of the files in `read_volume` and `survey`, and what either took."""
    warnings.simplefilter("ignore")  # pydicom's; what counts is what the reader says
    good, others = (sorted(Path(name).iterdir()) for name in sys.argv[1:3])
    read_volume(good)
    survey(good)
    print(json.dumps({"read": _took(lambda: _read(others)), "survey": _took(lambda: _survey(others))}))


def _read(paths: list[Path]) -> dict[str, Any]:
    try:
        return {"error": "", "said": f"{read_volume(paths).hu.shape}"}
    except PipelineError as error:
        return {"error": type(error).__name__, "said": str(error)}


def _survey(paths: list[Path]) -> dict[str, Any]:
    try:
        rows = survey(paths)
    except PipelineError as error:
        return {"accepted": False, "said": str(error)}
    return {"accepted": any(row.accepted for row in rows), "said": "; ".join(row.reason for row in rows)}


def _took(act: Any) -> dict[str, Any]:
    before_s, begun_s = _cpu_s(), time.perf_counter()
    with Above() as memory:
        became = act()
    return {**became, "cpu_s": _cpu_s() - before_s, "wall_s": time.perf_counter() - begun_s, "peak_mb": memory.mb}


def _cpu_s() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


if __name__ == "__main__":
    main()
