"""Text with code extensions (ISO 2022, PS3.5 6.1.2.5): which character set each stretch of bytes is in.

pydicom reads these too, but leaves the escapes of ISO 2022 IR 58 in some names and gives up where a sender forgets one; here the set goes on
behind a delimiter when the first label has no characters of its own for such bytes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from pydicom.charset import python_encoding

ESC = b"\x1b"
# Escape sequence: the Python codec of what it designates, and its defined term (PS3.3 Tables C.12-3 and C.12-4).
ONE_BYTE_G0 = {b"\x1b(B": ("ascii", "ISO_IR 6"), b"\x1b(J": ("shift_jis", "ISO 2022 IR 13")}
TWO_BYTES_G0 = {  # Python's codecs want to see these escapes
    b"\x1b$B": ("iso2022_jp_2", "ISO 2022 IR 87"),
    b"\x1b$@": ("iso2022_jp_2", "ISO 2022 IR 87"),
    b"\x1b$(D": ("iso2022_jp_2", "ISO 2022 IR 159"),
    b"\x1b$A": ("iso2022_jp_2", "ISO 2022 IR 58"),
}
G1 = {
    b"\x1b$)A": ("gb18030", "ISO 2022 IR 58"),
    b"\x1b$)C": ("euc_kr", "ISO 2022 IR 149"),
    b"\x1b)I": ("shift_jis", "ISO 2022 IR 13"),
    **{
        b"\x1b-" + final: (python_encoding[label], label)
        for final, label in (
            *((b"A", "ISO 2022 IR 100"), (b"B", "ISO 2022 IR 101"), (b"C", "ISO 2022 IR 109"), (b"D", "ISO 2022 IR 110")),
            *((b"F", "ISO 2022 IR 126"), (b"G", "ISO 2022 IR 127"), (b"H", "ISO 2022 IR 138"), (b"L", "ISO 2022 IR 144")),
            *((b"M", "ISO 2022 IR 148"), (b"T", "ISO 2022 IR 166")),
        )
    },
}
KNOWN = {**ONE_BYTE_G0, **TWO_BYTES_G0, **G1}
SEVEN_BITS = frozenset({"", "ISO_IR 6", "ISO 2022 IR 6"})
_STRETCH = re.compile(rb"(\x1b(?:\$[()]|[$()\-])?[@-Z])?([^\x1b]*)", re.DOTALL)
_CUT_ESCAPE = re.compile(rb"\x1b(\$[()]?|[()\-])?$")
_NAME_PARTS = re.compile(rb"([\^=\\])")  # each resets the code elements (PS3.5 6.1.2.5.3)
_TEXT_PARTS = re.compile(rb"([\\\r\n\t\f])")


class Escaped(NamedTuple):
    """`charsets` are the defined terms of what the escapes designate; `exact` is False where an escape was missing or bytes did not fit."""

    text: str
    charsets: tuple[str, ...]
    exact: bool


def decode_escaped(raw: bytes, labels: Sequence[str], name: bool) -> Escaped:
    """Decode a value with escape sequences. `labels` are SpecificCharacterSet's values; `name` is False for free text. Never raises."""
    raw = _CUT_ESCAPE.sub(b"", raw)
    stretches = [(found[1] or b"", found[2]) for found in _STRETCH.finditer(raw) if found[0]]
    escapes = [escape for escape, _ in stretches if escape in KNOWN]
    reader = _Reader(labels, escapes, _NAME_PARTS if name else _TEXT_PARTS, all_known=len(escapes) == raw.count(ESC))
    text = "".join(reader.read(escape, body) for escape, body in stretches)
    return Escaped(text, tuple(dict.fromkeys(reader.used)) or ("ISO_IR 6",), reader.exact)


class _Reader:
    """What is designated at the moment, and what has been used so far."""

    def __init__(self, labels: Sequence[str], escapes: Sequence[bytes], parts: re.Pattern[bytes], all_known: bool) -> None:
        self._parts = parts
        self._seven_bits = labels[0] in SEVEN_BITS or len(labels) == 1  # without extensions declared, the escapes know better
        self._initial = self._g1 = None if self._seven_bits else python_encoding.get(labels[0], "latin-1")
        self._coming = next((G1[escape][0] for escape in escapes if escape in G1), "gb18030")
        self.used: list[str] = []
        self.exact = all_known

    def read(self, escape: bytes, body: bytes) -> str:
        """One stretch: the bytes behind one escape, up to the next."""
        codec, label = KNOWN.get(escape, ("", ""))
        if label and escape not in ONE_BYTE_G0:
            self.used.append(label)
        if escape in TWO_BYTES_G0:
            return self._decode(escape + body, codec)
        if escape in G1:
            self._g1 = codec
        return "".join(map(self._part, self._parts.split(body)))

    def _part(self, part: bytes) -> str:
        """Bytes without a delimiter, or one delimiter."""
        if self._parts.fullmatch(part):
            if not self._seven_bits:
                self._g1 = self._initial
            return part.decode("ascii")
        if part.isascii():
            return part.decode("ascii")
        if self._g1 is None:
            self.exact = False
        return self._decode(part, self._g1 or self._coming)

    def _decode(self, part: bytes, codec: str) -> str:
        try:
            return part.decode(codec)
        except UnicodeDecodeError as error:
            if len(part) - error.start == 1:  # cut in the middle of the last character
                return part[: error.start].decode(codec)
            self.exact = False
            return part.replace(ESC, b"").decode("gb18030", "ignore")
