"""Why a scan was asked for: the kinds of indication that choose among wordings, and the texts that the prompt may hold of each."""

from __future__ import annotations

import enum
from collections.abc import Mapping

from numpy.random import Generator


class Reason(enum.StrEnum):
    """A kind of indication. Whatever is not recognised is UNKNOWN."""

    UNKNOWN = "unknown"
    SCREENING = "screening"
    FOLLOW_UP = "follow-up"
    INFECTION = "infection"
    TUMOUR = "tumour"
    COMPLAINT = "complaint"


# spaces mark words for the tokenizer and are not part of the text, but between letters of English
INDICATIONS: Mapping[Reason, tuple[str, ...]] = {
    Reason.UNKNOWN: ("未提供", "chest CT", "CT CHEST W/O CONTRAST", "胸部 CT 平扫", "胸部 CT 增强"),
    Reason.SCREENING: ("体检", "健康 体检", "肺癌 筛查", "低剂量 肺癌 筛查", "入职 体检"),
    Reason.FOLLOW_UP: ("肺结节 复查", "肺结节 随访", "结节 复查", "复查", "发现 肺结节 3 个月 复查"),
    Reason.INFECTION: ("发热 咳嗽", "咳嗽 咳痰", "肺部 感染 复查", "肺炎", "发热 待查", "咳嗽"),
    Reason.TUMOUR: ("肿瘤 病史 ， 定期 复查", "肺癌 术前 评估", "肺 占位", "肺癌 化疗 后 复查", "肿瘤 分期"),
    Reason.COMPLAINT: ("胸痛", "气促", "咯血", "外伤", "术前 检查", "胸闷 气短", "呼吸困难"),
}
NOT_GIVEN_SHARE, STRANGE_SHARE = 0.25, 0.12
ALPHABET = [chr(code) for code in [*range(0x4E00, 0x9FA6, 7), *range(0x30, 0x3A), *range(0x41, 0x5B), *range(0x61, 0x7B), 0x20, 0x2C, 0xFF0C]]


def spoken(text: str) -> str:
    """The text without the spaces that mark words; English keeps its own."""
    return text if text.isascii() else text.replace(" ", "")


def draw_indication(rng: Generator) -> tuple[str, Reason]:
    """A usual indication and its kind, none, or random characters, so that the model does not lean on what it reads there."""
    lot = rng.random()
    if lot < NOT_GIVEN_SHARE:
        return INDICATIONS[Reason.UNKNOWN][0], Reason.UNKNOWN
    if lot < NOT_GIVEN_SHARE + STRANGE_SHARE:
        return "".join(rng.choice(ALPHABET, size=int(rng.integers(1, 24)))), Reason.UNKNOWN
    reason = list(Reason)[int(rng.integers(len(Reason)))]
    texts = INDICATIONS[reason]
    return spoken(texts[int(rng.integers(len(texts)))]), reason
