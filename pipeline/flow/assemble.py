"""Assemble: a study went quiet. Choose the series to read, freeze its images as a revision, ring for the encoder."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from uuid import UUID

from pipeline import log, metrics
from pipeline.model import Instance, JobState, Series, SeriesChoice, Step, Study
from pipeline.ports import Doorbell, Lease, PhantomLedger, Store

logger = log.get(__name__)
CHEST = "chest"
CT_IMAGE = "1.2.840.10008.5.1.4.1.1.2"
AXIAL_COSINE = 0.85  # |z| of the slice normal: up to 31° of gantry tilt; coronal and sagittal have 0
SAME_COSINE = 1e-2
SAME_PLACE_MM = 0.01
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


@dataclass(frozen=True)
class Assembling:
    """What the step works with."""

    store: Store
    phantoms: PhantomLedger
    bell: Doorbell
    quiet_s: float
    min_slices: int


def assemble(ports: Assembling, limit: int, lease: Lease) -> int:
    """Freeze up to `limit` quiet studies; returns how many were claimed. Each study commits on its own, then one ring."""
    with ports.store.begin() as work:
        studies = work.studies.claim_quiet(ports.quiet_s, limit, lease)
    states = [_assemble_one(ports, study) for study in studies]
    if JobState.READY in states:
        ports.bell.ring(Step.ENCODE)
    return len(studies)


def _assemble_one(ports: Assembling, study: Study) -> JobState | None:
    """Freeze one study; returns its new job's state, or None when nothing changed or a late image arrived."""
    started = perf_counter()
    choice = choose_series(study, ports.min_slices)
    reason = unsupported_because(choice)
    is_phantom = ports.phantoms.holds_all([i.sop_uid for series in study.series for i in series.instances])
    detail = {"images": str(sum(len(s.instances) for s in choice.chosen)), "refused": str(len(choice.refused)), "region": choice.region}
    with ports.store.begin() as work:
        job_id: UUID | None = work.studies.freeze(study, choice, is_phantom, reason)
        seconds = perf_counter() - started
        if job_id is not None:
            work.audit.append(Step.ASSEMBLE.value, study_id=study.id, job_id=job_id, seconds=f"{seconds:.3f}", **detail)
        if job_id is not None and reason is not None:
            work.audit.append(JobState.UNSUPPORTED.value, study_id=study.id, job_id=job_id)
    state = None if job_id is None else JobState.READY if reason is None else JobState.UNSUPPORTED
    outcome = "unchanged" if state is None else "done" if state is JobState.READY else state.value
    metrics.STEPS.labels(Step.ASSEMBLE, outcome).inc()
    metrics.STEP_SECONDS.labels(Step.ASSEMBLE).observe(seconds)
    logger.info(Step.ASSEMBLE.value, study_id=str(study.id), job_id=str(job_id), outcome=outcome, seconds=round(seconds, 3), **detail)
    return state


def choose_series(study: Study, min_slices: int) -> SeriesChoice:
    """The one axial CT series to read, and why each other one is not. Without one, `chosen` is empty and `region` says what was scanned."""
    refused: list[tuple[str, str]] = []
    usable: list[tuple[str, Series]] = []
    for series in study.series:
        images = tuple(i for i in series.instances if i.sop_class == CT_IMAGE and "LOCALIZER" not in i.image_type)
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
    normals = [_normal(image.orientation) for image in images if image.orientation is not None]
    if len(normals) < len(images) or any(image.position_mm is None for image in images):
        return "图像缺少层面位置或方向"
    if any(abs(a - b) > SAME_COSINE for normal in normals for a, b in zip(normal, normals[0], strict=True)):
        return "同一序列中层面方向不一致"
    if abs(normals[0][2]) < AXIAL_COSINE:
        return "不是轴位图像"
    places = _places(images)
    if places < min_slices:
        return f"不同位置的图像仅 {places} 层，少于 {min_slices} 层，不构成容积"
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
    places = _places(series.instances)
    return "DERIVED" not in kinds, "SECONDARY" not in kinds, places == len(series.instances), places, -(series.thickness_mm or 1e3)


def _places(images: Sequence[Instance]) -> int:
    """How many different places along the slice normal the images stand at."""
    along = sorted(_along(image) for image in images)
    return sum(1 for i, place in enumerate(along) if i == 0 or place - along[i - 1] > SAME_PLACE_MM)


def _along(image: Instance) -> float:
    assert image.orientation is not None
    assert image.position_mm is not None
    return sum(a * b for a, b in zip(_normal(image.orientation), image.position_mm, strict=True))


def _normal(cosines: Sequence[float]) -> tuple[float, float, float]:
    """Row × column: the direction in which slices follow each other (PS3.3 C.7.6.2.1.1)."""
    (a, b, c), (d, e, f) = cosines[:3], cosines[3:6]
    return b * f - c * e, c * d - a * f, a * e - b * d
