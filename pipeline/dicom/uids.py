"""What a UID in a data set or a request is good for, and what is done where it is good for nothing.

Nothing is merged by accident and nothing is dropped. Blanks and NULs at the ends are padding.

| value                                                                                     | verdict    |
|-------------------------------------------------------------------------------------------|------------|
| components of digits, two or more, no leading zeros, up to 64 characters (PS3.5 9.1)      | fine       |
| leading zeros, letters, an empty component, an anonymiser's long hash without a dot       | malformed  |
| absent, empty, only padding                                                               | missing    |
| over 64 characters (a sender that cuts it elsewhere makes two of one), several values,    | unreadable |
| characters that no UID has, a placeholder (short and without a dot, or only zeros: `0`,   |            |
| `UNKNOWN`, `0.0`)                                                                         |            |

A malformed UID still tells objects apart: it is used as it stands and flagged. Of the others:

| what                                             | missing or unreadable                                                                |
|--------------------------------------------------|--------------------------------------------------------------------------------------|
| StudyInstanceUID, SeriesInstanceUID              | quarantined, 0xC000: two studies without a UID are never one, and none is invented   |
| SOPInstanceUID of the data set only              | the request's counts; flagged                                                        |
| SOPInstanceUID of the request only               | the data set's counts; flagged                                                       |
| SOPInstanceUID of both                           | quarantined, 0xC000, under the hash of its bytes: two images stay two                |
| SOPInstanceUID, both fine, but different         | the data set's counts, so two images sent under one request UID stay two; flagged    |
| SOPClassUID of the data set                      | the request's counts; flagged (another usable one is a mismatch, 0xA900)             |

Other bytes under a known SOPInstanceUID are kept beside the first and flagged (`store/receiving.py`). Flagged means 0xB007.
"""

from __future__ import annotations

import re
from enum import StrEnum

LONGEST = 64
SHORTEST_HASH = 16  # characters; nobody types so long a placeholder
_PROPER = re.compile(r"(0|[1-9]\d*)(\.(0|[1-9]\d*))+")
_TELLING = re.compile(r"(?=.*[^0.])[!-\[\]-~]+")  # printable ASCII without a backslash, and not of zeros and dots only


class Verdict(StrEnum):
    """What a UID is worth."""

    FINE = "fine"
    MALFORMED = "malformed"
    MISSING = "missing"
    UNREADABLE = "unreadable"

    @property
    def usable(self) -> bool:
        """True when the value tells one object from another."""
        return self in (Verdict.FINE, Verdict.MALFORMED)


def judged(value: str) -> tuple[str, Verdict]:
    """The UID without its padding, empty where it is not usable, and the verdict."""
    uid = value.strip(" \x00")
    if not uid:
        return "", Verdict.MISSING
    if len(uid) <= LONGEST and _PROPER.fullmatch(uid) and _TELLING.fullmatch(uid):
        return uid, Verdict.FINE
    if len(uid) > LONGEST or ("." not in uid and len(uid) < SHORTEST_HASH) or not _TELLING.fullmatch(uid):
        return "", Verdict.UNREADABLE
    return uid, Verdict.MALFORMED
