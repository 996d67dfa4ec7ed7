"""One pass over the elements of a data set's head: what is wanted is kept as bytes, everything else is stepped over.

This is the hottest code of the listener, so it is no more than a walk (PS3.5 7.1, 7.5): pydicom's reader, which makes objects of everything, takes
several times as long and, on bytes made for it, seconds. The tests hold the two against each other. At most HEADER_BYTES are looked at.
"""

from __future__ import annotations

import struct
from collections.abc import Set
from dataclasses import dataclass, field
from struct import Struct

HEADER_BYTES = 8 << 20
ELEMENTS = 20_000
UNDEFINED_LENGTH = 0xFFFF_FFFF
ITEM_GROUP = 0xFFFE
ITEM_END = 0xFFFE_E00D
DELIMITERS = frozenset({0xE00D, 0xE0DD})  # of an item, of a sequence
PIXELS = frozenset({0x7FE0_0008, 0x7FE0_0009, 0x7FE0_0010})
LAST = 0x7FE0_0001  # nothing that filing needs stands after it (a retired group length may stand before)
FRAMES = frozenset({0x5200_9229, 0x5200_9230})  # functional groups: long to walk, and not needed
LONG_VRS = frozenset({b"OB", b"OD", b"OF", b"OL", b"OV", b"OW", b"SQ", b"SV", b"UC", b"UN", b"UR", b"UT", b"UV"})  # PS3.5 7.1.2
SHORT_VRS = frozenset(
    (
        b"AE",
        b"AS",
        b"AT",
        b"CS",
        b"DA",
        b"DS",
        b"DT",
        b"FD",
        b"FL",
        b"IS",
        b"LO",
        b"LT",
        b"PN",
        b"SH",
        b"SL",
        b"SS",
        b"ST",
        b"TM",
        b"UI",
        b"UL",
        b"US",
    )
)


@dataclass
class Walked:
    """What one pass found. `pixels` is the first byte of the pixels' value and its declared length."""

    found: dict[int, bytes] = field(default_factory=dict)
    flags: set[str] = field(default_factory=set)
    pixels: tuple[int, int] | None = None


def walk(data: bytes, implicit: bool, little_endian: bool, wanted: Set[int], total: int | None) -> Walked:
    """Keep the values of `wanted` tags. `total` is the length of the whole data set, None where it is not known.

    A fault ends the walk and is flagged: what was found stays.
    """
    walked = Walked()
    try:
        at = _walk(walked, data, implicit, little_endian, wanted, total)
    except (struct.error, EOFError):
        walked.flags.add("header-damaged")
        return walked
    if at is not None and at >= HEADER_BYTES and (total is None or at < total):
        walked.flags.add("header-long")
    return walked


def _walk(walked: Walked, data: bytes, implicit: bool, little_endian: bool, wanted: Set[int], total: int | None) -> int | None:
    """Returns where the bytes ended, or None when it stopped before (one loop, for calls cost more than the work)."""
    order = "<" if little_endian else ">"
    short, plain, long = Struct(f"{order}HH2sH").unpack_from, Struct(f"{order}HHL").unpack_from, Struct(f"{order}L").unpack_from
    found, flags = walked.found, walked.flags
    end, at, last = min(len(data), HEADER_BYTES), 0, -1
    for _ in range(ELEMENTS):
        if end - at < 8:
            return at
        start, at, vr = at, at + 8, b""
        if implicit:
            group, element, length = plain(data, start)
        else:
            group, element, vr, length = short(data, start)
            if vr in LONG_VRS:
                length, at = long(data, at)[0], at + 4
            elif vr not in SHORT_VRS and not b"AA" <= vr <= b"ZZ":  # a device that writes implicit VR in the middle
                group, element, length = plain(data, start)
                if group != ITEM_GROUP:
                    flags.add("encoding-differs")
        tag = group << 16 | element
        if tag == ITEM_END:
            return None
        if tag <= last:
            flags.add("tag-order")
        last = tag
        if total is not None and length != UNDEFINED_LENGTH and at + length > total:
            flags.add("data-set-truncated")
        if tag >= LAST or tag in FRAMES:
            walked.pixels = (at, length) if tag in PIXELS else None
            return None
        if length == UNDEFINED_LENGTH:
            stop = _delimiter(data, at, end, implicit, little_endian)
            follows = stop + 8
        else:
            follows = stop = at + length
        if tag in wanted:
            found.setdefault(tag, data[at : min(stop, end)])
        at = follows
    flags.add("too-many-elements")
    return None


def _delimiter(data: bytes, at: int, end: int, implicit: bool, little_endian: bool) -> int:
    """Where the delimiter of the value that begins at `at` stands (PS3.5 7.5). Raises EOFError when there is none.

    Nested values are a stack: each says whether its elements have implicit VR, None until its first element shows it (PS3.5 6.2.2, note 3).
    """
    order = "<" if little_endian else ">"
    short, plain, long = Struct(f"{order}HH2sH").unpack_from, Struct(f"{order}HHL").unpack_from, Struct(f"{order}L").unpack_from
    nested: list[bool | None] = [implicit]
    hidden: bool | None
    while end - at >= 8:
        start, at = at, at + 8
        group, element, length = plain(data, start)
        if group == ITEM_GROUP:
            if element in DELIMITERS:
                nested.pop()
                if not nested:
                    return start
                continue
            hidden = True if nested[-1] else None
        else:
            hidden = nested[-1]
            vr = data[start + 4 : start + 6]
            if hidden is None:
                hidden = nested[-1] = not (vr.isalpha() and vr.isupper())
            if not hidden and b"AA" <= vr <= b"ZZ":
                length = short(data, start)[3]
                if vr in LONG_VRS:
                    length, at = long(data, at)[0], at + 4
        if length == UNDEFINED_LENGTH:
            nested.append(hidden)
        else:
            at += length
    raise EOFError
