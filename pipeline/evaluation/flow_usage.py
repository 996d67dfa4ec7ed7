"""What a running stack uses: CPU time and private memory of each of its processes with their children, and open connections."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import psycopg
import redis

from pipeline.evaluation.flow_rows import Sample
from pipeline.evaluation.receive_usage import PROC, cpu_s, kilobytes, tree

LAUNCHER = "launcher"
OURS = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'ctreport' AND datname = current_database()"


def cpu_of(launcher: int, parts: Mapping[str, int]) -> dict[str, float]:
    """CPU seconds so far, by process family; the launcher's are its own."""
    found = {name: cpu_s(pid) for name, pid in parts.items()}
    return found | {LAUNCHER: max(0.0, cpu_s(launcher) - sum(found.values()))}


def between(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """What was used meanwhile."""
    return {name: after[name] - before.get(name, 0.0) for name in after}


def without_idle(used: Mapping[str, float], idle_per_s: Mapping[str, float], wall_s: float) -> dict[str, float]:
    """Without what the stack takes while nothing arrives: that is the price of an hour, not of a study. Not cut off at
    nothing: what one process seems to win by chance, another has lost."""
    return {name: seconds - idle_per_s.get(name, 0.0) * wall_s for name, seconds in used.items()}


def memory_of(parts: Mapping[str, int]) -> dict[str, int]:
    """Private memory in KiB by process family: what they share with files or each other is left out."""
    return {name: sum(kilobytes(_status(pid), "RssAnon") for pid in tree(pid)) for name, pid in parts.items()}


def sample(studies: int, parts: Mapping[str, int], database_url: str, redis_url: str) -> Sample:
    """This moment. The two connections that it takes itself are not counted."""
    with psycopg.connect(database_url, application_name="bench", autocommit=True) as connection:
        (to_database,) = connection.execute(OURS).fetchone() or (0,)
    with redis.Redis.from_url(redis_url) as client:
        to_broker = len(cast("list[object]", client.client_list())) - 1
    return Sample(studies, memory_of(parts), {"PostgreSQL": to_database, "Valkey": to_broker})


def _status(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(PROC, str(pid), "status").read_text(encoding="utf-8", errors="replace")
    return ""
