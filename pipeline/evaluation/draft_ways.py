"""Ways to draft one study that `ctreport bench draft` compares: in one call or in sections, on each engine, at each draft length."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pipeline.drafting.generator import WHOLE, Ask, Generated, Generator
from pipeline.drafting.schema import FINDINGS
from pipeline.drafting.sections import AS_IT_PLEASES, PLAIN, Lengths, Mode, SectionDrafter
from pipeline.errors import BadDraft
from pipeline.evaluation.decode_texts import Told
from pipeline.model import Features, Found, Generation

PLAIN_WAY, OWN_WAY = "plain", "own policy"
EMBEDDED, SERVED_PLAIN = "embedded", "sglang-plain"
MAX_TOKENS = 600


@dataclass(frozen=True, slots=True)
class Contender:
    """One engine at one draft length. `plain`: the others of its family are compared with it."""

    engine: str
    way: str
    generator: Generator
    lengths: Lengths = field(default_factory=lambda: AS_IT_PLEASES)

    @property
    def plain(self) -> bool:
        """True for decoding without drafts."""
        return self.way == PLAIN_WAY

    @property
    def family(self) -> str:
        """Engines that are compared with each other: SGLang with MTP and the same without."""
        return SERVED_PLAIN.partition("-")[0] if self.engine.startswith("sglang") else self.engine


@dataclass(frozen=True, slots=True)
class Part:
    """One text of a draft as it was written; `department` is empty for the findings, which are made for all of them."""

    engine: str
    family: str
    way: str
    mode: Mode
    department: str
    section: str  # WHOLE of a report in one call
    case: int
    text: str
    seconds: float  # as the caller waited
    cpu_s: float  # of the caller's processor: the embedded engine's work, nothing of a server's
    generation: Generation


@dataclass(frozen=True, slots=True)
class Failure:
    """A draft that did not come."""

    engine: str
    way: str
    mode: Mode
    department: str
    case: int
    reason: str


class Recording:
    """A generator that keeps what it wrote, and how long each text was waited for."""

    def __init__(self, generator: Generator) -> None:
        self._generator = generator
        self.made: list[tuple[str, Generated, float, float]] = []

    @property
    def phantom_only(self) -> bool:
        """As the generator behind it."""
        return self._generator.phantom_only

    def generate(self, ask: Ask, features: Features) -> Generated:
        """One text. Raises as the generator behind it."""
        began, worked = time.perf_counter(), time.thread_time()
        made = self._generator.generate(ask, features)
        self.made.append((ask.section, made, time.perf_counter() - began, time.thread_time() - worked))
        return made


def contenders(embedded: Generator, served: Mapping[str, Generator], ks: Sequence[int], own: Lengths) -> list[Contender]:
    """The embedded engine plain, at its own policy, at each k and by section (`own`); each draft server as it was started."""
    fixed = [Contender(EMBEDDED, f"mtp {k}", embedded, {WHOLE: k}) for k in ks]
    by_section = [Contender(EMBEDDED, "by section", embedded, own)] if own else []
    others = [Contender(name, PLAIN_WAY if name == SERVED_PLAIN else OWN_WAY, generator) for name, generator in served.items()]
    return [Contender(EMBEDDED, PLAIN_WAY, embedded, PLAIN), Contender(EMBEDDED, OWN_WAY, embedded), *fixed, *by_section, *others]


def run(those: Sequence[Contender], scans: Sequence[Features], departments: Sequence[str], told: Told) -> Iterator[Part | Failure]:
    """Draft every scan for every department both ways with every contender, in turn within each scan, each first in its turn.

    One report of each contender before that is not counted: grammars are compiled and caches touched in it.
    """
    for contender in those:
        list(_drafted(contender, scans[0], 0, departments[:1], "sections"))
    for case, features in enumerate(scans):
        told(case / len(scans), f"scan {case + 1} of {len(scans)}")
        turn = case % len(those)
        for contender in (*those[turn:], *those[:turn]):
            for mode in ("sections", "whole"):
                yield from _drafted(contender, features, case, departments, mode)


def _drafted(contender: Contender, features: Features, case: int, departments: Sequence[str], mode: Mode) -> Iterator[Part | Failure]:
    """All departments of one scan: one list of findings for all of them, or a call for each."""
    recording = Recording(contender.generator)
    drafter = SectionDrafter(recording, mode=mode, max_tokens=MAX_TOKENS, lengths=contender.lengths)
    found: Found | None = None
    for department in departments:
        recording.made.clear()
        try:
            if mode == "whole" or found is None:
                found = drafter.find(features, "", department)
            if mode == "sections":
                drafter.write(features, "", found, department)
        except BadDraft as error:
            yield Failure(contender.engine, contender.way, mode, department, case, str(error).partition(";")[0])
        yield from (_part(contender, mode, department, case, *made) for made in recording.made)


def _part(contender: Contender, mode: Mode, department: str, case: int, section: str, made: Generated, seconds: float, cpu_s: float) -> Part:
    whose, who = "" if section == FINDINGS else department, (contender.engine, contender.family, contender.way)
    return Part(*who, mode, whose, section, case, made.text, seconds, cpu_s, made.generation)
