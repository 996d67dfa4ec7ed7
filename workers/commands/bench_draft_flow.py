"""End to end for `ctreport bench draft`: phantoms are sent by C-STORE to a whole embedded stack, until their reports stand in PostgreSQL."""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any

from pipeline.errors import ServiceUnavailable
from pipeline.settings import settings
from workers import wiring
from workers.embedded.processes import Child
from workers.local import StackInfo, stop_stack, wait_for_stack
from workers.stack import CTREPORT

SEED = 900_500  # held-out phantoms
READY_S, STUDY_S, LOOK_S = 180.0, 600.0, 0.05
ENDS = frozenset({"persist", "failed", "unsupported"})
PLAIN_WAY, OWN_WAY = "plain", "own policy"
# what belongs to a site: a bench leaves its database, broker and archive alone
SITE = tuple(f"CTREPORT_{room}_" for room in ("DATABASE", "REDIS", "ARCHIVE", "DELIVER", "LISTENER", "WEB", "PHANTOM", "ASSEMBLE"))
QUIET_S = "0.5"


@dataclass(frozen=True, slots=True)
class Passed:
    """One study through the whole pipeline, in ms. `total_ms`: from its first image to its row, the wait for completeness included."""

    way: str
    total_ms: float
    assembled_ms: float  # from the end of the wait to the row
    encode_ms: float
    draft_ms: float
    tokens: int


def measure(studies: int, work: Path, told: Callable[[float, str], None]) -> list[dict[str, Any]]:
    """The same phantoms with MTP and without, each on a stack of its own: one row per way. Raises ServiceUnavailable."""
    taken: list[Passed] = []
    for place, (way, changed) in enumerate(_ways().items()):
        with fresh_stack(changed, work) as (folder, info):
            for number in range(studies):
                told((place + number / studies) / len(_ways()), f"end to end, {way}, study {number + 1} of {studies}")
                taken.append(_study(way, folder, info, SEED + number))
    return rows(taken)


def _ways() -> Mapping[str, Mapping[str, str]]:
    """Without drafts (the embedded engine's k, or the server without MTP where one is configured), and as the site is configured."""
    plain = settings().sglang.plain_url
    without = {"CTREPORT_SGLANG_URL": plain, "CTREPORT_SGLANG_TEXT_URL": ""} if plain else {"CTREPORT_DRAFT_K": "0"}
    return {PLAIN_WAY: without, OWN_WAY: {}}


def rows(taken: Sequence[Passed]) -> list[dict[str, Any]]:
    """Medians over the studies; the speed-up is that of the medians, since the stacks ran one after the other."""
    groups = {way: [one for one in taken if one.way == way] for way in dict.fromkeys(one.way for one in taken)}
    return [_row(way, group, groups.get(PLAIN_WAY, [])) for way, group in groups.items()]


def _row(way: str, group: Sequence[Passed], plain: Sequence[Passed]) -> dict[str, Any]:
    def speedup(figure: Callable[[Passed], float]) -> float | None:
        return round(median(map(figure, plain)) / median(map(figure, group)), 2) if plain else None

    names = ("total_ms", "assembled_ms", "encode_ms", "draft_ms", "tokens")
    return {
        "part": "flow",
        "what": f"DICOM to row, {way}",
        "way": way,
        "studies": len(group),
        **{name: round(median(getattr(one, name) for one in group), 1) for name in names},
        "speedup_vs_plain": speedup(lambda one: one.assembled_ms),
        "draft_speedup": speedup(lambda one: one.draft_ms),
    }


def _study(way: str, folder: Path, info: StackInfo, seed: int) -> Passed:
    """Send one phantom and wait for its report."""
    from pipeline.dicom.send import send
    from pipeline.store import queries
    from workers.commands.models import write_phantoms

    (files,) = write_phantoms(folder / "phantoms", seed, 1)
    sent = send([files], "127.0.0.1", info.ports["listener"], settings().listener.aet)
    if sent.failed:
        raise ServiceUnavailable(f"{len(sent.failed)} images of a phantom were not taken; see {folder / 'logs'}")
    study_uid = _study_uid(files)
    deadline = time.monotonic() + STUDY_S
    while time.monotonic() < deadline:
        events = queries.timeline(wiring.store(), study_uid)
        if any(event["action"] in ENDS for event in events):
            return _passed(way, events, queries.study_overview(wiring.store(), study_uid)[0])
        time.sleep(LOOK_S)
    raise ServiceUnavailable(f"no report after {STUDY_S:.0f} s; see {folder / 'logs'}")


def _passed(way: str, events: Sequence[Mapping[str, Any]], study: Mapping[str, Any]) -> Passed:
    """From the database's own times. Raises ServiceUnavailable for a study that came to no report."""
    last = {str(event["action"]): event for event in events}
    if "persist" not in last:
        raise ServiceUnavailable(f"a phantom came to no report: {study['reason']}")
    ended: datetime = last["persist"]["at"]
    drafted = [last[name]["detail"] for name in ("found", "draft") if name in last]
    return Passed(
        way,
        total_ms=1000 * float(study["seconds"]),
        assembled_ms=1000 * (ended - last["assemble"]["at"]).total_seconds(),
        encode_ms=1000 * float(last["encode"]["detail"].get("seconds", 0.0)),
        draft_ms=1000 * sum(float(detail["seconds"]) for detail in drafted),
        tokens=sum(int(detail["tokens"]) for detail in drafted),
    )


def _study_uid(folder: Path) -> str:
    from pydicom import dcmread

    first = next(path for path in sorted(folder.rglob("*.dcm")))
    return str(dcmread(first, specific_tags=["StudyInstanceUID"], stop_before_pixels=True).StudyInstanceUID)


@contextlib.contextmanager
def fresh_stack(changed: Mapping[str, str], work: Path) -> Iterator[tuple[Path, StackInfo]]:
    """`ctreport up` on a fresh folder in mode demo, gone afterwards."""
    kept = dict(os.environ)
    with tempfile.TemporaryDirectory(prefix="ctreport-bench-", dir=work) as name:
        folder = Path(name)
        folder.chmod(0o711)  # PostgreSQL may have to run as nobody
        for key in [key for key in os.environ if key.startswith(SITE)]:
            del os.environ[key]
        os.environ.update({"CTREPORT_MODE": "demo", "CTREPORT_ASSEMBLE_QUIET_S": QUIET_S, **changed})
        wiring.close()
        wiring.data_folder(folder)
        argv = (*CTREPORT, "up", "--data", str(folder), "--port", "0", "--web-port", "0")
        up = Child(argv, folder / "up.log", dict(os.environ), death_signal=signal.SIGTERM)
        try:
            yield folder, wait_for_stack(folder, folder / "up.log", up.alive, READY_S)
        finally:
            wiring.close()
            stop_stack(folder, timeout_s=60.0)
            up.wait(5.0)  # it is gone; here it is only reaped
            os.environ.clear()
            os.environ.update(kept)
            settings.cache_clear()
