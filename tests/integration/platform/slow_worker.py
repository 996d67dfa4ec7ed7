"""The real encode worker with an encoder that waits for a word, run as its own process: `python -m tests.integration.platform.slow_worker WORD`.
It waits for the file WORD, and refuses every study then. WORD.heard is there once a bell was heard and what it called for is done."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

from celery import signals

from pipeline.errors import BadInput, Permanent
from pipeline.model import Features
from workers import wiring, wiring_drafts
from workers.adapters import LazyEncoder
from workers.commands import processes

LOOK_S = 0.02


class WaitingEncoder(LazyEncoder):
    """Stands for a large volume on a slow machine."""

    word = Path(sys.argv[-1])
    identity = "waiting/1/none"
    batch = 1

    def encode_many(self, studies: Sequence[Sequence[Path]]) -> Sequence[Features | Permanent]:
        while not self.word.exists():
            time.sleep(LOOK_S)
        return [BadInput("the word came") for _ in studies]


def main() -> None:
    wiring.lazy_encoder = lambda: WaitingEncoder(wiring.image_encoder)
    wiring_drafts.warm = lambda kind: None
    signals.task_postrun.connect(lambda **_: WaitingEncoder.word.with_suffix(".heard").touch(), weak=False)
    processes.worker_encode()


if __name__ == "__main__":
    main()
