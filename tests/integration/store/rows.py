"""Values that the store's tests put into the database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from hashlib import sha256
from typing import Any
from uuid import UUID

from sqlalchemy import text

from pipeline.checking import Checked, Draft, Hit
from pipeline.choosing import SeriesChoice
from pipeline.evidence import Evidence, Patience, Verdict, VerdictKind
from pipeline.model import WATERMARK, DraftSource, Finding, Generation, Header, Instance, Job, JobState, Lease, Patient, Report, Severity, Step, Study
from pipeline.ports import Filing
from pipeline.store.session import PgStore

ME, OTHER = Lease("me", 60.0), Lease("other", 60.0)
NOW = Patience(quiet_s=0.0, settle_s=0.0, patience_s=0.0, force_after_s=3600.0)
COMPLETE = Verdict(VerdictKind.COMPLETE, Evidence(quiet_s=60.0, age_s=60.0))
NAME = "张^小东"
TERM = Hit("term", 1, Severity.REPLACED, "检查所见", 2, 5, "毛玻璃 → 磨玻璃", "毛玻璃")


def header(number: int = 1, study: str = "1.2.3", *, content: str = "", patient_id: str = "P-1", **changes: Any) -> Header:
    """One CT image; `content` makes other bytes under the same UID."""
    sop_uid = f"{study}.9.{number}"
    digest = sha256(f"{sop_uid}{content}".encode()).hexdigest()
    instance = Instance(
        sop_uid=sop_uid,
        sop_class="1.2.840.10008.5.1.4.1.1.2",
        transfer_syntax="1.2.840.10008.1.2.1",
        study_uid=study,
        series_uid=f"{study}.5",
        modality="CT",
        sha256=digest,
        size_bytes=1000 + number,
        path=f"{digest[:2]}/{digest}.dcm",
        instance_number=number,
        rows=512,
        columns=512,
        position_mm=(0.0, 0.0, 5.0 * number),
        orientation=(1.0, 0.0, 0.0, 0.0, 1.0, 0.0),
        image_type=("ORIGINAL", "PRIMARY", "AXIAL"),
    )
    whole = Header(
        instance=instance,
        patient=Patient(patient_id, "", NAME, False, date(1970, 1, 1), "M"),
        accession="A-1",
        study_date=date(2026, 1, 15),
        study_description="Chest",
        indication="咳嗽",
        series_description="Thorax 5.0",
        body_part="CHEST",
        kernel="B31f",
        thickness_mm=5.0,
        station="CT1",
    )
    return replace(whole, **changes)


def send(store: PgStore, *headers: Header, association: UUID | None = None) -> list[Filing]:
    """Register each image in its own transaction, as the listener does."""
    filings = []
    for one in headers:
        with store.begin() as work:
            filings.append(work.studies.register([(one, association)])[0].filing)
    return filings


def quiet(store: PgStore, limit: int = 10, lease: Lease = ME) -> tuple[Study, ...]:
    """Claim what is quiet now."""
    with store.begin() as work:
        return work.studies.claim_quiet(NOW, limit, lease)


def choice(study: Study, region: str = "chest") -> SeriesChoice:
    """All series chosen."""
    return SeriesChoice(study.series, (("1.2.3.6", "localizer"),), region)


def freeze(store: PgStore, reason: str | None = None) -> UUID | None:
    """Claim the one quiet study and freeze it."""
    (study,) = quiet(store)
    with store.begin() as work:
        return work.studies.freeze(study, choice(study), False, reason, COMPLETE)


def ready_job(store: PgStore, study: str = "1.2.3", images: int = 3) -> UUID:
    """A study with a ready job; returns the job's id."""
    send(store, *(header(number, study) for number in range(1, images + 1)))
    job_id = freeze(store)
    assert job_id is not None
    return job_id


def claim(store: PgStore, step: Step = Step.ENCODE, limit: int = 10, lease: Lease = ME) -> tuple[Job, ...]:
    """Claim jobs in a transaction of their own."""
    with store.begin() as work:
        return work.studies.claim(step, limit, lease)


def drafting_job(store: PgStore, study: str = "1.2.3") -> Job:
    """A job in drafting, held by ME."""
    ready_job(store, study)
    (job,) = claim(store)
    with store.begin() as work:
        work.studies.encoded(job, "features/1.safetensors", "compact", "1", ME)
    (job,) = claim(store, Step.DRAFT)
    assert job.state is JobState.DRAFTING
    return job


def draft(job: Job, *, phantom_only: bool = False, hits: Sequence[Hit] = (TERM,), watermark: str = WATERMARK) -> Draft:
    """A finished draft with one finding."""
    finding = Finding(1, "结节", "右肺", "上叶", "磨玻璃", 8, "毛刺", "均匀", "胸膜牵拉")
    report = Report("右肺上叶见磨玻璃结节", "右肺上叶结节", "建议随访", (finding,))
    source = DraftSource("embedded", "tiny", "abc", phantom_only)
    detail = {"positions": ((30, 25), (25, 15)), "sections": {"建议": (20, 16, 12)}, "sources": {"mtp": (40, 30), "lookup": (15, 10)}}
    generation = Generation(90, 30, (5, 10, 15), 0.5, forced=40, **detail)  # type: ignore[arg-type]  # by name
    return Draft(job.id, "radiology", Checked(report, tuple(hits), 1), source, generation, watermark, ood=3.25)


def drafted(store: PgStore, study: str = "1.2.3", **changes: Any) -> UUID:
    """A study with a saved draft; returns the draft's id."""
    job = drafting_job(store, study)
    with store.begin() as work:
        return work.studies.save_draft(job, draft(job, **changes), ME)


def expire(store: PgStore, table: str) -> None:
    """Every lease of a table ran out a minute ago."""
    with store.begin() as work:
        work.session.execute(text(f"UPDATE {table} SET lease_until = now() - interval '1 minute' WHERE lease_until IS NOT NULL"))


def one(store: PgStore, query: str) -> dict[str, Any]:
    """The one row of a query."""
    with store.begin() as work:
        return dict(work.session.execute(text(query)).mappings().one())


def count(store: PgStore, table: str) -> int:
    """Rows of a table."""
    return int(one(store, f"SELECT count(*) AS n FROM {table}")["n"])
