"""Draft: features + prompt → report text, checked and persisted under the same lease."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from pipeline.checking import Checked, Draft, Hit
from pipeline.errors import BadInput, NotAllowed
from pipeline.flow.check import check
from pipeline.flow.claimed import Retry, run_claimed
from pipeline.flow.dose import Estimating, estimate
from pipeline.flow.passed import told
from pipeline.flow.persist import persist
from pipeline.model import DEMO_WATERMARK, WATERMARK, Job, Lease, Report, Severity, Step
from pipeline.ports import Archive, Clock, Doorbell, Drafter, Encoder, Store

FINDINGS = "检查所见"
INCOMPLETE = "资料不完整："
# what the listener noted that a reader of the draft must know
NOTES = {
    "patient-id-differs": "本检查内有图像的 PatientID 与首幅不同，可能混入他人图像，请核对患者",
    "conflicting-bytes": "同一 SOPInstanceUID 收到过内容不同的图像，读取的是先到者，请核对",
}
Mode = Literal["demo", "site"]


@dataclass(frozen=True)
class Drafting:
    """What the step works with. `parse` turns a drafter's text into a report or raises BadDraft."""

    store: Store
    archive: Archive
    encoder: Encoder
    drafter: Drafter
    parse: Callable[[str], Report]
    bell: Doorbell
    clock: Clock
    retry: Retry
    mode: Mode
    department: str
    deliver_as: tuple[str, ...] = ()
    dose: Estimating | None = None


def draft(ports: Drafting, limit: int, lease: Lease) -> int:
    """Draft up to `limit` encoded jobs; returns how many were claimed."""

    def perform(job: Job) -> None:
        _draft_one(ports, job, lease)

    claimed = run_claimed(ports.store, Step.DRAFT, limit, lease, ports.retry, ports.clock, perform)
    if claimed:
        ports.bell.ring(Step.DELIVER)
    return claimed


def watermark_for(phantom_only: bool, is_phantom: bool, mode: Mode) -> str:
    """The mark that a draft carries. Raises NotAllowed where a phantom-only model would write a real study's draft outside demo mode."""
    if not phantom_only or is_phantom:
        return WATERMARK
    if mode == "demo":
        return f"{DEMO_WATERMARK}；{WATERMARK}"
    raise NotAllowed(
        "the card of the encoder or of the drafting model says phantom-only and this study is not a phantom: no draft is written in mode "
        "'site'. Set CTREPORT_ENCODER_WEIGHTS and CTREPORT_DRAFT_WEIGHTS to models registered for this site, then `ctreport retry`"
    )


def noted(checked: Checked, image_flags: Sequence[str], completeness: str = "", passed: str = "") -> Checked:
    """The report with one flag for a study that is not whole, one for a series that was read in another's place and one for what the images call for
    (gaps, lossy pixels), before the rules' hits."""
    flags = []
    if completeness:
        flags.append(Hit("completeness", 1, Severity.FLAG, FINDINGS, 0, 0, f"{INCOMPLETE}{completeness}"))
    if passed:
        flags.append(Hit("series", 1, Severity.FLAG, FINDINGS, 0, 0, f"序列：{passed}"))
    if image_flags:
        flags.append(Hit("image", 1, Severity.FLAG, FINDINGS, 0, 0, f"影像：{'；'.join(image_flags)}"))
    return replace(checked, hits=(*flags, *checked.hits))


def _draft_one(ports: Drafting, job: Job, lease: Lease) -> None:
    if job.features_path is None:
        raise BadInput("the job has no features file although it was encoded; `ctreport retry` encodes it again")
    features = ports.encoder.load_features(ports.archive.path(job.features_path))
    phantom_only = ports.drafter.phantom_only or features.phantom_only
    watermark = watermark_for(phantom_only, job.is_phantom, ports.mode)
    answer = ports.drafter.draft(features, job.indication, ports.department)
    report = ports.parse(answer.text)
    if ports.dose is not None:
        estimate(ports.dose, job)
    started = ports.clock.now()
    with ports.store.begin() as work:
        checked = check(work.rules, report, job.study_id, features.candidates, job.indication, features, ports.department)
    checked = noted(checked, (*(NOTES[flag] for flag in job.image_flags if flag in NOTES), *features.flags), job.completeness, told(job.ranked))
    check_s = (ports.clock.now() - started).total_seconds()
    source = replace(answer.source, phantom_only=phantom_only)
    seen = (features.candidates, features.frame, features.covers, features.ood)
    finished = Draft(job.id, ports.department, checked, source, answer.generation, watermark, *seen)
    persist(ports.store, job, finished, check_s, lease, ports.deliver_as)
