"""Why no guideline suggests anything, in one sentence: each missing input once, whose table asks it, and of which nodule where only some lack it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pipeline.rules.guidelines import NAMES, Refusal
from pipeline.rules.guidelines_inputs import Nodule

BEGINNING = "【指南】"
OF_NODULE = frozenset({"density", "size_mm", "solid_mm", "course"})  # the others are the patient's, or of all nodules together
WANTED = NAMES | {"count": "单发/多发归类（实性与亚实性结节并存）"}
Refused = tuple[Nodule, Refusal]


def sentence(refused: Sequence[Refused], nodules: int) -> str:
    """For the reader. `nodules`: how many the report has."""
    missing, other = _missing(refused, nodules), tuple(dict.fromkeys(_others(refused, nodules)))
    every = tuple(dict.fromkeys(refusal.guideline.name for nodule, refusal in refused if refusal.missing and not nodule.special))
    said: list[str] = []
    for guidelines in dict.fromkeys(sorted((at for at, _ in missing), key=lambda at: at != every)):
        whose = "" if guidelines == every else f"{'、'.join(guidelines)} {'另' if said else ''}"
        said.append(f"{whose}缺{'' if whose else '少'}：{'、'.join(words for at, words in missing if at == guidelines)}")
    return f"{BEGINNING}{'、'.join(every)}{' ' if every else ''}未给出建议，{'；'.join((*said, *other))}"


def _missing(refused: Sequence[Refused], nodules: int) -> list[tuple[tuple[str, ...], str]]:
    """Each missing input in the order of NAMES, with the guidelines that ask it."""
    found = []
    for name in NAMES:
        lacking = [(nodule, refusal) for nodule, refusal in refused if name in refusal.missing and not nodule.special]
        guidelines = tuple(dict.fromkeys(refusal.guideline.name for _, refusal in lacking))
        places = tuple(dict.fromkeys(_place(nodule) for nodule, _ in lacking)) if name in OF_NODULE else ()
        some = places and len({nodule.mention.start for nodule, _ in lacking}) < nodules
        found += [(guidelines, f"{'、'.join(places)}的{WANTED[name]}" if some else WANTED[name])] if lacking else []
    return found


def _others(refused: Sequence[Refused], nodules: int) -> Iterator[str]:
    """Reasons besides missing inputs; what a table treats by a nodule's look is told of the nodule, whatever the table."""
    for nodule, refusal in refused:
        if nodule.special:
            yield f"{_place(nodule)}{nodule.special}" if nodules > 1 else nodule.special
        elif refusal.reason:
            yield f"{refusal.guideline.name} {refusal.reason}"


def _place(nodule: Nodule) -> str:
    """右肺上叶结节; without a place, the nodule alone."""
    return f"{'、'.join(dict.fromkeys(place.term for place in nodule.mention.locations if place.term))}结节"
