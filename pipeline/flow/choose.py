"""Which series of a study is read, and why each other one is not."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from pipeline.flow.places import normal, places
from pipeline.model import Instance, Series, SeriesChoice, Study

CHEST = "chest"
CT_IMAGE = "1.2.840.10008.5.1.4.1.1.2"
AXIAL_COSINE = 0.85  # |z| of the slice normal: up to 31° of gantry tilt; coronal and sagittal have 0
SAME_COSINE = 1e-2
# SOP class prefix → why it is not read; the first match counts.
NOT_CT: Mapping[str, str] = {
    "1.2.840.10008.5.1.4.1.1.2.": "多帧增强 CT，目前只读单帧 CT 序列",
    "1.2.840.10008.5.1.4.1.1.7": "二次捕获图像，不是原始 CT",
    "1.2.840.10008.5.1.4.1.1.88.67": "剂量报告，不含图像",
    "1.2.840.10008.5.1.4.1.1.88.76": "剂量报告，不含图像",
    "1.2.840.10008.5.1.4.1.1.88.73": "剂量报告，不含图像",
    "1.2.840.10008.5.1.4.1.1.88.59": "关键图像选择对象，不含图像",
    "1.2.840.10008.5.1.4.1.1.88": "结构化报告，不含图像",
    "1.2.840.10008.5.1.4.1.1.11": "显示状态对象，不含图像",
    "1.2.840.10008.5.1.4.1.1.66": "分割、配准或原始数据，不是 CT 图像",
    "1.2.840.10008.5.1.4.1.1.104": "封装文档，不含图像",
}
REFORMATS = frozenset({"MPR", "MIP", "MINIP", "VRT", "CPR", "3D", "REFORMATTED", "PROJECTION IMAGE", "PERFUSION", "DOSE_INFO", "REF_SURVIEW"})
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


def choose_series(study: Study, min_slices: int) -> SeriesChoice:
    """The one axial CT series to read, and why each other one is not. Without one, `chosen` is empty and `region` says what was scanned."""
    refused: list[tuple[str, str]] = []
    usable: list[tuple[str, Series]] = []
    for series in study.series:
        images = axial_images(series)
        if reason := _refusal(series, images, min_slices):
            refused.append((series.series_uid, reason))
        else:
            usable.append((region_of(series, study), replace(series, instances=images)))
    usable.sort(key=lambda found: _score(found[1]), reverse=True)
    chest = [series for region, series in usable if region == CHEST]
    refused += [(s.series_uid, f"检查部位为{REGION_NAMES[region]}，这里只读胸部 CT") for region, s in usable if region != CHEST]
    refused += [(series.series_uid, "同一检查中已选用更合适的轴位序列") for series in chest[1:]]
    others = [region for region, _ in usable if region != CHEST] or [region_of(series, study) for series in study.series]
    return SeriesChoice(tuple(chest[:1]), tuple(refused), CHEST if chest else next(iter(others), CHEST))


def volumes(study: Study, min_slices: int) -> tuple[Series, ...]:
    """Every series that could be read as a volume, of whatever region, without its localizers."""
    found = (replace(series, instances=axial_images(series)) for series in study.series)
    return tuple(series for series in found if _refusal(series, series.instances, min_slices) is None)


def axial_images(series: Series) -> tuple[Instance, ...]:
    """The single-frame CT images of a series, without localizers."""
    return tuple(i for i in series.instances if i.sop_class == CT_IMAGE and "LOCALIZER" not in i.image_type)


def unsupported_because(choice: SeriesChoice) -> str | None:
    """Why nobody here reads the study, as a sentence for a person; None when a series was chosen."""
    if choice.chosen:
        return None
    if choice.region != CHEST:
        return f"检查部位为{REGION_NAMES[choice.region]}，这里只读胸部 CT；请由医师直接阅片"
    reasons = "；".join(dict.fromkeys(reason for _, reason in choice.refused)) or "未收到图像"
    return f"没有可读的胸部轴位 CT 容积（{reasons}）；请核对是否漏传序列，或由医师直接阅片"


def region_of(series: Series, study: Study) -> str:
    """Chest where any text names it or none names a region (the encoder then looks for lungs); else the first region named."""
    texts = [re.sub(r"[_/^.\-+&]", " ", text).lower() for text in (series.body_part, series.description, study.description)]
    if any(CHEST_WORDS.search(text) for text in texts):
        return CHEST
    return next((region for text in texts for region, words in REGION_WORDS.items() if words.search(text)), CHEST)


def _refusal(series: Series, images: Sequence[Instance], min_slices: int) -> str | None:
    """Why a series cannot be read, or None."""
    if not images:
        return _no_images(series)
    kinds = {token.upper() for image in images for token in image.image_type}
    if kinds & REFORMATS or (kinds >= {"DERIVED", "SECONDARY"} and "AXIAL" not in kinds):
        return "重组或后处理图像，不是原始轴位"
    normals = [normal(image.orientation) for image in images if image.orientation is not None]
    if len(normals) < len(images) or any(image.position_mm is None for image in images):
        return "图像缺少层面位置或方向"
    if any(abs(a - b) > SAME_COSINE for found in normals for a, b in zip(found, normals[0], strict=True)):
        return "同一序列中层面方向不一致"
    if abs(normals[0][2]) < AXIAL_COSINE:
        return "不是轴位图像"
    layers = places(images)
    if layers < min_slices:
        return f"不同位置的图像仅 {layers} 层，少于 {min_slices} 层，不构成容积"
    return None


def _no_images(series: Series) -> str:
    """Why a series holds no CT image that could be read."""
    classes = [instance.sop_class for instance in series.instances]
    if CT_IMAGE in classes:
        return "定位像"
    found = (reason for sop_class in classes for prefix, reason in NOT_CT.items() if sop_class.startswith(prefix))
    return next(found, "不是 CT 图像")


def _score(series: Series) -> tuple[bool, bool, bool, int, float]:
    """Larger is better: original, primary, one image a place, more slices, thinner ones."""
    kinds = {token.upper() for image in series.instances for token in image.image_type}
    layers = places(series.instances)
    return "DERIVED" not in kinds, "SECONDARY" not in kinds, layers == len(series.instances), layers, -(series.thickness_mm or 1e3)
