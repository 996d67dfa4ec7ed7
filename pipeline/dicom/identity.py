"""Names and free text as a person should read them, from the raw bytes of the header and the character set that it claims.

The usual Chinese faults come out right: GB18030, GBK under ISO_IR 100 or no label, ISO 2022 IR 58 with its escapes, UTF-8 under a
wrong label. Pure: bytes in, text out, never an exception.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from pydicom.charset import convert_encodings, decode_bytes

ESC = b"\x1b"
GB_DESIGNATION = b"\x1b$)A"  # ISO 2022 IR 58: GB 2312 into G1 (PS3.3 Table C.12-4)
ASCII_DESIGNATION = b"\x1b(B"
NAME_DELIMITERS = frozenset(b"^=\\")  # each resets the code elements in a person name (PS3.5 6.1.2.5.3)
TEXT_DELIMITERS = frozenset(b"\\\r\n\t\f")
# Labels that a device with a Chinese text and no idea of character sets writes.
WESTERN = frozenset({"", "ISO_IR 6", "ISO_IR 100", "ISO 2022 IR 6", "ISO 2022 IR 100"})
GB_LABELS = frozenset({"GB18030", "GBK", "ISO 2022 GBK", "ISO 2022 58", "ISO 2022 IR 58"})
EVERY_EXTENSION = ("", "ISO 2022 IR 87", "ISO 2022 IR 149", "ISO 2022 IR 159", "ISO 2022 IR 58")
# Misspelt labels that have one meaning.
SPELLINGS = {"UTF8": "ISO_IR 192", "GB2312": "GB18030", "GB": "GB18030", "ISOIR192": "ISO_IR 192", "ISOIR58": "ISO 2022 IR 58"}
COMMON_SHARE = 0.5  # of the Chinese characters of a GBK guess, at least this share must be in GB 2312
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]+")
_HAN = re.compile(r"[\u3400-\u9fff\uf900-\ufaff]")
_HAN_IN_WORD = re.compile(r"[A-Za-z][\u3400-\u9fff]|[\u3400-\u9fff][A-Za-z]")
_CHINESE = re.compile(r"[\x20-\x7e\u00b7\u3000-\u303f\u3400-\u9fff\uf900-\ufaff\uff00-\uffef]+")


class Repaired(NamedTuple):
    """Readable text; `repaired` when its label was wrong; `guess` when the true character set had to be guessed."""

    text: str
    repaired: bool
    guess: bool


def repair(raw: bytes, charset: str | Sequence[str], name: bool = True) -> Repaired:
    """Decode one value. `charset` is SpecificCharacterSet as found; `name` is False for free text. Never raises."""
    labels, misspelt = _labels(charset)
    raw = raw.rstrip(b" \x00")
    if ESC in raw:
        found = _escaped(raw, labels, NAME_DELIMITERS if name else TEXT_DELIMITERS)
    elif raw.isascii():
        found, misspelt = Repaired(raw.decode("ascii"), False, False), False
    else:
        found = _plain(raw, labels[0])
    text = _CONTROL.sub(" ", found.text).strip()
    return Repaired(text.rstrip("=^ ") if name else text, found.repaired or misspelt, found.guess)


def _labels(charset: str | Sequence[str]) -> tuple[tuple[str, ...], bool]:
    """The labels in DICOM's spelling, and whether any was misspelt."""
    given = charset.split("\\") if isinstance(charset, str) else list(charset)
    found = tuple(label.strip(" \x00") for label in given) or ("",)
    right = tuple(SPELLINGS.get(re.sub("[^A-Z0-9]", "", label.upper()), label) for label in found)
    return right, right != found


def _escaped(raw: bytes, labels: Sequence[str], delimiters: frozenset[int]) -> Repaired:
    """Text that switches character sets by escape sequences."""
    without = raw.replace(GB_DESIGNATION, b"").replace(ASCII_DESIGNATION, b"")
    if ESC not in without and GB_DESIGNATION in raw:  # pydicom leaves these escapes in the text
        text = _decode(without, "gb18030")
        return Repaired(text or without.decode("gb18030", "replace"), "ISO 2022 IR 58" not in labels, text is None)
    for tried, wrong in ((labels, False), (EVERY_EXTENSION, True)):
        text = _by_label(raw, tried, delimiters)
        if text is not None:
            return Repaired(text, wrong, False)
    return Repaired(raw.decode("latin-1"), False, True)


def _plain(raw: bytes, label: str) -> Repaired:
    """Text without escapes: the first reading that its bytes allow. A reading that contradicts the label is a guess."""
    utf8 = _decode(raw, "utf-8")
    if label == "ISO_IR 192":
        readings = [(utf8, False), (_decode(raw, "gb18030"), True)]
    elif utf8 is not None and _is_utf8(raw, utf8):
        readings = [(utf8, True)]
    elif label in GB_LABELS:
        readings = [(_decode(raw, "gb18030"), False), (utf8, True)]
    elif label in WESTERN:
        readings = [(_chinese(raw), True), (_by_label(raw, (label,)), False)]
    else:
        readings = [(_by_label(raw, (label,)), False), (_chinese(raw), True)]
    for text, wrong in readings:
        if text is not None:
            return Repaired(text, wrong, wrong)
    return Repaired(raw.decode("latin-1"), False, True)


def _is_utf8(raw: bytes, utf8: str) -> bool:
    """True when bytes that are valid UTF-8 are meant as UTF-8: with Chinese in it, or where GB would put Chinese inside a word."""
    if _HAN.search(utf8):
        return True
    gb = _chinese(raw)
    return gb is None or _HAN_IN_WORD.search(gb) is not None


def _chinese(raw: bytes) -> str | None:
    """The bytes as GB18030 where that gives plausible Chinese: only Chinese and ASCII, mostly common characters."""
    text = _decode(raw, "gb18030")
    if text is None or not _CHINESE.fullmatch(text):
        return None
    han = _HAN.findall(text)
    common = sum(1 for character in han if _encodes(character, "gb2312"))
    return text if han and common >= COMMON_SHARE * len(han) else None


def _by_label(raw: bytes, labels: Sequence[str], delimiters: frozenset[int] = frozenset()) -> str | None:
    """What pydicom makes of it, or None when it had to replace anything (it then warns, or raises where warnings are errors)."""
    try:
        text = decode_bytes(raw, convert_encodings(list(labels)), set(delimiters))
    except (UserWarning, UnicodeError, LookupError, ValueError):
        return None
    return None if "\x1b" in text or "\ufffd" in text else text


def _decode(raw: bytes, codec: str) -> str | None:
    try:
        return raw.decode(codec)
    except UnicodeDecodeError:
        return None


def _encodes(character: str, codec: str) -> bool:
    try:
        character.encode(codec)
    except UnicodeEncodeError:
        return False
    return True
