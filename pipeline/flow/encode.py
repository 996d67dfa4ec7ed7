"""Encode: volume → features `(N, D)`, saved as safetensors beside the archive. Unchanged input is never encoded twice."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from pipeline import metrics
from pipeline.errors import BadInput, Permanent
from pipeline.flow.claimed import ANYHOW, Claims, Ending, Working, fail, run_together
from pipeline.flow.passed import ending, is_of_the_images, ranked
from pipeline.model import Features, Job, Lease, RankedStack, Step
from pipeline.ports import Archive, Clock, Doorbell, Encoder, Store
from pipeline.retrying import Retry


@dataclass(frozen=True)
class Encoding:
    """What the step works with."""

    store: Store
    archive: Archive
    encoder: Encoder
    bell: Doorbell
    clock: Clock
    retry: Retry
    claims: Claims = ANYHOW


@dataclass(frozen=True, slots=True)
class Made:
    """One job's features and where they stand; `reused` when they were there already."""

    features: Features
    path: str  # archive-relative
    reused: bool


@dataclass(frozen=True, slots=True)
class Reading:
    """How far a job has come down the stacks that may be read: the errors of those before the present one, and its features once it is read."""

    job: Job
    stacks: tuple[RankedStack, ...]  # best first
    passed: tuple[Permanent, ...] = ()
    made: Made | None = None

    @property
    def files(self) -> tuple[str, ...]:
        """Those of the present stack."""
        return self.stacks[len(self.passed)].files

    @property
    def goes_on(self) -> bool:
        """True while nothing is read, a stack is left, and the fault of the last one was its own."""
        return self.made is None and len(self.passed) < len(self.stacks) and all(map(is_of_the_images, self.passed[-1:]))

    def after(self, answer: Made | Permanent) -> Reading:
        """With the answer to the present stack."""
        return replace(self, passed=(*self.passed, answer)) if isinstance(answer, Permanent) else replace(self, made=answer)


def encode(ports: Encoding, limit: int, lease: Lease) -> int:
    """Encode up to `limit` ready jobs, as many at once as the encoder takes; returns how many were claimed. The same files give the same bytes.
    While the encoder takes none, jobs stay ready: waiting costs no attempt, and the sweeper rings again."""

    def compute(jobs: Sequence[Job]) -> Sequence[Ending]:
        return _encode_together(ports, jobs, lease)

    working = Working(ports.store, Step.ENCODE, lease, ports.retry, ports.clock, ports.claims)
    claimed = run_together(working, limit, ports.encoder.batch, compute)
    if claimed:
        ports.bell.ring(Step.DRAFT)
    return claimed


def digest_of(files: Sequence[str]) -> str:
    """One name for these files, in whatever order: the archive names each by its content."""
    return hashlib.sha256("\n".join(sorted(files)).encode()).hexdigest()


def _encode_together(ports: Encoding, jobs: Sequence[Job], lease: Lease) -> list[Ending]:
    started = ports.clock.now()
    read = _read(ports, [Reading(job, ranked(job)) for job in jobs])
    seconds = (ports.clock.now() - started).total_seconds()
    shared = {"seconds": f"{seconds:.3f}", "together": str(len(jobs))}
    return [_ending(ports, one, lease, shared) for one in read]


def _read(ports: Encoding, readings: Sequence[Reading]) -> list[Reading]:
    """Each job's best stack; where its pixels cannot be read, the next one, and so on. Those of several jobs go together each time."""
    read = list(readings)
    while under_way := [at for at, one in enumerate(read) if one.goes_on]:
        sources = {at: digest_of(read[at].files) for at in under_way}
        made = _made(ports, {source: read[at].files for at, source in sources.items()})
        for at, source in sources.items():
            read[at] = read[at].after(made[source])
    return read


def _made(ports: Encoding, studies: dict[str, tuple[str, ...]]) -> dict[str, Made | Permanent]:
    """Features per source: those that are there, and what the encoder makes of the others, saved."""
    identity = ports.encoder.identity
    paths = {source: ports.archive.features_path(identity, source) for source in studies}
    found: dict[str, Made | Permanent] = {}
    for source, path in paths.items():
        if (features := _kept(ports, path, identity, source)) is not None:
            found[source] = Made(features, path, reused=True)
    fresh = [source for source in studies if source not in found]
    answers = ports.encoder.encode_many([ports.archive.paths(studies[source]) for source in fresh]) if fresh else ()
    for source, answer in zip(fresh, answers, strict=True):
        found[source] = answer if isinstance(answer, Permanent) else _saved(ports, answer, paths[source], source)
    return found


def _kept(ports: Encoding, path: str, identity: str, source: str) -> Features | None:
    """Features of the same encoder and files where a whole file has them; None where they must be made (again)."""
    file = ports.archive.path(path)
    if not file.exists():
        return None
    try:
        features = ports.encoder.load_features(file)
    except BadInput:  # half written, rotten or foreign: encoding writes it anew
        return None
    if (features.identity, features.source) != (identity, source):
        return None
    ports.archive.publish(path)  # whoever wrote it may have ended before it did
    return features


def _saved(ports: Encoding, features: Features, path: str, source: str) -> Made:
    """Written under a name of its own, then renamed: two that write the same file at once both leave it whole, with the same bytes."""
    whole = replace(features, source=source)
    ports.encoder.save_features(whole, ports.archive.path(path))
    ports.archive.publish(path)
    return Made(whole, path, reused=False)


def _ending(ports: Encoding, read: Reading, lease: Lease, shared: dict[str, str]) -> Ending:
    if read.made is None:
        return partial(fail, ending(read.stacks, read.passed))
    return partial(_commit, ports, read, read.made, lease, shared)


def _commit(ports: Encoding, read: Reading, made: Made, lease: Lease, shared: dict[str, str]) -> None:
    features, job = made.features, read.job
    with ports.store.begin() as work:
        work.studies.encoded(job, made.path, features.encoder, features.version, lease, tuple(map(str, read.passed)))
        work.audit.append(
            Step.ENCODE.value,
            study_id=job.study_id,
            job_id=job.id,
            **shared,
            images=str(len(read.files)),
            passed=str(len(read.passed)),
            tokens=str(features.array.shape[0]),
            candidates=str(len(features.candidates)),
            reused="yes" if made.reused else "no",
        )
    metrics.STACKS_PASSED.inc(len(read.passed))
