"""Two whole stacks on one machine, on free ports: what one is sent the other never sees."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tests.journeys.conftest import RunningStack, eventually, running

DEADLINE_S = 300.0  # two of everything share the processors


@pytest.mark.timeout(600)
def test_two_stacks_work_side_by_side_and_know_nothing_of_each_other(tmp_path: Path) -> None:
    with running(tmp_path / "a") as one, running(tmp_path / "b") as other:
        assert not set(one.info.ports.values()) & set(other.info.ports.values())
        assert {one.info.database_url, one.info.redis_url}.isdisjoint({other.info.database_url, other.info.redis_url})
        for number, stack in enumerate((one, other)):
            stack.ctreport("phantom", str(stack.data / "phantom"), "--count", "1", "--seed", str(number))
            assert stack.json("send", str(stack.data / "phantom"))["failed"] == []
        found = [eventually(partial(_drafted, stack), DEADLINE_S) for stack in (one, other)]
        assert found[0] != found[1]
        for stack in (one, other):
            assert stack.query("SELECT count(*) FROM studies") == [(1,)]
            assert stack.json("verify")["clean"]


def _drafted(stack: RunningStack) -> str | None:
    """UID of the stack's drafted study, once there is one."""
    rows = stack.query("SELECT s.study_uid FROM studies s JOIN jobs j ON j.study_id = s.id WHERE j.state = 'drafted'")
    return str(rows[0][0]) if rows else None
