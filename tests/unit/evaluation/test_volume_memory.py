"""Peak memory above a block's start, of this process and of one that it starts."""

from __future__ import annotations

import subprocess
import sys

from pipeline.evaluation.volume_memory import Above

SIZE = 60_000_000
CHILD = f"import time; held = b'1' * {SIZE}; time.sleep(0.3)"


def test_what_this_process_takes_and_gives_back_is_seen() -> None:
    """In a process of its own: this one may hold freed memory that it would use again."""
    own = f"""
import numpy
from pipeline.evaluation.volume_memory import Above
with Above() as memory:
    numpy.ones({SIZE}, dtype=numpy.uint8)
print(memory.mb)
"""
    told = subprocess.run([sys.executable, "-c", own], check=True, capture_output=True, text=True).stdout
    assert 0.9 * SIZE / 1e6 < float(told) < 2 * SIZE / 1e6


def test_what_a_child_takes_is_seen() -> None:
    with Above() as memory:
        subprocess.run([sys.executable, "-S", "-c", CHILD], check=True)
    assert memory.mb > 0.9 * SIZE / 1e6


def test_doing_nothing_takes_next_to_nothing() -> None:
    with Above() as memory:
        pass
    assert memory.mb < 5
