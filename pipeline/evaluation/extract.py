"""Prose of a report → the findings that it states, as values of the same kind as the report's own list. Deterministic.

Words, places, sizes and negations are read by the rules' lexicon; this file only says which of its terms is which finding of the schema.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby
from types import MappingProxyType

from pipeline.checking import RuleSet
from pipeline.entry import Kind
from pipeline.model import Finding
from pipeline.rules.extract import read
from pipeline.rules.lexicon import Lexicon, compiled
from pipeline.rules.mentions import Mention
from pipeline.rules.seed import seed_ruleset

# every term of the lexicon that is one of these or lies below one of them in its tree is that finding; the first that fits
LUNG: Mapping[str, str] = MappingProxyType(
    {"结节": "结节", "肿块": "结节", "磨玻璃影": "结节", "实变": "实变", "斑片影": "实变", "渗出": "实变", "浸润影": "实变"}
)
LIVER: Mapping[str, str] = MappingProxyType(
    {"囊肿": "肝囊肿", "血管瘤": "肝血管瘤", "低密度影": "肝低密度灶", "肿块": "肝低密度灶", "结节": "肝低密度灶"}
)
DIFFUSE: Mapping[str, str] = MappingProxyType(
    {"胸腔积液": "胸腔积液", "肺气肿": "肺气肿", "肺大疱": "肺气肿", "肺纤维化": "纤维化", "网格影": "纤维化", "蜂窝影": "纤维化"}
)
NODE, MEDIASTINUM, IN_LIVER = "淋巴结", "纵隔", "肝脏"
UNNAMED = "肝低密度灶"  # what a liver lesion is until its sentence says more
DENSITIES: Mapping[str, str] = MappingProxyType({"部分实性结节": "部分实性", "磨玻璃结节": "磨玻璃", "磨玻璃影": "磨玻璃", "实性结节": "实性"})
DENSITY_WORDS: Mapping[str, str] = MappingProxyType({"部分实性": "部分实性", "磨玻璃": "磨玻璃", "实性": "实性"})
MARGINS: Mapping[str, str] = MappingProxyType({"毛刺征": "毛刺", "分叶征": "分叶", "边界模糊": "模糊", "边缘光滑": "光滑"})
CALCIUM, RETRACTION, EVEN, CYSTIC = "钙化灶", "胸膜凹陷征", "密度均匀", "囊性密度"
SIDES = {"左": "左侧", "右": "右侧", "双": "双侧", "": "双侧"}


@dataclass(slots=True)
class _Lesion:
    """One lesion in the making: its first words and what its sentence adds."""

    kind: str
    head: Mention
    terms: list[str] = field(default_factory=list)
    margins: set[str] = field(default_factory=set)
    calcified: bool | None = None
    retraction: bool | None = None
    sizes: list[float] = field(default_factory=list)

    def findings(self, lexicon: Lexicon) -> list[Finding]:
        """The lesion as a finding without candidate; nodes and liver lesions of one sentence as many as it gives sizes (约14mm及20mm)."""
        sizes: list[int | None] = [round(size) for size in self.sizes] or [None]
        if self.kind == NODE:
            return [Finding(None, self.kind, MEDIASTINUM, None, None, size) for size in sizes]
        if self.kind in LIVER.values():
            return [Finding(None, self.kind, IN_LIVER, None, None, size) for size in sizes]
        return [self._in_lung(sizes[0], lexicon)]

    def _in_lung(self, size: int | None, lexicon: Lexicon) -> Finding:
        margin = next((said for word, said in MARGINS.items() if word in self.margins), None)
        internal = None if self.calcified is None else "钙化" if self.calcified else "均匀"
        surround = None if self.retraction is None else "胸膜牵拉" if self.retraction else "无"
        side = f"{self.head.side}肺" if self.head.side in ("左", "右") else ""
        return Finding(None, self.kind, side, self.head.lobe or None, self._density(lexicon), size, margin, internal, surround)

    def _density(self, lexicon: Lexicon) -> str | None:
        """The first word that says it: 部分实性 before the 磨玻璃影 that the sentence goes on about."""
        for term in self.terms:
            for above in lexicon.lines.get(term, (term,)):
                if said := DENSITIES.get(above) or DENSITY_WORDS.get(above):
                    return said
        return "实性" if self.kind == "实变" else None


def extract(text: str, section: str = "检查所见") -> tuple[Finding, ...]:
    """Lesions in the order of the text, then effusion, emphysema and fibrosis with their sides. What a prose leaves open is None or empty.

    Absent and past findings (未见…, 术后…) are none; uncertain ones (考虑…) are.
    """
    lexicon = compiled(rules())
    mentions = [one for one in read(section, text, lexicon).mentions if not one.historical]
    sentences = ([*words] for _, words in groupby(mentions, lambda one: one.sentence))
    lesions = (lesion for words in sentences for lesion in _lesions(words, lexicon))
    return (*(finding for lesion in lesions for finding in lesion.findings(lexicon)), *_diffuse(mentions, lexicon))


@lru_cache(maxsize=1)
def rules() -> RuleSet:
    """The rules of a new installation, read once: what is compiled from a set is kept for that one object."""
    return seed_ruleset()


def kind_of(mention: Mention, lexicon: Lexicon) -> str:
    """The schema's word for a lesion of lung, mediastinum or liver; empty for anything else."""
    if not mention.observed:
        return ""
    line = lexicon.lines.get(mention.term, (mention.term,))
    if "淋巴结肿大" in line:
        return NODE
    table = LIVER if mention.organ == "肝" else LUNG if mention.organ in ("肺", "") else {}
    return next((table[above] for above in line if above in table), "")


def _lesions(words: Sequence[Mention], lexicon: Lexicon) -> Iterator[_Lesion]:
    """The lesions that one sentence states, each with what belongs to it."""
    owners = {(detail.start, detail.term): one for one in words for detail in one.details}
    found: list[_Lesion] = []
    heads: dict[int, _Lesion] = {}
    for word in words:
        kind = kind_of(word, lexicon)
        if kind and word.present:
            lesion = found[-1] if found and _goes_on(found[-1], word, kind) else None
            if lesion is None:
                lesion = _Lesion(kind, word)
                found.append(lesion)
            lesion.kind = kind if lesion.kind == UNNAMED else lesion.kind
            heads[word.start] = lesion
            lesion.terms.append(word.term)
            lesion.sizes += _sizes(word)
        elif word.observed and found:
            _trait(found[-1], word, lexicon)
    for word in words:
        if word.describing and found:
            owner = owners.get((word.start, word.term))
            _described(heads.get(owner.start, found[-1]) if owner is not None else _before(heads, word, found), word)
    return iter(found)


def _goes_on(lesion: _Lesion, word: Mention, kind: str) -> bool:
    """磨玻璃影内见实性成分 behind 部分实性结节, 考虑囊肿 behind 肝内低密度灶: the same sentence about the same place."""
    both_liver = kind in LIVER.values() and lesion.kind in LIVER.values()
    same_place = word.locations[:1] == lesion.head.locations[:1]
    return same_place and (kind == lesion.kind or (both_liver and UNNAMED in (kind, lesion.kind)))


def _trait(lesion: _Lesion, word: Mention, lexicon: Lexicon) -> None:
    """Calcification and retraction of the pleura, there or absent; a size behind them is the lesion's where it has none."""
    line = lexicon.lines.get(word.term, (word.term,))
    if CALCIUM in line:
        lesion.calcified = word.present
    elif RETRACTION in line:
        lesion.retraction = word.present
    else:
        return
    if word.present:
        lesion.sizes += _sizes(word)


def _before(heads: Mapping[int, _Lesion], word: Mention, found: Sequence[_Lesion]) -> _Lesion:
    """The lesion that a loose description follows, else the first."""
    starts = [start for start in heads if start <= word.start]
    return heads[max(starts)] if starts else found[0]


def _described(lesion: _Lesion, word: Mention) -> None:
    if word.negated:
        return
    if word.kind is Kind.MARGIN:
        lesion.margins.add(word.term)
    elif word.kind is Kind.DENSITY and word.term in DENSITY_WORDS:
        lesion.terms.append(word.term)
    elif word.term == CYSTIC and lesion.kind == UNNAMED:
        lesion.kind = LIVER["囊肿"]
    elif word.term == EVEN and lesion.calcified is None:
        lesion.calcified = False


def _sizes(word: Mention) -> list[float]:
    """The largest dimension of each size that is written."""
    return [size.largest_mm for size in word.sizes]


def _diffuse(mentions: Iterable[Mention], lexicon: Lexicon) -> Iterator[Finding]:
    """One finding per kind, with every side that any sentence names."""
    sides: dict[str, set[str]] = {kind: set() for kind in dict.fromkeys(DIFFUSE.values())}
    for one in mentions:
        if one.observed and one.present:
            for above in lexicon.lines.get(one.term, (one.term,)):
                if above in DIFFUSE:
                    sides[DIFFUSE[above]].add(SIDES[one.side])
    for kind, named in sides.items():
        if named:
            yield Finding(None, kind, named.pop() if len(named) == 1 else "双侧", None, None, None)
