"""What rows take on disk, and what they would take at 500 million images: measured bytes a row, extrapolated rows."""

from __future__ import annotations

import math
from typing import Any

import psycopg

AT = 500_000_000  # images
LARGEST = 12  # tables that are told of
SIZES = """SELECT c.relname, c.reltuples::bigint, pg_table_size(c.oid), pg_indexes_size(c.oid),
 (SELECT max(i.relpages) FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid WHERE x.indrelid = c.oid)
 FROM pg_class c WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace AND c.reltuples > 0
 ORDER BY c.relname <> 'instances', pg_total_relation_size(c.oid) DESC LIMIT %s"""


def sizes(url: str) -> list[dict[str, Any]]:
    """A row per table, images first, then the largest: rows, bytes each with indexes, levels of the largest index; of images also at 500 million."""
    with psycopg.connect(url) as connection:
        return [_row(*found) for found in connection.execute(SIZES, (LARGEST,)).fetchall()]


def _row(table: str, rows: int, table_bytes: int, index_bytes: int, pages: int | None) -> dict[str, Any]:
    entries = rows / pages if pages else 0.0
    each = (table_bytes + index_bytes) / rows
    found: dict[str, Any] = {
        "part": "tables",
        "what": table,
        "rows": rows,
        "bytes_per_row": round(each),
        "index_bytes_per_row": round(index_bytes / rows),
    }
    found["index_levels"] = levels(rows, entries)
    if table == "instances":
        found |= {"gb_at_500m": round(AT * each / 1e9), "levels_at_500m": levels(AT, entries)}
    return found


def levels(rows: float, entries: float) -> int | None:
    """Pages that a look-up in a B-tree reads on its way: leaves of so many entries, and as many children of each inner page."""
    if entries < 2:
        return None
    return 1 + max(0, math.ceil(math.log(max(rows, 1.0) / entries, entries)))
