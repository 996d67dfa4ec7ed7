"""Sizes, CT values, counts, spans of time and image references in a text, as numbers in one unit. Offsets count characters."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from pipeline.rules.spans import folded

TO_MM = {"MM": 1.0, "毫米": 1.0, "CM": 10.0, "厘米": 10.0, "公分": 10.0}
DIGITS = {"〇": 0, "零": 0, "一": 1, "二": 2, "两": 2, "三": 3, "四": 4, "五": 5, "六": 6, "七": 7, "八": 8, "九": 9}
TECHNICAL = frozenset({"层厚", "层距", "间隔", "间距", "重建厚度", "准直"})
SEVERAL = frozenset("多数若几")
LABELS = (
    "最大直径|最大径|最大短径|最大长径|最大层面|平均直径|平均径|直径|长径|短径|径线|前后径|上下径|左右径|横径|纵径|厚度|最厚处|壁厚|厚|宽度|最宽处|宽"
    "|深度|深|高度|长度|长|大小|范围|截面|径|层厚|层距|间隔|间距|重建厚度|准直"
)

_NUMBER = r"(?:\d+(?:\.\d+)?|\.\d+|[一二两三四五六七八九十]+(?:点[〇零一二三四五六七八九]+)?)"
_UNIT = r"(?:MM|CM|毫米|厘米|公分)"
_TIMES = r"\s*[×XΧ*✕╳乘]\s*"
_TO = r"\s*(?:-|–|—|−|~|～|至|到)\s*"
_NOT_SIZE = r"(?![A-Z²³23/^]|\s*[²³])"  # mm², cm3, mm/s: areas, volumes, speeds
_SIGNED = r"(?:-|−|–|负)?\d+(?:\.\d+)?"
_NUMERALS = "[一二两三四五六七八九十]+"
# What stands before a number is looked up only where there is one: a pattern that begins with it would be tried at every character.
_BEFORE = re.compile(rf"(?P<label>{LABELS})?(?:约为|为|达|是|:|：)?\s*(?P<near>大约|约|近|大于|小于|超过|不足|不超过|>|<|≥|≤)?\s*\Z")
_LOOK_BACK = 12
_BEGINS = "(?=[0-9.\\-−–负半〇零一二两三四五六七八九十多数几若单SI图层序第C])"  # a quick way past every other character
_MEASURE = re.compile(
    _BEGINS + rf"(?:(?P<reference>(?:SERIES|SE|序列)\s*[:：]?\s*(?P<se>\d+)(?:\s*[,，、/]?\s*(?:IMAGE|IMG|IM|图像|层面)\s*[:：]?\s*(?P<im>\d+))?"
    rf"|(?:IMAGE|IMG|IM|图像|层面)\s*[:：]?\s*(?P<im_only>\d+)(?![\d.]*\s*{_UNIT})|第\s*(?P<slice>\d+)\s*层)"
    rf"|(?P<time>(?<![\d.])(?:\d+{_TO})?(?:\d+|{_NUMERALS}|半)\s*(?:个月|个周|个疗程|周|天|日|年|小时|分钟|星期|月))"
    r"|(?P<count>(?<![\d.])(?:\d+|[一二两三四五六七八九十]+|[多数几]|若干)(?P<more>余)?\s*)(?:枚|个|处|颗|粒|只)(?!月|周|疗程|星期|小时|节段|方|层面|体位|别|人)"
    rf"|(?P<hu>(?<![\d.]){_SIGNED})(?:{_TO}(?P<hu_to>{_SIGNED}))?\s*HU(?![A-Z])"
    rf"|CT值(?:约为|约|为|:|：)?\s*(?P<bare_hu>{_SIGNED})(?:{_TO}(?P<bare_to>{_SIGNED}))?(?:\s*HU)?(?!\s*{_UNIT}|[\d.])"
    rf"|(?<![\d.])(?P<first>{_NUMBER})\s*(?P<first_unit>{_UNIT})?"
    rf"(?:{_TIMES}(?P<second>{_NUMBER})\s*(?P<second_unit>{_UNIT})?(?:{_TIMES}(?P<third>{_NUMBER})\s*(?P<third_unit>{_UNIT})?)?"
    rf"|{_TO}(?P<upper>{_NUMBER})\s*(?P<upper_unit>{_UNIT}))?{_NOT_SIZE}"
    r"|(?P<spread>多发|单发))"
)


class MeasureKind(StrEnum):
    """What a measure counts, and its unit."""

    SIZE = "size"  # mm
    HU = "hu"
    COUNT = "count"
    TIME = "time"
    REFERENCE = "reference"  # series, image


@dataclass(frozen=True, slots=True)
class Measure:
    """`values`: the dimensions of a size in mm, a CT value in HU, a count (empty for several), or (series, image) as far as they are named.

    `low` and `high` are the ends of a range, and equal otherwise. A technical size is that of the scan, not of a finding.
    """

    kind: MeasureKind
    values: tuple[float, ...]
    start: int
    end: int
    low: float = 0.0
    high: float = 0.0
    label: str = ""
    near: bool = False  # 约, 近, 大于 …
    prior: bool = False  # 原约8mm: of an earlier examination

    @property
    def technical(self) -> bool:
        """True for slice thickness and the like."""
        return self.label in TECHNICAL

    @property
    def largest_mm(self) -> float:
        """The largest dimension of a size."""
        return max(self.values, default=0.0)


def measures(text: str) -> tuple[Measure, ...]:
    """Every measure of a text, in its order."""
    return in_folded(folded(text))


def in_folded(text: str) -> tuple[Measure, ...]:
    """The same of a text that is folded already."""
    return tuple(found for match in _MEASURE.finditer(text) if (found := _measure(match)) is not None)


def _measure(match: re.Match[str]) -> Measure | None:
    if match["first"]:
        return _size(match)
    if match["time"]:
        return Measure(MeasureKind.TIME, (), match.start(), match.end())
    if match["reference"]:
        values = tuple(float(value) for value in (match["se"], match["im"], match["im_only"], match["slice"]) if value)
        return Measure(MeasureKind.REFERENCE, values, match.start(), match.end())
    if match["count"] or match["spread"]:
        return _count(match)
    return _hu(match)


def _size(match: re.Match[str]) -> Measure | None:
    """A size has a unit somewhere; a dimension without one takes that of the dimension behind it, else the first that is written."""
    names = [name for name in ("first", "second", "third", "upper") if match[name]]
    unit = next((match[f"{name}_unit"] for name in names if match[f"{name}_unit"]), "")
    if not unit:
        return None
    scaled = []
    for name in reversed(names):
        unit = match[f"{name}_unit"] or unit
        scaled.append(round(number(match[name]) * TO_MM[unit], 4))
    values = tuple(reversed(scaled))
    low, high = (min(values), max(values)) if match["upper"] else (max(values), max(values))
    before = _BEFORE.search(match.string, max(0, match.start() - _LOOK_BACK), match.start())
    label, near = (before["label"] or "", bool(before["near"]) or "约" in before[0]) if before else ("", False)
    start = before.start() if before and (label or near) else match.start()
    return Measure(MeasureKind.SIZE, (high,) if match["upper"] else values, start, match.end(), low, high, label, near)


def _hu(match: re.Match[str]) -> Measure:
    low = _signed(match["hu"] or match["bare_hu"])
    upper = match["hu_to"] or match["bare_to"]
    high = _signed(upper) if upper else low
    return Measure(MeasureKind.HU, (low,) if not upper else (low, high), match.start(), match.end(), min(low, high), max(low, high), "CT值")


def _count(match: re.Match[str]) -> Measure:
    if match["spread"]:
        values: tuple[float, ...] = (1.0,) if match["spread"] == "单发" else ()
    else:
        word = match["count"].strip()
        values = () if word[:1] in SEVERAL or match["more"] else (number(word),)
    value = values[0] if values else 0.0
    return Measure(MeasureKind.COUNT, values, match.start(), match.end(), value, value)


def number(word: str) -> float:
    """Arabic digits, or a Chinese numeral up to 九十九, with 点 as decimal point."""
    if word[0] in "0123456789.":
        return float(word)
    whole, _, decimals = word.partition("点")
    tens, ten, ones = whole.rpartition("十")
    value = 10 * (DIGITS[tens[-1]] if tens else 1) + (DIGITS[ones[-1]] if ones else 0) if ten else DIGITS[ones[-1]]
    return float(f"{value}.{''.join(str(DIGITS[digit]) for digit in decimals)}") if decimals else float(value)


def _signed(word: str) -> float:
    return -float(word[1:]) if word[0] in "-−–负" else float(word)


def sizes(found: tuple[Measure, ...]) -> Iterator[Measure]:
    """Only the sizes of findings."""
    return (one for one in found if one.kind is MeasureKind.SIZE and not one.technical)
