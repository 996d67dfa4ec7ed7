"""What a DIMSE handler answers: a status with a comment, and where an unexpected error was."""

from __future__ import annotations

import traceback
from pathlib import Path

from pydicom.dataset import Dataset

LONGEST_COMMENT = 64  # LO, PS3.7 Table E.1-1


def response(status: int, comment: str, error_id: int | None = None) -> Dataset:
    """A status with an Error Comment; the comment holds no patient data and no UID."""
    ds = Dataset()
    ds.Status = status
    ds.ErrorComment = comment[:LONGEST_COMMENT]
    if error_id is not None:
        ds.ErrorID = error_id
    return ds


def failed_at(error: BaseException) -> dict[str, str | int]:
    """File and line of an unexpected error, for the log; never its message."""
    frames = traceback.extract_tb(error.__traceback__)
    return {"file": Path(frames[-1].filename).name, "line": frames[-1].lineno or 0} if frames else {}
