"""Receive speed: ours against DCMTK `storescp` and Orthanc in one run, with the same sender and files, in turn (A, B, C, A, B, C …).

Every measurement starts a fresh receiver with an empty folder on the same file system, sends it one image per association to warm it up, and
throws everything away afterwards. Afterwards the receiver must have every image that it acknowledged; one that lost any has no figures.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pipeline.errors import PipelineError, StorageFull
from pipeline.evaluation import receive_load
from pipeline.evaluation.receive_files import FRAME_BYTES, FRAMES, HUGE, LARGE, SMALL, Pool, warm
from pipeline.evaluation.receive_load import Load
from pipeline.evaluation.receive_peers import Contender, Receiver
from pipeline.evaluation.receive_rows import Measure
from pipeline.evaluation.receive_usage import PeakMemory, cpu_s

SETTLE_S = 0.3  # what was put off until after the answer is work all the same
WARM = 1_000  # studies from here on hold the images that warm up
SPARE_BYTES = 2 << 30
Told = Callable[[float, str], None]


@dataclass(frozen=True)
class Trial:
    """A load and who takes it."""

    load: Load
    contenders: tuple[Contender, ...]


def loads(short: bool) -> list[Load]:
    """What is measured. Few images for default senders: peers as shipped take 20 of them a second."""
    if short:
        return [
            Load(SMALL, 1, 150, True, 2),
            Load(SMALL, 4, 240, True, 2),
            Load(SMALL, 1, 50, False, 2),
            Load(SMALL, 4, 120, False, 2),
        ]
    return [
        Load(SMALL, 1, 300, True, 4),
        Load(SMALL, 4, 600, True, 4),
        Load(SMALL, 8, 800, True, 4),
        Load(SMALL, 1, 100, False, 3),
        Load(SMALL, 4, 200, False, 2),
        Load(SMALL, 8, 240, False, 2),
        Load(LARGE, 1, 2, True, 2),
        Load(LARGE, 4, 4, True, 2),
        Load(LARGE, 8, 8, True, 1),
        Load(LARGE, 1, 2, False, 1),
        Load(HUGE, 1, 1, True, 1),
    ]


def too_large(load: Load, memory_bytes: int) -> bool:
    """Whether the load would drive this machine out of memory: Orthanc takes three times what it receives, the sender once."""
    return load.object != SMALL and load.associations * object_bytes(load) * 4 > memory_bytes


def object_bytes(load: Load) -> int:
    """Size of one object, its header left out."""
    return FRAMES.get(load.object, 1) * FRAME_BYTES


def trials(loads: Sequence[Load], ours: Sequence[Contender], tuned: Sequence[Contender], shipped: Sequence[Contender]) -> list[Trial]:
    """A NODELAY sender meets peers at their best (TCP_NODELAY set); a default sender meets them as shipped, and at their best as well."""
    return [Trial(load, (*ours, *tuned) if load.sender_tcp_nodelay else (*ours, *shipped, *tuned)) for load in loads]


def run(trials: Sequence[Trial], folder: Path, told: Told) -> Iterator[Measure]:
    """Measure every trial, contenders in turn. `told` hears the share done and what comes next. Raises StorageFull when the disk is too small."""
    pool, done = Pool(folder / "files"), 0
    require_room(folder, [trial.load for trial in trials])
    total = sum(trial.load.rounds * len(trial.contenders) for trial in trials)
    for trial in trials:
        files = prepared(pool, trial.load)
        for number in range(trial.load.rounds):
            for contender in trial.contenders:
                told(done / total, f"{contender.what}: {trial.load}")
                yield measured(contender, files, number, folder / "round")
                done += 1


@dataclass(frozen=True)
class Files:
    """A load's files: a share per association, one small image per association to warm up with, and the shares' size in MB."""

    load: Load
    shares: list[list[Path]]
    warming: list[list[Path]]
    megabytes: float

    @property
    def all(self) -> list[Path]:
        """Every file that the receiver gets."""
        return [path for share in (*self.warming, *self.shares) for path in share]


def prepared(pool: Pool, load: Load) -> Files:
    """Files of a load, in the page cache."""
    shares = pool.shares(load.object, load.associations, load.images)
    return Files(load, shares, [pool.files(SMALL, WARM + number, 1) for number in range(load.associations)], warm(shares) / 1e6)


def require_room(folder: Path, loads: Sequence[Load]) -> None:
    """The files themselves, one round of the largest load, and some to spare. Raises StorageFull."""
    sizes = [load.images * object_bytes(load) for load in loads]
    need, free = sum(sizes) + max(sizes) + SPARE_BYTES, shutil.disk_usage(folder).free
    if free < need:
        raise StorageFull(f"{folder} has {free >> 20} MiB free and the benchmark needs {need >> 20}: make room or choose another folder (--work)")


def measured(contender: Contender, files: Files, number: int, folder: Path) -> Measure:
    """One measurement in a folder that is made for it and gone afterwards. What goes wrong is in `failed`."""
    failure = Measure(contender.what, contender.receiver_tcp_nodelay, files.load, number)
    folder.mkdir()
    try:
        with contender.running(folder) as receiver:
            measure = _loaded(failure, receiver, files, folder)
            receiver.stop()
            lost = receiver.lost(files.all)
        return replace(failure, failed=measure.failed or lost) if measure.failed or lost else measure
    except PipelineError as error:
        return replace(failure, failed=str(error))
    finally:
        shutil.rmtree(folder)
        os.sync()  # the next one must not wait for what this one left to the disk


def _loaded(blank: Measure, receiver: Receiver, files: Files, folder: Path) -> Measure:
    nodelay = files.load.sender_tcp_nodelay
    receive_load.send(files.warming, receiver.port, folder, nodelay)
    cpu_before_s, served_before_s = _used_s(receiver)
    with PeakMemory(receiver.pid) as memory:
        sent = receive_load.send(files.shares, receiver.port, folder, nodelay)
        time.sleep(SETTLE_S)
        after_s, served_after_s = _used_s(receiver)
    return replace(
        blank,
        seconds=sent.seconds,
        images=sent.succeeded,
        megabytes=files.megabytes,
        cpu_s=after_s - cpu_before_s,
        database_cpu_s=served_after_s - served_before_s,
        peak_mb=memory.mb,
        peak_pss_mb=memory.pss_mb,
        failed="" if sent.succeeded == files.load.images else f"{files.load.images} images were sent, {sent.succeeded} answered with Success",
    )


def _used_s(receiver: Receiver) -> tuple[float, float]:
    return cpu_s(receiver.pid), sum(cpu_s(pid) for pid in receiver.database_pids)
