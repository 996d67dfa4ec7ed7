"""Words on pictures. 右 and 左 are drawn stroke by stroke, so that they are there on any machine; other Chinese needs a font of the system."""

from __future__ import annotations

from functools import lru_cache

from PIL import ImageDraw, ImageFont

from pipeline.model import Side

# files that systems with Chinese bring, looked for in the system's font folders by Pillow
CHINESE_FONTS = (
    "NotoSansCJK-Regular.ttc",
    "NotoSansSC-Regular.otf",
    "NotoSansCJKsc-Regular.otf",
    "SourceHanSansSC-Regular.otf",
    "SourceHanSansCN-Regular.otf",
    "wqy-microhei.ttc",
    "wqy-zenhei.ttc",
    "DroidSansFallbackFull.ttf",
    "msyh.ttc",
    "simhei.ttf",
    "PingFang.ttc",
)
Font = ImageFont.FreeTypeFont | ImageFont.ImageFont
Point = tuple[float, float]

# strokes in a square of 1 × 1, y downwards
STROKES: dict[Side, tuple[tuple[Point, ...], ...]] = {
    Side.RIGHT: (
        ((0.05, 0.27), (0.95, 0.27)),
        ((0.47, 0.04), (0.40, 0.35), (0.26, 0.60), (0.05, 0.82)),
        ((0.36, 0.54), (0.84, 0.54), (0.84, 0.93), (0.36, 0.93), (0.36, 0.54)),
    ),
    Side.LEFT: (
        ((0.05, 0.27), (0.95, 0.27)),
        ((0.47, 0.04), (0.40, 0.38), (0.27, 0.68), (0.05, 0.95)),
        ((0.36, 0.54), (0.88, 0.54)),
        ((0.62, 0.54), (0.62, 0.92)),
        ((0.28, 0.92), (0.96, 0.92)),
    ),
}
LETTERS = {Side.RIGHT: "R", Side.LEFT: "L"}


@lru_cache(maxsize=16)
def font(size: int) -> tuple[Font, bool]:
    """A font of a height in pixels, and whether it has Chinese; without one on the system Pillow's own, which has not."""
    for name in CHINESE_FONTS:
        try:
            return ImageFont.truetype(name, size), True
        except OSError:
            continue
    return ImageFont.load_default(size), False


def write(draw: ImageDraw.ImageDraw, at: Point, chinese: str, plain: str, size: int, colour: str, anchor: str = "la") -> None:
    """One line of words: Chinese where a font has it, else plain Latin. `anchor` as Pillow names it."""
    face, has_chinese = font(size)
    draw.text(at, chinese if has_chinese else plain, fill=colour, font=face, anchor=anchor, stroke_width=1, stroke_fill="#000000")


def side_mark(draw: ImageDraw.ImageDraw, at: Point, side: Side, size: int, colour: str) -> None:
    """R右 or L左 with its upper left corner at a place, some 1.8 sizes wide."""
    face, _ = font(size)
    draw.text(at, LETTERS[side], fill=colour, font=face, anchor="la")
    left, top = at[0] + 0.75 * size, at[1] + 0.08 * size
    for stroke in STROKES[side]:
        draw.line([(left + x * size, top + y * size) for x, y in stroke], fill=colour, width=max(1, round(size / 11)), joint="curve")
