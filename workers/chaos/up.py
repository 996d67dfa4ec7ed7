"""`python -m workers.chaos.up RUN_FOLDER`: the embedded stack, as `ctreport up` runs it, with processes that a trial can reach into."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pipeline import log
from pipeline.settings import settings
from workers.chaos.clock import false_clock
from workers.local import ProcessSpec
from workers.stack import CTREPORT, run_stack

CHILD = "workers.chaos.child"


def under_fire(run: Path, clock: Mapping[str, str], specs: Sequence[ProcessSpec]) -> list[ProcessSpec]:
    """The same processes, started by way of the trial's entry and living by its clock."""
    return [replace(spec, argv=(CTREPORT[0], "-m", CHILD, str(run), *spec.argv[len(CTREPORT) :]), env={**spec.env, **clock}) for spec in specs]


def main() -> None:
    """Run until a signal."""
    run = Path(sys.argv[1])
    clock = false_clock(run)
    log.configure(settings().log.level)
    run_stack(settings(), 0, 0, lambda info: None, lambda specs: under_fire(run, clock.settings() if clock else {}, specs))


if __name__ == "__main__":
    main()
