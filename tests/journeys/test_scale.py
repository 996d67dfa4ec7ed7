"""Many studies one after the other through a whole stack, encoder and drafter being fakes: no process grows, and
connections are bounded. A tenth runs by default, 1,000 with `-m long`."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.evaluation.flow_rows import Sample, growth_kb
from workers.commands.bench_flow_run import many

IMAGES = 10
MOST_KB = 10 * 1024  # that a process family may have grown when the run is over, by the line through its second half
MOST_TO_DATABASE, MOST_TO_BROKER = 40, 60
WARM = 1_000  # studies after which PostgreSQL's connections hold every catalogue row and plan that they will; until then they grow
FULL = [pytest.mark.long, pytest.mark.timeout(5_400)]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("studies", [100, pytest.param(WARM, marks=FULL)])
def test_memory_of_each_process_is_flat_and_connections_are_bounded(tmp_path: Path, studies: int) -> None:
    tmp_path.chmod(0o711)  # PostgreSQL may have to run as nobody
    block, samples = many(tmp_path, studies, IMAGES, lambda done, words: None)
    assert (block.studies, block.encoded) == (studies, 0)
    assert samples[-1].studies == studies
    assert {"listener", "worker-io", "worker-encode", "worker-draft", "beat", "web", "postgres", "valkey"} <= samples[-1].memory_kb.keys()
    counted = samples[-1].memory_kb.keys() - (set() if studies >= WARM else {"postgres"})
    growth = {name: round(growth_kb(samples, name) * studies) for name in counted}
    assert {name: kb for name, kb in growth.items() if kb > MOST_KB} == {}, growth
    assert most(samples, "PostgreSQL") <= MOST_TO_DATABASE
    assert most(samples, "Valkey") <= MOST_TO_BROKER
    half = len(samples) // 2
    for service in ("PostgreSQL", "Valkey"):
        assert most(samples[half:], service) <= most(samples[:half], service) + 2


def most(samples: list[Sample], service: str) -> int:
    return max(one.connections[service] for one in samples)
