"""Encode: volume → features `(N, D)`, saved as safetensors beside the archive."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.flow.claimed import Retry, run_claimed
from pipeline.model import Job, Step
from pipeline.ports import Archive, Clock, Doorbell, Encoder, Lease, Store


@dataclass(frozen=True)
class Encoding:
    """What the step works with."""

    store: Store
    archive: Archive
    encoder: Encoder
    bell: Doorbell
    clock: Clock
    retry: Retry


def encode(ports: Encoding, limit: int, lease: Lease) -> int:
    """Encode up to `limit` ready jobs; returns how many were claimed. The same files give the same bytes."""

    def perform(job: Job) -> None:
        _encode_one(ports, job, lease)

    claimed = run_claimed(ports.store, Step.ENCODE, limit, lease, ports.retry, ports.clock, perform)
    if claimed:
        ports.bell.ring(Step.DRAFT)
    return claimed


def _encode_one(ports: Encoding, job: Job, lease: Lease) -> None:
    started = ports.clock.now()
    features = ports.encoder.encode([ports.archive.path(file) for file in job.files])
    relative = ports.archive.features_path(job.id)
    ports.encoder.save_features(features, ports.archive.path(relative))
    seconds = (ports.clock.now() - started).total_seconds()
    with ports.store.begin() as work:
        work.studies.encoded(job, relative, features.encoder, features.version, lease)
        work.audit.append(
            Step.ENCODE.value,
            study_id=job.study_id,
            job_id=job.id,
            seconds=f"{seconds:.3f}",
            images=str(len(job.files)),
            tokens=str(features.array.shape[0]),
            candidates=str(len(features.candidates)),
        )
