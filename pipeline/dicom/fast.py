"""The opt-in fast path: the network thread polls more often.

It uses a private name of one exact version of the library, and does nothing on another. What a peer sees is byte for byte the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pynetdicom

from pipeline import log

if TYPE_CHECKING:
    from pynetdicom.association import Association

logger = log.get(__name__)
PINNED = "3.0.4"
POLL_S = 0.0002


def available() -> bool:
    """True when the library is the version whose private names are known."""
    if pynetdicom.__version__ == PINNED:
        return True
    logger.warning("fast_path_off", pynetdicom=pynetdicom.__version__, pinned=PINNED)
    return False


def tune(assoc: Association) -> None:
    """Shorten the sleep of the network thread, which is 1 ms for every PDU that has not arrived yet."""
    assoc.dul._run_loop_delay = POLL_S
