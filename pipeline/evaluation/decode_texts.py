"""The reports that the decoding benchmark writes: features of held-out phantoms, encoded once and kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from pipeline.drafting.prompt import NOT_GIVEN, render
from pipeline.drafting.schema import schema_text
from pipeline.encoder.features import load_features, save_features
from pipeline.engine.generate import Request
from pipeline.evaluation.cases import HELD_OUT, drawn
from pipeline.evaluation.encoding import seeing
from pipeline.evaluation.quality import weights_digest

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MAX_TOKENS = 600
Told = Callable[[float, str], None]


@dataclass(frozen=True, eq=False)
class Case:
    """One report to write, whole and under the report's schema, from the features (N, D) of a scan."""

    name: str
    features: NDArray[np.float32]
    prompt: str
    schema: str

    @classmethod
    def of(cls, name: str, features: NDArray[np.float32]) -> Self:
        """The case of features under the whole report's prompt."""
        return cls(name, features, render(NOT_GIVEN, len(features)), schema_text())

    @property
    def request(self) -> Request:
        """What the engine is asked."""
        return Request(self.prompt, self.features, self.schema, MAX_TOKENS)


def from_files(paths: Iterable[Path]) -> list[Case]:
    """One case per features file. Raises BadInput for a file that is none."""
    return [Case.of(path.stem, load_features(path).array) for path in paths]


def held_out(encoder: Path, count: int, work: Path, told: Told) -> list[Case]:
    """The first `count` held-out phantoms through the encoder of a weights folder; features are kept below `work`, one file each.

    Raises ModelMissing.
    """
    folder = work / weights_digest(encoder, None)
    folder.mkdir(parents=True, exist_ok=True)
    paths = {seed: folder / f"phantom-{seed}.safetensors" for seed in range(HELD_OUT, HELD_OUT + count)}
    missing = [seed for seed, path in paths.items() if not path.is_file()]
    see = seeing(encoder) if missing else None
    for done, seed in enumerate(missing):
        told(done / len(missing), f"encoding phantom {done + 1} of {len(missing)}")
        assert see is not None
        save_features(paths[seed], see(drawn(seed)))
    return from_files(paths.values())
