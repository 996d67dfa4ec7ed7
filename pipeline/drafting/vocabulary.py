"""The words that a report's structured findings may use: what models are trained with, and what the lexicon in force makes of it.

An entry of the lexicon with the tag `schema:边缘:2` is the second word of 边缘; `schema:边缘:2:分叶` where the schema's word is another one.
A slot that no entry names keeps the words that models are trained with.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from types import MappingProxyType

from pipeline.entry import Entry
from pipeline.errors import BadInput

KINDS = ("结节", "实变")
LUNGS = ("左肺", "右肺")
LOBES = ("上叶", "中叶", "下叶")
DENSITIES = ("实性", "磨玻璃", "部分实性")
MARGINS = ("光滑", "分叶", "毛刺", "模糊")
INTERNALS = ("均匀", "钙化")
NOTHING = "无"
SURROUNDS = (NOTHING, "胸膜牵拉")
NODE_SITES = ("纵隔",)
LIVER_KINDS = ("囊肿", "血管瘤", "低密度灶")
SPREADS = (NOTHING, "左侧", "右侧", "双侧")  # where something lies that both sides can have


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Words per slot, in the order of the schema."""

    kinds: tuple[str, ...] = KINDS
    lungs: tuple[str, ...] = LUNGS
    lobes: tuple[str, ...] = LOBES
    densities: tuple[str, ...] = DENSITIES
    margins: tuple[str, ...] = MARGINS
    internals: tuple[str, ...] = INTERNALS
    surrounds: tuple[str, ...] = SURROUNDS
    node_sites: tuple[str, ...] = NODE_SITES
    liver_kinds: tuple[str, ...] = LIVER_KINDS
    spreads: tuple[str, ...] = SPREADS


PACKAGED = Vocabulary()
SLOTS: Mapping[str, str] = MappingProxyType(
    {
        "类型": "kinds",
        "侧别": "lungs",
        "肺叶": "lobes",
        "密度": "densities",
        "边缘": "margins",
        "内部结构": "internals",
        "周围改变": "surrounds",
        "淋巴结部位": "node_sites",
        "肝脏类型": "liver_kinds",
        "分布": "spreads",
    }
)
MEASURED = frozenset({"kinds", "lungs", "lobes", "liver_kinds", "spreads"})  # compared with what the images show: a word may leave, none may join
WITH_NOTHING = frozenset({"surrounds", "spreads"})
MOST_WORDS, LONGEST = 40, 12
TAG = "schema:"
_TAG = re.compile(r"schema:(?P<slot>[^:]+):(?P<place>\d{1,2})(?::(?P<word>[^:]+))?")


def vocabulary(entries: Iterable[Entry]) -> Vocabulary:
    """What the tags of a lexicon say. Raises BadInput for a tag that cannot be meant."""
    words: dict[str, dict[int, str]] = {}
    for entry in entries:
        for tag in entry.tags:
            if tag.startswith(TAG):
                slot, place, word = _read(tag, entry)
                if words.setdefault(slot, {}).setdefault(place, word) != word:
                    raise BadInput(f"the lexicon's tag '{tag}' stands at two terms; give each word of a slot a place of its own")
    return replace(PACKAGED, **{slot: _words(slot, placed) for slot, placed in words.items()})


def _read(tag: str, entry: Entry) -> tuple[str, int, str]:
    found = _TAG.fullmatch(tag)
    if found is None or found["slot"] not in SLOTS:
        raise BadInput(f"the lexicon's tag '{tag}' must be schema:SLOT:PLACE or schema:SLOT:PLACE:WORD, and SLOT one of {', '.join(SLOTS)}")
    slot, word = SLOTS[found["slot"]], found["word"] or entry.term
    own = getattr(PACKAGED, slot)
    if word not in entry.forms() and word not in own:
        raise BadInput(f"the lexicon's tag '{tag}' names '{word}', which is no form of '{entry.term}'")
    if slot in MEASURED and word not in own:
        raise BadInput(f"'{word}' cannot join the slot of '{tag}': its words are compared with the images; it can hold {', '.join(own)}")
    if len(word) > LONGEST or any(mark in word for mark in '"\\<>'):
        raise BadInput(f"the word of the lexicon's tag '{tag}' has more than {LONGEST} characters, or a quotation mark, a backslash or < >")
    return slot, int(found["place"]), word


def _words(slot: str, placed: Mapping[int, str]) -> tuple[str, ...]:
    listed = (*([NOTHING] if slot in WITH_NOTHING else []), *(placed[place] for place in sorted(placed)))
    words = tuple(dict.fromkeys(listed))
    if len(words) > MOST_WORDS:
        raise BadInput(f"the lexicon gives one slot of the report schema {len(words)} words; {MOST_WORDS} at most")
    return words


def sizes(words: Vocabulary) -> dict[str, int]:
    """How many words each slot has, for people who look what is in force."""
    names = {field: slot for slot, field in SLOTS.items()}
    return {names[one.name]: len(getattr(words, one.name)) for one in fields(words)}
