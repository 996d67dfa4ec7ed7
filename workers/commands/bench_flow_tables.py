"""The part of `ctreport bench flow` about large tables: filled, asked, and weighed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from pipeline.store.session import PgStore
from workers import wiring
from workers.embedded.postgres import Postgres

ROUNDS = 30
# while it is filled nothing needs to survive a power cut; questions are answered as by the embedded PostgreSQL of `ctreport up`
FILLING = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "max_wal_size": "8GB"}
Told = Callable[[float, str], None]


def tables(folder: Path, studies: int, budget_s: float, told: Told) -> dict[str, Any]:
    """Rows of what is asked and of what is stored, with a note of how much was filled."""
    from pipeline.evaluation.scale_fill import IMAGES, fill
    from pipeline.evaluation.scale_queries import asked, measured
    from pipeline.evaluation.scale_size import sizes

    server = Postgres(folder / "tables", settings=FILLING)
    server.start()
    store = PgStore(server.url)
    try:
        wiring.migrate(server.url)
        filled = fill(server.url, studies, budget_s, lambda done, words: told(0.8 * done, words))
        told(0.85, "asking")
        rows = [measured(store, one, ROUNDS) for one in asked(store)]
        stored = sizes(server.url)
    finally:
        store.dispose()
        server.stop()
    note = (
        f"Tables: {filled.studies:,} studies (of {studies:,} asked for) in {filled.studies_s:.0f} s and {filled.instances:,} images in "
        f"{filled.instances_s:.0f} s with their indexes, {IMAGES} images to each of the newest studies; sizes at 500 million images are extrapolated "
        "from bytes a row and entries a page, not measured."
    )
    return {"rows": [*rows, *stored], "notes": [note]}
