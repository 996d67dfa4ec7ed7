"""The proof by fire: 200 studies under every fault, one seed a test (`make fire SEEDS=…`). What holds is in `workers/chaos/proof.py`."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from workers.chaos.clock import find_library
from workers.chaos.plan import EVERYTHING, Fault
from workers.stack import CTREPORT

SEEDS = int(os.environ.get("CTREPORT_FIRE_SEEDS") or 20)
LONGEST_S = 900.0
CHECKS = {"sent", "rest", "images", "drafts", "doubles", "leases", "overdue", "verify"}


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all seeds: they send the same studies."""
    return tmp_path_factory.mktemp("fire")


def burnt(work: Path, seed: int, *options: str) -> Any:
    """The report of one seed; what a person sees is printed."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("CTREPORT_")}
    command = [*CTREPORT, "chaos", "fire", "--seeds", "1", "--first", str(seed), "--work", str(work), "--json", str(work / "report.json"), *options]
    ran = subprocess.run(command, capture_output=True, text=True, env=env, timeout=LONGEST_S, check=False)
    print(ran.stderr)
    assert ran.returncode in (0, 1), ran.stderr
    (trial,) = json.loads((work / "report.json").read_text())["trials"]
    return trial


@pytest.mark.fire
@pytest.mark.timeout(LONGEST_S + 60)
@pytest.mark.parametrize("seed", range(1, SEEDS + 1))
def test_nothing_is_lost_stuck_or_doubled_whatever_fails(work: Path, seed: int) -> None:
    trial = burnt(work, seed)
    assert trial["broken"].keys() == CHECKS
    assert not any(trial["broken"].values()), f"{trial['broken']}; the logs are in {work / f'seed-{seed}' / 'logs'}"
    assert trial["clean"] is True
    assert trial["studies"] == sum(trial["outcomes"].values()) == 200
    made = {one["fault"] for one in trial["struck"] if not one["missed"]}
    assert made == EVERYTHING - (set() if find_library() else {Fault.CLOCK_JUMPS}), trial["struck"]
    assert trial["outcomes"].get("drafted by embedded", 0) + trial["outcomes"].get("drafted by sglang", 0) >= 190, trial["outcomes"]
