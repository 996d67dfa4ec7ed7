"""`ctreport bench flow` on a whole embedded stack: studies are sent by C-STORE until their reports stand in PostgreSQL."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import text

from pipeline.errors import ServiceUnavailable
from pipeline.evaluation.flow_files import Study, archive_name, noise_study
from pipeline.evaluation.flow_rows import Block, Sample
from pipeline.evaluation.flow_usage import between, cpu_of, sample, without_idle
from pipeline.flow.encode import digest_of
from pipeline.settings import settings
from workers import wiring
from workers.commands.bench_draft_flow import SEED, fresh_stack
from workers.local import StackInfo, read_stack

if TYPE_CHECKING:
    from pipeline.model import Features

LOOK_S, STUDY_S = 0.1, 300.0  # how often is looked, and how long a study may take
SAMPLES = 4  # of memory in a block
ENDED = "SELECT count(*) FILTER (WHERE state = 'drafted'), count(*) FROM jobs WHERE state IN ('drafted', 'failed', 'unsupported')"
ENCODED = "SELECT count(*) FROM audit WHERE action = 'encode' AND detail->>'reused' = 'no'"
UNSET = ("SGLANG_TEXT_URL", "SGLANG_PLAIN_URL", "SGLANG_API_KEY", "VLLM_URL", "DRAFT_WEIGHTS", "SERVED_MODEL")
NO_SERVERS = {f"CTREPORT_{name}": "" for name in UNSET}
# a site sweeps every ten seconds; an embedded stack every second, which by itself costs more than a study
SWEEP, SITE_SWEEP_S = "CTREPORT_WORK_SWEEP_S", 10.0
Told = Callable[[float, str], None]


@dataclass(frozen=True)
class Running:
    """A stack that is measured, and what it takes while nothing arrives."""

    folder: Path
    info: StackInfo
    template: Features | None  # that every study gets, so that no encoder works; None: the encoder works
    idle_per_s: Mapping[str, float] = field(default_factory=dict)

    @property
    def parts(self) -> dict[str, int]:
        """Process ids. Raises ServiceUnavailable where one was started again: its CPU time would be lost."""
        now = read_stack(self.folder) or self.info
        again = [part.name for part in now.parts if part.restarts or part.pid is None]
        if again:
            raise ServiceUnavailable(f"{', '.join(again)} ended while it was measured; see {self.folder / 'logs'}")
        return {part.name: part.pid for part in now.parts if part.pid is not None}

    def used(self) -> dict[str, float]:
        """CPU seconds so far."""
        return cpu_of(self.info.pid, self.parts)

    def warmed(self, images: int, idle_s: float) -> Running:
        """After one study, so that every model is loaded and every connection made; and with what the stack takes while nothing arrives."""
        self.block([self.study(images, 0)])
        before = self.used()
        time.sleep(idle_s)
        return replace(self, idle_per_s={name: seconds / idle_s for name, seconds in between(before, self.used()).items()})

    def sample(self, studies: int) -> Sample:
        """Memory and connections now."""
        return sample(studies, self.parts, self.info.database_url, self.info.redis_url)

    def study(self, images: int, number: int) -> Study:
        """A study on disk that is ready to be sent: noise whose features are there, or a phantom where the encoder works."""
        if self.template is None:
            return _phantom(self.folder / "phantoms", SEED + number)
        made = noise_study(self.folder / "sent" / str(number), images)
        _place_features(self.template, [archive_name(file) for file in sorted(made.folder.iterdir())])
        return made

    def block(self, studies: Sequence[Study], sampled: list[Sample] | None = None, before: int = 0) -> Block:
        """Send them one after the other and wait for their reports. `sampled` gets moments of the run; `before`: studies that went before it."""
        encoded, started, begun = _encoded(), self.used(), time.monotonic()
        every = -(-len(studies) // SAMPLES)
        for number, one in enumerate(studies, 1):
            self._send(one)
            if sampled is not None and (number % every == 0 or number == len(studies)):
                self._await(before + number)
                sampled.append(self.sample(before + number))
        self._await(before + len(studies))
        wall_s = time.monotonic() - begun
        cpu = without_idle(between(started, self.used()), self.idle_per_s, wall_s)
        return Block(studies[0].images, len(studies), wall_s, cpu, _encoded() - encoded)

    def _send(self, study: Study) -> None:
        from pipeline.dicom.send import send

        sent = send([study.folder], "127.0.0.1", self.info.ports["listener"], settings().listener.aet)
        if sent.failed:
            raise ServiceUnavailable(f"{len(sent.failed)} images were not taken; see {self.folder / 'logs'}")
        shutil.rmtree(study.folder)

    def _await(self, wanted: int) -> None:
        """Until so many studies are drafted. Raises ServiceUnavailable when one ends otherwise, or nothing ends for too long."""
        deadline, last = time.monotonic() + STUDY_S, -1
        while (counted := _counted())[0] < wanted:
            drafted, ended = counted
            if ended > drafted:
                raise ServiceUnavailable(f"{ended - drafted} studies came to no report: {_reason()}")
            deadline, last = (time.monotonic() + STUDY_S, drafted) if drafted != last else (deadline, last)
            if time.monotonic() > deadline:
                raise ServiceUnavailable(f"no report for {STUDY_S:.0f} s, {drafted} of {wanted} are there; see {self.folder / 'logs'}")
            time.sleep(LOOK_S)


@contextlib.contextmanager
def overhead_stack(work: Path, sweep_s: float) -> Iterator[Running]:
    """A stack whose drafts are written by a fast fake server in this process, and whose studies have their features before they come."""
    from pipeline.drafting.fake_answers import normal_chest
    from pipeline.drafting.fake_server import FakeServer, Script
    from pipeline.drafting.reference import make
    from pipeline.drafting.served_model import ServedModel
    from pipeline.engine.checkpoint import PACKAGED

    model = ServedModel.read(PACKAGED)
    server = FakeServer(model, Script(answers=normal_chest(model, make(PACKAGED))))
    with server, fresh_stack({**NO_SERVERS, "CTREPORT_SGLANG_URL": server.url, SWEEP: f"{sweep_s:g}"}, work) as (folder, info):
        yield Running(folder, info, _template(folder))


@contextlib.contextmanager
def embedded_stack(work: Path) -> Iterator[Running]:
    """A stack with the packaged encoder and engine."""
    with fresh_stack({**NO_SERVERS, "CTREPORT_SGLANG_URL": "", SWEEP: f"{SITE_SWEEP_S:g}"}, work) as (folder, info):
        yield Running(folder, info, None)


def overhead(work: Path, sizes: Sequence[int], studies: int, rounds: int, idle_s: float, told: Told) -> tuple[list[Block], Mapping[str, float]]:
    """Blocks of each size in turn, after one study that warms everything up; and the idle stack's CPU seconds a second."""
    with overhead_stack(work, SITE_SWEEP_S) as fresh:
        running, blocks, done = fresh.warmed(sizes[0], idle_s), [], 1
        for turn in range(rounds):
            for place, images in enumerate(sizes):
                told((turn * len(sizes) + place) / (rounds * len(sizes)), f"pipeline alone: {studies} studies of {images} images")
                sent = [running.study(images, done + number) for number in range(studies)]
                blocks.append(running.block(sent, before=done))
                done += studies
        return blocks, running.idle_per_s


def embedded(work: Path, studies: int, idle_s: float, told: Told) -> tuple[list[Block], Mapping[str, float]]:
    """One block of phantoms through everything, after one that warms up."""
    with embedded_stack(work) as fresh:
        told(0.0, f"with the embedded models: {studies} phantoms")
        running = fresh.warmed(0, idle_s)
        return [running.block([running.study(0, 1 + number) for number in range(studies)], before=1)], running.idle_per_s


def many(work: Path, studies: int, images: int, told: Told) -> tuple[Block, list[Sample]]:
    """Studies one after the other on one stack, with memory and connections along the way."""
    with overhead_stack(work, 1.0) as running:
        samples: list[Sample] = []
        whole, step = [], max(1, studies // 10)
        for first in range(0, studies, step):
            told(first / studies, f"{first:,} of {studies:,} studies")
            some = [running.study(images, first + number) for number in range(min(step, studies - first))]
            whole.append(running.block(some, samples, before=first))
        total = {name: sum(one.cpu[name] for one in whole) for name in whole[0].cpu}
        wall_s, encoded = sum(one.wall_s for one in whole), sum(one.encoded for one in whole)
        return Block(images, sum(one.studies for one in whole), wall_s, total, encoded), samples


def _template(folder: Path) -> Features:
    """Features of a phantom, as the stack's encoder makes them."""
    from workers.commands.models import write_phantoms

    (files,) = write_phantoms(folder / "template", SEED, 1)
    return wiring.lazy_encoder().encode(sorted(files.glob("2-*.dcm")) or sorted(files.glob("*.dcm")))


def _place_features(template: Features, files: Sequence[str]) -> None:
    """Where the encode step looks for what it made earlier of these very files."""
    encoder, source = wiring.lazy_encoder(), digest_of(files)
    path = wiring.archive().path(wiring.archive().features_path(encoder.identity, source))
    encoder.save_features(replace(template, source=source), path)


def _phantom(folder: Path, seed: int) -> Study:
    from workers.commands.models import write_phantoms

    (files,) = write_phantoms(folder, seed, 1)
    return Study("", len(list(files.glob("*.dcm"))), files)


def _counted() -> tuple[int, int]:
    """Jobs that are drafted, and that have ended in any way."""
    with wiring.store().begin() as work:
        drafted, ended = work.session.execute(text(ENDED)).one()
    return drafted, ended


def _encoded() -> int:
    with wiring.store().begin() as work:
        return int(work.session.execute(text(ENCODED)).scalar_one())


def _reason() -> str:
    with wiring.store().begin() as work:
        return str(work.session.execute(text("SELECT reason FROM jobs WHERE state IN ('failed', 'unsupported') LIMIT 1")).scalar())
