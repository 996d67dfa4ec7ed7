"""What came of each phantom, as lines of JSON that a later run reads again: everything that scoring needs, and no features."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pipeline.encoder.compact import OUTLYING
from pipeline.model import Candidate, Features, Side
from pipeline.training.truth import SIDED, Truth


@dataclass(frozen=True, slots=True)
class Answer:
    """One rendered phantom, what the encoder said of it and what the drafter wrote (None: nobody drafted)."""

    truth: Truth
    candidates: tuple[Candidate, ...]
    effusion: tuple[Side, ...]
    emphysema: tuple[Side, ...]
    fibrosis: tuple[Side, ...]
    ood: float | None
    outlying: bool  # the encoder says that such a volume is none of those it was validated on
    text: str | None
    seconds: Mapping[str, float]  # of the processor, by stage

    @classmethod
    def of(cls, truth: Truth, features: Features, text: str | None, seconds: Mapping[str, float]) -> Answer:
        """What is kept of features and text."""
        sides = (features.effusion or (), features.emphysema or (), features.fibrosis or ())
        return cls(truth, features.candidates, *sides, features.ood, OUTLYING in features.flags, text, seconds)

    def to_json(self) -> dict[str, Any]:
        """Plain values; `from_json` is the way back."""
        return asdict(self) | {"truth": self.truth.to_json()}

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Answer:
        """An answer as `to_json` wrote it."""
        values = dict(raw) | {name: tuple(Side(side) for side in raw[name]) for name in SIDED}
        values["candidates"] = tuple(_candidate(one) for one in raw["candidates"])
        return cls(**values | {"truth": Truth.from_json(raw["truth"])})


@dataclass(frozen=True, slots=True)
class Changed:
    """The same phantom with one change. `lesion` is the number of the changed lesion in the truth before, None for what is no lesion."""

    what: str
    lesion: int | None
    answer: Answer


@dataclass(frozen=True, slots=True)
class Case:
    """One seed: the phantom as it is, and with single changes where those were asked for (None: they were not)."""

    seed: int
    plain: Answer
    changed: tuple[Changed, ...] | None = None

    def line(self) -> str:
        """One line of JSON."""
        changed = None
        if self.changed is not None:
            changed = [{"what": one.what, "lesion": one.lesion, "answer": one.answer.to_json()} for one in self.changed]
        return json.dumps({"seed": self.seed, "plain": self.plain.to_json(), "changed": changed}, ensure_ascii=False) + "\n"

    @classmethod
    def read(cls, line: str) -> Case:
        """A case as `line` wrote it."""
        raw = json.loads(line)
        changed = None
        if raw["changed"] is not None:
            changed = tuple(Changed(one["what"], one["lesion"], Answer.from_json(one["answer"])) for one in raw["changed"])
        return cls(raw["seed"], Answer.from_json(raw["plain"]), changed)


def read_cases(folder: Path) -> Iterator[Case]:
    """Every whole line of the folder's files; one that a killed run left half written is none."""
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
            if line.endswith("\n"):
                yield Case.read(line)


def mend(path: Path) -> None:
    """Cut off the half line that a killed run left, so that the next line begins a new one."""
    if path.exists():
        body = path.read_bytes()
        if not body.endswith(b"\n"):
            path.write_bytes(body[: body.rfind(b"\n") + 1])


def _candidate(raw: Mapping[str, Any]) -> Candidate:
    return Candidate(**dict(raw) | {"side": Side(raw["side"]), "center_mm": tuple(raw["center_mm"])})
