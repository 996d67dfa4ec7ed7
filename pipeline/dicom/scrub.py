"""Free text without the patient: names and ids that people type into a request must not reach a prompt.

Text and name are compared in one width, without case and accents (張 stays 張), with blanks and separators allowed inside: what people type, not
what the header says.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise, permutations

from pipeline.dicom.scripts import COMPOUND
from pipeline.model import Patient

HIDDEN = "某"
SHORTEST_ID = 4
SHORTEST_LATIN = 3
SHORTEST_LOOSE_ID = 6  # a shorter one is only found in one piece
LONGEST_GAP = 3
SEPARATORS = frozenset(" \t\r\n\u00ad\u200b^=\u00b7\u2022\u30fb.-_\u2010\u2011\u2012\u2013\u2014\u2015'\u2019\u02bc/\\|")
LATIN_SEPARATORS = SEPARATORS | {","}
HONORIFICS = "先生|女士|小姐|太太|同志|老师|师傅|大爷|大伯|大叔|大妈|大姐|阿姨|叔叔|奶奶|爷爷|老太|老汉|同学|小朋友|某某|某"


@dataclass(frozen=True, slots=True)
class Form:
    """One way to type the patient: folded letters without separators, and which of these may stand between them."""

    letters: str
    between: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Folded:
    """A text as it is compared: its letters, and where in the text each one stands."""

    letters: str
    places: tuple[int, ...]


def without_patient(text: str, patient: Patient) -> str:
    """`text` with each form of the patient's name and of the patient's id replaced by 某. The rest stays as it is, byte for byte."""
    if not text:
        return text
    forms = _forms(patient)
    folded = {between: _folded(text, between) for between in {form.between for form in forms}}
    spans = sorted(span for form in forms for span in _found(form, folded[form.between]))
    kept, last = [], 0
    for start, stop in spans:
        if start >= last:
            kept += [text[last:start], HIDDEN]
        last = max(last, stop)
    return "".join(kept) + text[last:]


def _found(form: Form, folded: Folded) -> Iterator[tuple[int, int]]:
    """Where a form stands in the text: (first, behind last). A Latin one or an id never inside a word."""
    word = form.letters[0].isascii()
    at = folded.letters.find(form.letters)
    while at >= 0:
        places = folded.places[at : at + len(form.letters)]
        near = all(b - a <= 1 + LONGEST_GAP for a, b in pairwise(places))
        if near and not (word and (_touches(folded, at - 1, places[0]) or _touches(folded, at + len(form.letters), places[-1]))):
            yield places[0], places[-1] + 1
        at = folded.letters.find(form.letters, at + 1)


def _touches(folded: Folded, neighbour: int, place: int) -> bool:
    """True when the neighbouring letter belongs to the same word."""
    if not 0 <= neighbour < len(folded.letters) or abs(folded.places[neighbour] - place) > 1:
        return False
    letter = folded.letters[neighbour]
    return letter.isascii() and letter.isalnum()


def _folded(text: str, without: frozenset[str] = frozenset()) -> Folded:
    """Compatibility forms decomposed, accents and case dropped, `without` left out."""
    pairs = [
        (letter, place)
        for place, character in enumerate(text)
        for letter in unicodedata.normalize("NFKD", character).casefold()
        if letter not in without and not unicodedata.combining(letter)
    ]
    return Folded("".join(letter for letter, _ in pairs), tuple(place for _, place in pairs))


def _fold(text: str) -> str:
    return _folded(text, LATIN_SEPARATORS).letters


def _forms(patient: Patient) -> set[Form]:
    forms = set(_of_id(patient.patient_id))
    for group in patient.name.split("="):
        parts = [part for part in re.split(r"[\^\s,]+", unicodedata.normalize("NFKC", group)) if _fold(part)]
        if parts:
            forms |= set(_latin(parts) if all(_fold(part).isascii() for part in parts) else _chinese(parts))
    return forms


def _of_id(patient_id: str) -> Iterator[Form]:
    """As it stands, with other separators, and without its leading zeros."""
    letters = _fold(patient_id)
    for form in {letters, letters.lstrip("0")}:
        if len(form) >= SHORTEST_LOOSE_ID:
            yield Form(form, SEPARATORS)
        elif form == letters and len(form) >= SHORTEST_ID:
            yield Form(form)


def _latin(parts: list[str]) -> Iterator[Form]:
    """Parts alone as whole words, and together in any order. ZhangXiaoDong is three parts."""
    pieces = [piece for part in parts for piece in re.findall(r"[A-Z][a-z]+", part)] if len(parts) == 1 else []
    if len(parts) == 1:
        yield Form(_fold(parts[0]), LATIN_SEPARATORS)
    for some in (parts, pieces):
        folded = [_fold(part) for part in some[:4]]
        yield from (Form(part) for part in folded if len(part) >= SHORTEST_LATIN)
        for count in range(2, len(folded) + 1):
            yield from (Form("".join(order), LATIN_SEPARATORS) for order in permutations(folded, count) if len("".join(order)) >= SHORTEST_LATIN)


def _chinese(parts: list[str]) -> Iterator[Form]:
    """The whole name, given name first, the given name alone, and the family name with an honorific."""
    family, given = _family(parts)
    whole = family + given
    if len(whole) > 1:
        yield Form(whole, SEPARATORS)
        yield Form(given + family, SEPARATORS)
    if len(given) > 1:
        yield Form(given, SEPARATORS)
    for honorific in HONORIFICS.split("|"):
        yield Form(family + honorific, SEPARATORS)


def _family(parts: list[str]) -> tuple[str, str]:
    """Family and given name, also where they are written as one."""
    whole = "".join(map(_fold, parts))
    size = len(_fold(parts[0])) if len(parts) > 1 else 2 if whole.startswith(COMPOUND) and len(whole) > 2 else 1
    return whole[:size], whole[size:]
