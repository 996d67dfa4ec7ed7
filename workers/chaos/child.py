"""Entry of a process under fire: `python -m workers.chaos.child RUN_FOLDER ARGUMENT…` is `ctreport ARGUMENT…` with what the trial has laid down.

`settings.json` in the run folder is read when the process starts, so that one that is killed comes back with other settings.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from workers.chaos.clock import lives_by_a_false_clock, mend_sleep

SETTINGS = "settings.json"
ENCODER = "encoder"  # not a setting of the product: fake puts the shipped fake in the encoder's place
DISK = "disk"  # nor is this: flagged makes the archive look at the trial's flag


def lay_down(run: Path, settings: Mapping[str, str]) -> None:
    """What processes of this trial find when they start from now on."""
    new = run / f"{SETTINGS}.new"
    new.write_text(json.dumps(dict(settings)), encoding="utf-8")
    new.replace(run / SETTINGS)


def take_up(run: Path) -> None:
    """Make this process what the trial wants it to be, before anything reads a setting."""
    laid = json.loads((run / SETTINGS).read_text(encoding="utf-8"))
    encoder, disk = laid.pop(ENCODER, ""), laid.pop(DISK, "")
    os.environ.update(laid)
    if lives_by_a_false_clock():
        mend_sleep()
    if encoder == "fake":
        from pipeline.encoder import fake, series

        series.SeriesEncoder = fake.FakeEncoder  # type: ignore[assignment, misc]  # what wiring makes its encoder with
    if disk == "flagged":
        from pipeline.dicom import archive
        from workers.chaos.disk import FLAG, FullArchive

        FullArchive.flag = run / FLAG
        archive.FileArchive = FullArchive  # type: ignore[misc]  # what wiring makes its archive with


def main() -> None:
    """Become the command."""
    take_up(Path(sys.argv[1]))
    sys.argv = [sys.argv[0], *sys.argv[2:]]
    from workers.cli import main as command

    command()


if __name__ == "__main__":
    main()
