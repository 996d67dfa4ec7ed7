"""`ctreport chaos` on a test stack: nothing without the marker; with it, faults are made and the proof is held."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.journeys.conftest import running
from workers.chaos.plan import DRAFTER, EVERYTHING, Fault

BEYOND = {*DRAFTER, Fault.DISK_FULL, Fault.CLOCK_JUMPS}  # of a stack that was started by somebody else


def test_a_stack_without_the_marker_is_left_alone_and_gets_no_study(tmp_path: Path) -> None:
    with running(tmp_path / "stack") as stack:
        before = {part.name: (part.pid, part.restarts) for part in stack.info.parts}
        stack.ctreport("chaos", "run", "--studies", "1", "--seconds", "1", expect=1)
        assert {part.name: (part.pid, part.restarts) for part in stack.info.parts} == before
        assert stack.query("SELECT count(*) FROM studies") == [(0,)]


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_marked_stack_is_struck_and_everything_holds(tmp_path: Path) -> None:
    with running(tmp_path / "stack", CTREPORT_WORK_MAX_ATTEMPTS="20") as stack:
        assert stack.ctreport("chaos", "mark").startswith("marked")
        told = stack.json("chaos", "run", "--seed", "4", "--studies", "8", "--seconds", "40")
        assert told["clean"] is True, told["broken"]
        assert set(told["left_out"]) == BEYOND
        assert {one["fault"] for one in told["struck"] if not one["missed"]} == EVERYTHING - BEYOND
        assert sum(told["outcomes"].values()) == told["studies"] == 8
        assert stack.ctreport("chaos", "mark", "--remove").startswith("the marker is gone")
        stack.ctreport("chaos", "run", "--studies", "1", "--seconds", "1", expect=1)
