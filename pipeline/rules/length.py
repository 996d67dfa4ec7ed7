"""How long the text about one lesion may be, by department."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from pipeline.checking import Hit
from pipeline.model import Severity
from pipeline.rules.analysis import FINDINGS, Analysis
from pipeline.rules.mentions import Mention

ID, VERSION = "text.length", 1
LONGEST_TOKENS: Mapping[str, int] = MappingProxyType({"radiology": 128, "oncology": 64, "pulmonology": 42})  # the source article's budgets
# tokens of DeepSeek's tokenizer per character, as estimated in its API documentation ("Token & Token Usage"): Chinese and any other
PER_CHINESE, PER_OTHER = 0.6, 0.3
_CHINESE = re.compile("[\u3000-\u303f\u4e00-\u9fff\uff00-\uffef]")


def too_long(analysis: Analysis) -> tuple[Hit, ...]:
    """A sentence of the findings that describes a lesion in more tokens than the department reads is flagged."""
    most = LONGEST_TOKENS.get(analysis.context.department)
    if most is None:
        return ()
    section, hits = analysis.findings, []
    lesions = {mention.sentence: mention for mention in section.mentions if mention.observed and mention.present and _long(mention, most)}
    for sentence in lesions:
        tokens = estimated_tokens(section.text[sentence.start : sentence.end])
        if tokens > most:
            message = f"一处病灶的描述约 {tokens:.0f} 词元，超过本科室上限 {most} 词元，请精简"
            hits.append(Hit(ID, VERSION, Severity.FLAG, FINDINGS, sentence.start, sentence.end, message))
    return tuple(hits)


def estimated_tokens(text: str) -> float:
    """Chinese characters (and their punctuation) × 0.6 + others × 0.3."""
    chinese = len(_CHINESE.findall(text))
    return PER_CHINESE * chinese + PER_OTHER * (len(text) - chinese)


def _long(mention: Mention, most: int) -> bool:
    """A sentence with fewer characters than tokens allowed cannot be too long."""
    return mention.sentence.end - mention.sentence.start > most
