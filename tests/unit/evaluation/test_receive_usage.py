import os
import subprocess
import sys
import time

import pytest

from pipeline.evaluation.receive_usage import PeakMemory, cpu_s, kilobytes, parent, ticks, tree

# A name may hold blanks and brackets (proc(5)).
STAT = "4242 (a) b (c)) S 17 4242 4242 0 -1 4194304 90 80 0 0 11 7 5 3 20 0 2 0 100 200 300"


def test_ticks_are_own_and_awaited_childrens() -> None:
    assert ticks(STAT) == 11 + 7 + 5 + 3


def test_the_parent_is_found_behind_an_odd_name() -> None:
    assert parent(STAT) == 17


@pytest.mark.parametrize(("text", "kb"), [("Name:\tx\nVmHWM:\t  1234 kB\n", 1234), ("Name:\tzombie\n", 0), ("", 0)])
def test_a_figure_of_status_or_zero(text: str, kb: int) -> None:
    assert kilobytes(text, "VmHWM") == kb


@pytest.fixture
def family() -> subprocess.Popen[bytes]:
    """A shell whose child holds 50 MB, uses CPU, and says so by ending the line."""
    hold = "import time; block = bytearray(50_000_000); sum(range(3_000_000)); print('ready', flush=True); time.sleep(60)"
    # a second command keeps the shell from becoming its child
    return subprocess.Popen(["/bin/sh", "-c", f'"{sys.executable}" -c "{hold}"; true'], stdout=subprocess.PIPE, start_new_session=True)


def test_a_tree_counts_what_its_descendants_use(family: subprocess.Popen[bytes]) -> None:
    try:
        assert family.stdout is not None
        with PeakMemory(family.pid) as memory:
            assert family.stdout.readline() == b"ready\n"
        found = tree(family.pid)
        assert found[0] == family.pid
        assert len(found) == 2
        assert cpu_s(family.pid) > 0
        assert memory.mb > 50
        assert 50 < memory.pss_mb <= memory.mb
    finally:
        os.killpg(family.pid, 9)
        family.wait()
        assert family.stdout is not None
        family.stdout.close()


def test_a_process_that_is_gone_has_used_nothing() -> None:
    ended = subprocess.Popen(["/bin/true"])
    ended.wait()
    assert tree(ended.pid) == []
    assert cpu_s(ended.pid) == 0
    begun = time.monotonic()
    with PeakMemory(ended.pid) as memory:
        pass
    assert memory.mb == 0
    assert time.monotonic() - begun < 5
