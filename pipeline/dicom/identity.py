"""Names and free text as a person should read them, from the raw bytes of the header and the character set that it claims.

The usual Chinese faults come out right: GB18030, GBK under ISO_IR 100 or no label, ISO 2022 IR 58 with its escapes (or without), UTF-8 under a
wrong label or encoded twice, Big5, values cut in the middle of a character. Pure: bytes in, text out, never an exception.

A value that is right under its label is never a guess. A reading that contradicts the label is one, and waits for a person to confirm it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from pydicom.charset import python_encoding

from pipeline.dicom.escapes import ESC, SEVEN_BITS, decode_escaped
from pipeline.dicom.scripts import (
    commonness,
    has_east_asian,
    is_chinese,
    is_latin_within_gb,
    is_of_single_letters,
    likelihood,
    proves_itself,
    reads_as_words,
)

# Labels that a device with a Chinese text and no idea of character sets writes.
WESTERN = SEVEN_BITS | {"ISO_IR 100", "ISO 2022 IR 100"}
GB_LABELS = frozenset({"GB18030", "GBK", "ISO 2022 GBK", "ISO 2022 58", "ISO 2022 IR 58"})
ALONE = ("ISO_IR 192", "GB18030", "GBK")  # no code extensions: beside another label they are what was meant (PS3.3 C.12.1.1.2)
# Misspelt labels that have one meaning, by their capitals and digits.
SPELLINGS = {
    **dict.fromkeys(("UTF8", "UNICODE", "ISO2022IR192", "IR192"), "ISO_IR 192"),
    **dict.fromkeys(("GB2312", "GB", "GB180302000", "GB180302005", "CP936", "MS936", "WINDOWS936", "EUCCN", "GB231280"), "GB18030"),
    **dict.fromkeys(("ISO88591", "ISO885915", "LATIN1", "WINDOWS1252", "CP1252"), "ISO_IR 100"),
    **dict.fromkeys(("BIG5", "CP950", "BIG5HKSCS"), "Big5"),
    "ISOIR58": "ISO 2022 IR 58",
    "ASCII": "ISO_IR 6",
}
# Without the escapes that it needs, a second label still tells what the bytes may be.
UNESCAPED = {"ISO 2022 IR 149": ("euc_kr",), "ISO 2022 IR 87": ("shift_jis", "euc_jp"), "ISO 2022 IR 159": ("shift_jis", "euc_jp")}
COMMON = 0.5  # likelihood of a Chinese guess, at least; GB goes before Big5 by a little
GB_FIRST = 0.2
CODECS = {**python_encoding, "Big5": "big5hkscs"}
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]+")
_LOST = re.compile(r"(?=.*\?.*\?)[?\ufffd^= .]+")
_ORPHAN = re.compile(rb"[?.]?\$\)A(?=[\xa1-\xfe])")  # the designation of GB 2312 whose ESC a gateway dropped


class Repaired(NamedTuple):
    """Readable text; `repaired` when its label was wrong; `guess` when a person should confirm it; `charset` is what it was read as."""

    text: str
    repaired: bool
    guess: bool
    charset: str


def repair(raw: bytes, charset: str | Sequence[str], name: bool = True) -> Repaired:
    """Decode one value. `charset` is SpecificCharacterSet as found; `name` is False for free text. Never raises."""
    raw = raw.rstrip(b" \x00")
    if raw.isascii() and ESC not in raw:
        text = _clean(raw.decode("ascii"), name)
        return Repaired(text, False, name and "?" in text and _LOST.fullmatch(text) is not None, "ISO_IR 6")
    labels, misspelt = _labels(charset if isinstance(charset, str) else "\\".join(charset))
    found = _escaped(raw, labels, name) if ESC in raw else _plain(raw, labels, name)
    return found._replace(text=_clean(found.text, name), repaired=found.repaired or misspelt)


def _clean(text: str, name: bool) -> str:
    """Without control characters, and without the padding and empty parts at the end of a name."""
    text = text.strip() if text.isprintable() else _CONTROL.sub(" ", text).strip()
    return text.rstrip("=^ ") if name else text


def comparable(text: str) -> str:
    """A form in which two spellings of one text are equal: full and half width, case, blanks. For comparison only, never shown."""
    return "".join(unicodedata.normalize("NFKC", text).casefold().split())


@lru_cache(maxsize=256)
def _labels(charset: str) -> tuple[tuple[str, ...], bool]:
    """The labels in DICOM's spelling, and whether any was misspelt. One that means nothing counts as none."""
    found = tuple(label.strip(" \x00") for label in charset.split("\\"))
    right = tuple(map(_spelt, found))
    alone = next((label for label in ALONE if label in right), None)
    return ((alone,), True) if alone and len(right) > 1 else (right, right != found)


def _spelt(label: str) -> str:
    if label in CODECS:
        return label
    word = re.sub("[^A-Z0-9]", "", label.upper())
    number = re.sub(r"\D", "", word.replace("ISO2022", ""))
    tried = (SPELLINGS.get(word, ""), f"ISO 2022 IR {number}" if word.startswith("ISO2022") else f"ISO_IR {number}", word)
    return next((one for one in tried if one and (one in CODECS)), "")


def _escaped(raw: bytes, labels: tuple[str, ...], name: bool) -> Repaired:
    """Text that switches character sets by escape sequences: these say what is meant, also where the label does not."""
    found = decode_escaped(raw, labels, name)
    undeclared = not set(found.charsets) <= {*labels, "ISO_IR 6"}
    return Repaired(found.text, undeclared or not found.exact, not found.exact, "\\".join(found.charsets))


def _plain(raw: bytes, labels: tuple[str, ...], name: bool) -> Repaired:
    """Text without escapes: its label's reading, unless the bytes show that it cannot be meant."""
    if _ORPHAN.search(raw) and (text := _decode(_ORPHAN.sub(b"", raw), "gb18030")) is not None:
        return Repaired(text, True, True, "ISO 2022 IR 58")
    label = labels[0]
    labelled, whole = _decode(raw, CODECS.get(label, "latin-1")), _decode(raw, "utf-8")
    utf8 = whole or _cut(raw, "utf-8")
    if utf8 is not None and (twice := _encoded_twice(utf8, name)) is not None:
        return Repaired(twice, True, True, "ISO_IR 192")
    if label == "ISO_IR 192":
        if whole is not None and not _is_chinese_within_utf8(raw, whole, name):
            return Repaired(whole, False, False, label)
    elif utf8 is not None and _is_utf8(raw, utf8, labelled, label, name):
        return Repaired(utf8, True, True, "ISO_IR 192")
    elif labelled is not None and (label not in WESTERN or _is_latin(raw, name)):
        undeclared = label in SEVEN_BITS
        return Repaired(labelled, undeclared, undeclared, "ISO_IR 100" if undeclared else label)
    if label not in WESTERN and (cut := _cut(raw, CODECS[label])) is not None:
        return Repaired(cut, True, False, label)
    return _guess(raw, labels, name)


def _guess(raw: bytes, labels: tuple[str, ...], name: bool) -> Repaired:
    """The best reading of bytes that are not what their label says."""
    for label in labels[1:]:
        for codec in UNESCAPED.get(label, ()):
            if (text := _decode(raw, codec)) is not None and has_east_asian(text):
                return Repaired(text, True, True, label)
    latin = raw.decode("latin-1")
    if not _is_latin(raw, name) and (found := _chinese(raw, name)) is not None:
        return Repaired(found[0], True, True, found[1])
    for text, charset in ((_words(raw, name, "utf-8"), "ISO_IR 192"), (_words(raw, name, "cp1252"), "ISO_IR 100")):
        if text is not None:
            return Repaired(text, True, True, charset)
    # nothing reads well: the western label is then as good as any, unless there are control characters in it
    stands = labels[0] in WESTERN - SEVEN_BITS and _CONTROL.search(latin) is None
    return Repaired(latin, not stands, not stands, "ISO_IR 100")


def _is_latin(raw: bytes, name: bool) -> bool:
    """True for Latin-1 bytes that read as words."""
    latin, gb = raw.decode("latin-1"), _decode(raw, "gb18030") or _cut(raw, "gb18030")
    return reads_as_words(latin, name) or (name and gb is not None and is_latin_within_gb(latin, gb))


def _is_utf8(raw: bytes, utf8: str, labelled: str | None, label: str, name: bool) -> bool:
    """True when bytes that are valid UTF-8 are meant as UTF-8, though their label says otherwise."""
    if has_east_asian(utf8):
        if label in WESTERN or labelled is None or _CONTROL.search(labelled):
            return True
        if label in GB_LABELS or label == "Big5":
            return not is_chinese(labelled) or likelihood(utf8, name) > likelihood(labelled, name)
        return commonness(utf8) >= COMMON and not proves_itself(labelled, name)
    if label not in WESTERN and (labelled is None or _CONTROL.search(labelled)):
        return True
    gb = _decode(raw, "gb18030")
    if gb is not None and is_latin_within_gb(utf8, gb):
        return label in WESTERN
    return proves_itself(utf8, name) and (label in WESTERN or (not reads_as_words(labelled or "", name) and label not in GB_LABELS))


def _is_chinese_within_utf8(raw: bytes, utf8: str, name: bool) -> bool:
    """True for GB bytes that happen to be valid UTF-8, but of letters that no one writes together (郑爽: ֣ˬ)."""
    if has_east_asian(utf8) or (_has_lone_symbols(utf8) and not name):
        return False
    if reads_as_words(utf8, name) and not (name and is_of_single_letters(utf8)):
        return False
    found = _chinese(raw, name)
    return found is not None and commonness(found[0]) == 1 and not is_latin_within_gb(utf8, found[0])


def _encoded_twice(utf8: str, name: bool) -> str | None:
    """Chinese behind a text that was read in a wrong character set and then encoded as UTF-8; None when it is what it looks like."""
    if (before := _western_bytes(utf8)) is not None:
        if _is_latin(before, name):
            return None
        text = _decode(before, "utf-8") or _cut(before, "utf-8")
        if text is not None and has_east_asian(text):
            return text
        found = None if _has_lone_symbols(utf8) else _chinese(before, name)
        return None if found is None else found[0]
    text = _decode(utf8.encode("gb18030", "replace"), "utf-8")
    return text if text is not None and is_chinese(text) and likelihood(text, name) > likelihood(utf8, name) else None


def _western_bytes(text: str) -> bytes | None:
    """The bytes of a text of Latin-1 and Windows-1252 characters; None when it has others."""
    try:
        return b"".join(c.encode("latin-1") if ord(c) < 256 else c.encode("cp1252") for c in text)
    except UnicodeEncodeError:
        return None


def _has_lone_symbols(text: str) -> bool:
    """True for a text such as 37 °C ± 0.5: symbols that stand alone are what they are."""
    return all(len(run) == 1 for run in re.findall(r"[^\x00-\x7f]+", text))


def _chinese(raw: bytes, name: bool) -> tuple[str, str] | None:
    """The bytes as plausible Chinese, and in which character set."""
    best: tuple[float, str, str] | None = None
    for charset, codec in (("GB18030", "gb18030"), ("Big5", "big5hkscs")):
        text = _decode(raw, codec) or _cut(raw, codec)
        if text is None or not is_chinese(text):
            continue
        score = likelihood(text, name)
        rank = score + (GB_FIRST if charset == "GB18030" else 0.0)
        if score >= COMMON and (best is None or rank > best[0]):
            best = rank, text, charset
    return None if best is None else best[1:]


def _words(raw: bytes, name: bool, codec: str) -> str | None:
    text = _decode(raw, codec)
    return text if text is not None and reads_as_words(text, name) else None


def _cut(raw: bytes, codec: str) -> str | None:
    """Chinese whose last character was cut in the middle (a device that counts bytes up to 64); None for anything else."""
    try:
        raw.decode(codec)
    except UnicodeDecodeError as error:
        rest = _decode(raw[: error.start], codec) if len(raw) - error.start < 4 else None
        return rest if rest is not None and has_east_asian(rest) else None
    return None


def _decode(raw: bytes, codec: str) -> str | None:
    try:
        return raw.decode(codec)
    except UnicodeDecodeError:
        return None
