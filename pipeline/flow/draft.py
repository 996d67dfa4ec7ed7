"""Draft: features + prompt → findings, frozen once per revision, and from them a department's text, checked and persisted.

The job writes the site's own department under its lease. Every other one (of the RequestingService, of the HTTP API) is a request of its own,
which `asked` writes with `write_for` once the job is drafted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal
from uuid import UUID

from pipeline import metrics
from pipeline.checking import Checked, Draft, Hit
from pipeline.errors import BadDraft, BadInput, NotAllowed
from pipeline.flow.check import check
from pipeline.flow.claimed import ANYHOW, Claims, Working, run_claimed
from pipeline.flow.dose import Estimating, estimate
from pipeline.flow.passed import told
from pipeline.flow.persist import persist, persist_further
from pipeline.flow.renew import kept_of, same_findings, with_marks
from pipeline.model import DEMO_WATERMARK, WATERMARK, DraftAnswer, Features, Found, Job, Lease, Report, Severity, Step
from pipeline.ports import Archive, Clock, Doorbell, Drafter, Encoder, Store, Work, quiet
from pipeline.renewing import Earlier, Kept
from pipeline.retrying import Retry

FINDINGS = "检查所见"
INCOMPLETE = "资料不完整："
# what the listener noted that a reader of the draft must know
NOTES = {
    "patient-id-differs": "本检查内有图像的 PatientID 与首幅不同，可能混入他人图像，请核对患者",
    "conflicting-bytes": "同一 SOPInstanceUID 收到过内容不同的图像，读取的是先到者，请核对",
}
PLAIN = {"": 0}  # no token is drafted in any section
Mode = Literal["demo", "site"]
Told = Callable[[str, int], None]  # section, tokens


def nobody(service: str) -> None:
    """No RequestingService asks for a text of its own."""


@dataclass(frozen=True)
class Drafting:
    """What the step works with. `parse` turns a drafter's text into a report or raises BadDraft; `department` is the one that every study gets a text
    for, `requested` says which one a RequestingService is, None where it is none that texts are written for."""

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
    requested: Callable[[str], str | None] = nobody
    claims: Claims = ANYHOW


def draft(ports: Drafting, limit: int, lease: Lease, urgent: bool = False) -> int:
    """Draft up to `limit` encoded jobs, or STAT ones alone; returns how many were claimed."""

    def perform(job: Job) -> None:
        _draft_one(ports, job, lease)

    claimed = run_claimed(Working(ports.store, Step.DRAFT, lease, ports.retry, ports.clock, ports.claims, urgent), limit, perform)
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


def write_for(ports: Drafting, job: Job, department: str, lengths: Mapping[str, int] | None = None, told: Told = quiet) -> UUID:
    """Write one more department's text of a drafted job from the revision's frozen findings; returns the draft's id.

    Raises BadDraft where the text says what the findings do not say, NotAllowed, ModelMissing or ServiceUnavailable; LeaseLost when the revision was
    superseded meanwhile: the text is dropped then.
    """
    features = _features(ports, job)
    found = _found(ports, job, features, department, lengths, told)
    written, check_s = _written(ports, job, features, found, department, lengths, told)
    if written.checked.differs:
        places, rules = len(written.checked.differs), ", ".join(dict.fromkeys(hit.rule for hit in written.checked.differs))
        raise BadDraft(
            f"the text for {department} says what the frozen findings do not say, in {places} places ({rules}), and is not kept: "
            "read the report of another department, or ask again with another model"
        )
    return persist_further(ports.store, job, written, check_s, ports.deliver_as)


def _draft_one(ports: Drafting, job: Job, lease: Lease) -> None:
    features = _features(ports, job)
    found = _found(ports, job, features, ports.department, None, quiet)
    if ports.dose is not None:
        estimate(ports.dose, job)
    written, check_s = _written(ports, job, features, found, ports.department, None, quiet)
    asked = ports.requested(job.requesting_service)
    persist(ports.store, job, written, check_s, lease, ports.deliver_as, None if asked == ports.department else asked)


def _features(ports: Drafting, job: Job) -> Features:
    """What the job's encoder made. Raises NotAllowed before anything is written, where nothing may be."""
    if job.features_path is None:
        raise BadInput("the job has no features file although it was encoded; `ctreport retry` encodes it again")
    features = ports.encoder.load_features(ports.archive.path(job.features_path))
    watermark_for(ports.drafter.phantom_only or features.phantom_only, job.is_phantom, ports.mode)
    return features


def _found(ports: Drafting, job: Job, features: Features, department: str, lengths: Mapping[str, int] | None, told: Told) -> Found:
    """The frozen findings of the revision, made now where there are none yet."""
    with ports.store.begin() as work:
        found = work.studies.found(job.id) or _found_earlier(ports, work, job, department)
    if found is None:
        made = ports.drafter.find(features, job.indication, department, lengths, told)
        generation, rung = made.generation, made.source.rung
        with ports.store.begin() as work:
            found = work.studies.keep_found(job, made)
            counts = {"tokens": str(generation.tokens), "verify_count": str(generation.verify_count), "seconds": f"{generation.seconds:.3f}"}
            work.audit.append("found", study_id=job.study_id, job_id=job.id, rung=rung, **counts)
        if made.whole is None:  # else the report's own tokens are all of them
            metrics.TOKENS.labels(rung).inc(generation.tokens)
            metrics.VERIFY_STEPS.labels(rung).inc(generation.verify_count)
    return found


def _found_earlier(ports: Drafting, work: Work, job: Job, department: str) -> Found | None:
    """The findings of an earlier revision, frozen for this one too, where this one was made for a change that they do not depend on."""
    earlier = work.renewals.earlier(job, department)
    same = earlier and same_findings(earlier, job.features_path, work.rules.current(), ports.parse)
    if not same:
        return None
    work.audit.append("found_kept", study_id=job.study_id, job_id=job.id, cause=job.cause)
    return work.studies.keep_found(job, same)


def _kept(ports: Drafting, job: Job, found: Found, department: str) -> tuple[Earlier, Kept] | None:
    """What this revision's text keeps of the department's earlier one."""
    with ports.store.begin() as work:
        earlier = work.renewals.earlier(job, department)
        kept = earlier and kept_of(earlier, found, job.indication, work.rules.current(), ports.parse)
        if not earlier or not kept:
            return None
        work.audit.append("sections_kept", study_id=job.study_id, job_id=job.id, department=department, sections=" ".join(kept.texts))
        return earlier, kept


def _renewed(
    ports: Drafting, job: Job, features: Features, found: Found, department: str, lengths: Mapping[str, int] | None, told: Told
) -> tuple[Draft, float] | None:
    """A text that keeps what a change does not concern; None where nothing stays: nothing does when another model writes the rest."""
    keeping = _kept(ports, job, found, department)
    if keeping is None:
        return None
    earlier, kept = keeping
    answer = ports.drafter.write(features, job.indication, found, department, lengths, told, kept)
    if answer.source.model_digest != kept.source.model_digest:
        return None
    draft, check_s = _checked(ports, job, features, found, department, answer)
    return None if draft.checked.differs else (replace(draft, checked=with_marks(draft.checked, earlier, kept)), check_s)


def _written(
    ports: Drafting, job: Job, features: Features, found: Found, department: str, lengths: Mapping[str, int] | None, told: Told
) -> tuple[Draft, float]:
    """A department's text, checked, and the seconds that the check took. A text of a server that says what the findings do not say is asked for once
    more without drafts; the embedded engine would write the same again."""
    if (renewed := _renewed(ports, job, features, found, department, lengths, told)) is not None:
        return renewed
    answer = found.whole or ports.drafter.write(features, job.indication, found, department, lengths, told)
    draft, check_s = _checked(ports, job, features, found, department, answer)
    if draft.checked.differs and answer.source.server:
        answer = ports.drafter.write(features, job.indication, found, department, PLAIN, told)
        draft, check_s = _checked(ports, job, features, found, department, answer)
    return draft, check_s


def _checked(ports: Drafting, job: Job, features: Features, found: Found, department: str, answer: DraftAnswer) -> tuple[Draft, float]:
    """The draft of an answer, under the watermark that its writers call for. Raises BadDraft, or NotAllowed for writers that may not."""
    phantom_only = answer.source.phantom_only or found.source.phantom_only or features.phantom_only
    watermark = watermark_for(phantom_only, job.is_phantom, ports.mode)
    report = ports.parse(answer.text)
    started = ports.clock.now()
    with ports.store.begin() as work:
        checked = check(work.rules, report, job.study_id, features.candidates, job.indication, features, department)
    checked = noted(checked, (*(NOTES[flag] for flag in job.image_flags if flag in NOTES), *features.flags), job.completeness, told(job.ranked))
    check_s = (ports.clock.now() - started).total_seconds()
    source = replace(answer.source, phantom_only=phantom_only)
    seen = (features.candidates, features.frame, features.covers, features.ood)
    return Draft(job.id, department, checked, source, answer.generation, watermark, *seen), check_s
