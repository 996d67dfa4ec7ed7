"""The vocabulary of the packaged model: words of its corpus, medical terms (`terms.toml`), pieces of its JSON, marks of its prompts."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from pipeline.drafting.departments import NAMES
from pipeline.drafting.prompt import mark, render
from pipeline.drafting.schema import DENSITIES, INTERNALS, KINDS, LIVER_KINDS, LOBES, LUNGS, MARGINS, NODE_SITES, SECTIONS, SPREADS, SURROUNDS
from pipeline.engine.tokenizer import TextTokenizer, build
from pipeline.training import phrases, phrases_departments
from pipeline.training.reasons import INDICATIONS

TERMS = Path(__file__).parent / "terms.toml"
VALUES = (*KINDS, *LUNGS, *LOBES, *DENSITIES, *MARGINS, *INTERNALS, *SURROUNDS, *NODE_SITES, *LIVER_KINDS, *SPREADS)
MOST_CONCLUSIONS = 12

# what stands between the values of a serialised answer, of a whole report and of one section
SKELETON = (
    '{"检查所见": {"病灶": [',
    '{"病灶": [',
    '{"候选": ',
    ', "类型": "',
    '", "侧别": "',
    '", "肺叶": "',
    '", "密度": "',
    '", "大小mm": ',
    ', "边缘": "',
    '", "内部结构": "',
    '", "周围改变": "',
    '"}, {"候选": ',
    '"}], "淋巴结": [',
    '], "淋巴结": [',
    ', "部位": "纵隔", "短径mm": ',
    '}, {"候选": ',
    '}], "肝脏": [',
    '], "肝脏": [',
    '}], "胸腔积液": "',
    '], "胸腔积液": "',
    '", "肺气肿": "',
    '", "纤维化": "',
    '", "描述": "',
    '"}, "诊断意见": "',
    '", "建议": "',
    '{"描述": "',
    '{"诊断意见": "',
    '{"建议": "',
    '"}',
)
_FIELD = re.compile(r"\{\w+\}")


def words() -> tuple[str, ...]:
    """Every word that is one token, corpus first; the tokenizer adds numbers and bytes."""
    wording = [word for module in (phrases, phrases_departments) for text in _texts(vars(module)) for word in _words_of(text)]
    asked = [word for texts in INDICATIONS.values() for text in texts for word in text.split()]
    numbering = (f"{number}." for number in range(1, MOST_CONCLUSIONS + 1))
    return tuple(dict.fromkeys([*SKELETON, *marks(), *VALUES, *numbering, *wording, *asked, *terms()]))


def marks() -> tuple[str, ...]:
    """What stands in prompts around the indication, each as long as it always is."""
    image, asked = "[CT影像特征]", "[临床指征]"
    whole = [render("", 0, department).partition("未提供")[2] for department in NAMES]
    sections = [mark(section, department) for section in SECTIONS for department in NAMES]
    return tuple(dict.fromkeys([image, asked, *whole, *sections]))


@cache
def terms() -> tuple[str, ...]:
    """The medical terms of the list."""
    groups = tomllib.loads(TERMS.read_text(encoding="utf-8"))
    return tuple(dict.fromkeys(term for group in groups.values() for term in group))


def make_tokenizer() -> TextTokenizer:
    """The tokenizer of the packaged model."""
    return TextTokenizer(build(words()))


def _texts(value: object) -> Iterator[str]:
    """Every text of a module's constants, however they are grouped."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, tuple):
        for part in value:
            yield from _texts(part)
    elif isinstance(value, Mapping):
        for name, part in value.items():
            if not (isinstance(name, str) and name.startswith("__")):
                yield from _texts(part)


def _words_of(text: str) -> list[str]:
    return [word for word in _FIELD.sub(" ", text).split() if not word.isascii() or word in ("CT", "mm")]
