"""Preamble, prefix and group 2 of a file (PS3.10 7.1), built by hand: the same request always gives the same bytes.

The archive names files by the hash of all their bytes, so nothing here may change between releases or senders.
"""

from __future__ import annotations

import struct

IMPLEMENTATION_CLASS_UID = "2.25.198457263507166213927330471203446275391"
IMPLEMENTATION_VERSION_NAME = "CTREPORT_1"


def file_meta(sop_class: str, sop_uid: str, transfer_syntax: str) -> bytes:
    """132 bytes of preamble and prefix, then group 2 in explicit VR little endian."""
    elements = b"".join(
        (
            _element(0x0001, b"OB", b"\x00\x01"),
            _element(0x0002, b"UI", _uid(sop_class)),
            _element(0x0003, b"UI", _uid(sop_uid)),
            _element(0x0010, b"UI", _uid(transfer_syntax)),
            _element(0x0012, b"UI", _uid(IMPLEMENTATION_CLASS_UID)),
            _element(0x0013, b"SH", IMPLEMENTATION_VERSION_NAME.encode("ascii")),
        )
    )
    return bytes(128) + b"DICM" + _element(0x0000, b"UL", struct.pack("<L", len(elements))) + elements


def _element(number: int, vr: bytes, value: bytes) -> bytes:
    if vr == b"OB":
        return struct.pack("<HH2sHL", 0x0002, number, vr, 0, len(value)) + value
    return struct.pack("<HH2sH", 0x0002, number, vr, len(value)) + value


def _uid(uid: str) -> bytes:
    value = uid.encode("ascii", "replace")
    return value + b"\x00" * (len(value) % 2)
