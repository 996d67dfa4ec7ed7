"""Which part of the body a series shows, as far as the words of its header say."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from pipeline.model import Series, Study

CHEST = "chest"
# What the words of a header say about the region. Chest counts wherever it is named, also beside others.
CHEST_WORDS = re.compile(r"chest|thora|\b(lungs?|pulmonary|hrct|tap|cap|whole ?body)\b|胸|肺|全身")
REGION_WORDS: Mapping[str, re.Pattern[str]] = {
    "head": re.compile(r"\bhead(?! ?first)|brain|skull|cranial|sinus|\b(orbits?|temporal|ears?|iac|facial?|jaw|dental)\b|头|颅|脑|眼|鼻|耳|颌|牙"),
    "neck": re.compile(r"\b(neck|cervical|larynx|thyroid)\b|颈|喉|甲状腺"),
    "abdomen": re.compile(r"abdom|\b(abd|liver|pancreas|kidneys?|renal|colon|colonography|urinary|adrenal)\b|腹|肝|胰|肾|结肠|泌尿"),
    "pelvis": re.compile(r"pelvi|\b(bladder|prostate|uterus)\b|盆|膀胱|前列腺|子宫"),
    "spine": re.compile(r"spine|lumbar|\bsacrum\b|脊柱|腰椎|骶"),
    "limb": re.compile(r"extremity|\b(leg|knee|ankle|foot|hip|femur|hand|wrist|elbow|shoulder|arm)\b|肢|膝|踝|髋|股骨|腕|肘|肩|(?<!不)足|手(?!术)"),
}
REGION_NAMES: Mapping[str, str] = {"head": "头部", "neck": "颈部", "abdomen": "腹部", "pelvis": "盆腔", "spine": "脊柱", "limb": "四肢"}


def region_of(series: Series, study: Study) -> str:
    """Chest where any text names it or none names a region (the encoder then looks for lungs); else the first region named."""
    texts = _plain(series.body_part, series.description, study.description)
    return CHEST if any(CHEST_WORDS.search(text) for text in texts) else _other_region(texts) or CHEST


def names_chest(series: Series) -> bool | None:
    """What the series itself says, without the examination's description."""
    texts = _plain(series.body_part, series.description)
    return True if any(CHEST_WORDS.search(text) for text in texts) else False if _other_region(texts) else None


def elsewhere(region: str) -> str:
    """Why a region is not read here; empty for the chest."""
    return f"检查部位为{REGION_NAMES[region]}，这里只读胸部 CT" if region != CHEST else ""


def _plain(*texts: str) -> list[str]:
    return [re.sub(r"[_/^.\-+&]", " ", text).lower() for text in texts]


def _other_region(texts: Sequence[str]) -> str | None:
    return next((region for text in texts for region, words in REGION_WORDS.items() if words.search(text)), None)
