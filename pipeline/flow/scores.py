"""How well a stack serves the reader, rule by rule: points and a sentence each. The stack with most points is read.

Original images come before derived ones whatever else is said of them. Among those the kernel decides before the thickness within 1 to 5 mm: the
report speaks of lung *and* mediastinum, and a soft or standard kernel shows both, while a sharp one changes densities (see `kernels`), which decide
between solid and ground glass and whether a node is a node. Of the same kernel the thinner is read, down to 1 mm; below that noise grows faster than
detail. Without contrast and venous phase come before arterial phase; what follows the bolus is no examination at all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from statistics import median

from pipeline import geometry
from pipeline.choosing import ScorePart
from pipeline.flow.kernels import Sharpness, sharpness
from pipeline.flow.places import along, gaps
from pipeline.flow.stacks import Stack
from pipeline.model import Series

LOSSY = {  # transfer syntaxes that are lossy by definition (PS3.5 10); JPEG 2000 and HTJ2K "may be" are told by the pixels' reader
    "1.2.840.10008.1.2.4.50",
    "1.2.840.10008.1.2.4.51",
    "1.2.840.10008.1.2.4.81",
}
FULL_COVERAGE_MM, MM_A_POINT = 300.0, 10.0  # an adult's lungs with some of neck and liver
STRAIGHT = 0.999  # |z| of the normal: less is gantry tilt
KERNEL_POINTS: Mapping[Sharpness, int] = {Sharpness.SOFT: 15, Sharpness.MEDIUM: 8, Sharpness.SHARP: 0, Sharpness.UNKNOWN: 8}
# words of the series' description, else of its protocol, that name a phase, points, as a reader is told; the first match counts
PHASES: tuple[tuple[re.Pattern[str], int, str], ...] = (
    (re.compile(r"bolus|monitor|track|smart ?prep|sure ?start|\bmon\b|团注|监测"), -40, "团注追踪"),
    (re.compile(r"non ?contrast|without|\bw ?o\b|plain|native|unenhanced|\bnc\b|平扫"), 10, "平扫"),
    (re.compile(r"venous|\bvein|portal|静脉|门脉"), 10, "静脉期"),
    (re.compile(r"arter|angio|\bcta\b|\bctpa\b|\bcte?pa\b|动脉|血管成像"), 4, "动脉期"),
    (re.compile(r"delay|late phase|延迟|延时"), 6, "延迟期"),
)
TARGET = re.compile(r"\btarget|\bzoom|靶|小视野|局部放大")
USUAL_KV = (100.0, 130.0)
WORDS = re.compile(r"[_/^.\-+&]")


@dataclass(frozen=True)
class Seen:
    """What the rules look at. `names_chest`: the series' own words name the chest (True), only another region (False), or none (None)."""

    series: Series
    stack: Stack
    names_chest: bool | None

    @cached_property
    def kinds(self) -> frozenset[str]:
        """Every value of ImageType."""
        return frozenset(token.upper() for image in self.stack.images for token in image.image_type)

    @cached_property
    def words(self) -> tuple[str, str]:
        """What the series says of itself (description and kind of image), then its protocol, which other series of the examination share: lower-case,
        without the signs that headers put for spaces."""
        own = " ".join((self.series.description, *sorted(self.kinds)))
        return WORDS.sub(" ", own).lower(), WORDS.sub(" ", self.series.protocol).lower()

    @cached_property
    def alongs_mm(self) -> list[float]:
        """Places of the images; empty for multi-frame objects, whose frames are placed where their pixels are read."""
        return [along(image) for image in self.stack.images if image.position_mm is not None and image.orientation is not None]

    @cached_property
    def layers(self) -> int:
        """Slices, or frames."""
        return len(self.alongs_mm) or sum(image.frames for image in self.stack.images)

    @cached_property
    def step_mm(self) -> float | None:
        """Median step; of multi-frame objects the thickness, for that is all the header says."""
        return median([b - a for a, b in pairwise(sorted(self.alongs_mm))]) if len(self.alongs_mm) > 1 else self.series.thickness_mm

    @property
    def coverage_mm(self) -> float:
        """From the first slice's upper to the last one's lower side; 0 where unknown."""
        if len(self.alongs_mm) > 1:
            return max(self.alongs_mm) - min(self.alongs_mm) + (self.step_mm or 0.0)
        return self.layers * (self.step_mm or 0.0)


def axial(seen: Seen) -> ScorePart:
    """Straight slices before tilted ones."""
    if not seen.alongs_mm:
        return ScorePart("axial", 8, "多帧对象，层面方向在读取时核对")
    cosines = seen.stack.images[0].orientation or ()
    straight = abs(geometry.normal(cosines)[2]) >= STRAIGHT
    return ScorePart("axial", 10, "轴位") if straight else ScorePart("axial", 4, "轴位，机架倾斜")


def original(seen: Seen) -> ScorePart:
    """Original before derived, primary before secondary (PS3.3 C.7.6.1.1.2)."""
    points = 40 * ("DERIVED" not in seen.kinds) + 20 * ("SECONDARY" not in seen.kinds)
    return ScorePart("original", points, "原始图像" if points == 60 else "派生或二次图像")


def thickness(seen: Seen) -> ScorePart:
    """1 to 5 mm, thinner before thicker; what is thinner than 1 mm only where there is nothing else."""
    mm = seen.series.thickness_mm or seen.step_mm
    if not mm:
        return ScorePart("thickness", 12, "层厚未注明")
    bands = ((0.95, 10), (1.5, 30), (2.0, 28), (3.0, 25), (5.0, 20), (8.0, 8))
    return ScorePart("thickness", next((points for up_to, points in bands if mm <= up_to), 2), f"层厚 {mm:g} mm")


def kernel(seen: Seen) -> ScorePart:
    """Soft or standard before sharp."""
    kind = sharpness(seen.series.kernel, seen.series.description)
    name = seen.series.kernel.split("\\")[0]
    return ScorePart("kernel", KERNEL_POINTS[kind], f"卷积核{f' {name} ' if name else ''}{kind.value}")


def coverage(seen: Seen) -> ScorePart:
    """More of the chest before less; a part of one lung, reconstructed alone, only where there is nothing else: it is refused by its pixels."""
    if TARGET.search(seen.words[0]):
        return ScorePart("coverage", -40, "局部视野（靶重建）")
    mm = seen.coverage_mm
    return ScorePart("coverage", int(min(mm, FULL_COVERAGE_MM) / MM_A_POINT), f"覆盖约 {mm:.0f} mm" if mm else "覆盖范围未注明")


def phase(seen: Seen) -> ScorePart:
    """Without contrast and venous before delayed and arterial; never what follows the bolus where there is anything else."""
    for text in seen.words:
        for words, points, name in PHASES:
            if words.search(text):
                return ScorePart("phase", points, name)
    if seen.series.contrast_agent:
        return ScorePart("phase", 7, "增强，期相未注明")
    return ScorePart("phase", 9, "未注明使用对比剂")


def slices(seen: Seen) -> ScorePart:
    """More slices, where all else is equal."""
    return ScorePart("slices", min(seen.layers, 200) // 50, f"{seen.layers} 层")


def whole(seen: Seen) -> ScorePart:
    """A series that is one stack before a part of one."""
    if seen.stack.label:
        return ScorePart("whole", 0, f"序列中的一组（{seen.stack.label}）")
    if seen.stack.left_out:
        return ScorePart("whole", 3, f"重复位置的 {seen.stack.left_out} 幅未读")
    return ScorePart("whole", 6, "整个序列为一组")


def unbroken(seen: Seen) -> ScorePart:
    """Without missing slices before with."""
    found = gaps(Series("", "", "", "", "", None, seen.stack.images)) if seen.alongs_mm else ()
    missing = sum(gap.missing for gap in found)
    return ScorePart("unbroken", -min(20, 2 * missing), f"缺 {missing} 层" if missing else "未见缺层")


def lossless(seen: Seen) -> ScorePart:
    """Lossless before lossy, also where it is thicker and sharper."""
    lossy = any(image.lossy or image.transfer_syntax in LOSSY for image in seen.stack.images)
    return ScorePart("lossless", -30 if lossy else 0, "有损压缩" if lossy else "无有损压缩")


def energy(seen: Seen) -> ScorePart:
    """The usual tube voltage before the halves of a dual-energy scan."""
    kv = seen.series.kvp
    usual = kv is not None and USUAL_KV[0] <= kv <= USUAL_KV[1]
    return ScorePart("energy", 3 if usual else 2 if kv is None else 0, "管电压未注明" if kv is None else f"{kv:g} kV")


def region(seen: Seen) -> ScorePart:
    """Not the series that names only another region of the same examination. To name the chest is no merit: "Lung" beside "Soft" means the kernel."""
    points = -25 if seen.names_chest is False else 0
    return ScorePart("region", points, {True: "序列注明胸部", False: "序列注明其他部位", None: "序列未注明部位"}[seen.names_chest])


RULES: tuple[Callable[[Seen], ScorePart], ...] = (
    *(axial, original, region, thickness, kernel, coverage, phase, unbroken),
    *(whole, lossless, energy, slices),
)
# as a reader is told where one series was better than another
NAMES: Mapping[str, str] = {
    "axial": "层面方向",
    "original": "图像类型",
    "region": "部位",
    "thickness": "层厚",
    "kernel": "卷积核",
    "coverage": "覆盖范围",
    "phase": "期相",
    "unbroken": "缺层",
    "whole": "完整性",
    "lossless": "压缩",
    "energy": "管电压",
    "slices": "层数",
    "site": "站点规则",
}


def parts(seen: Seen) -> tuple[ScorePart, ...]:
    """What each rule says of a stack, in reading order."""
    return tuple(rule(seen) for rule in RULES)
