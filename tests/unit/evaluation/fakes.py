"""Models without fault for tests of the judge: the encoder knows the phantom's truth, and the drafter writes what the encoder said."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from pipeline.evaluation.answering import Models
from pipeline.evaluation.told import heads
from pipeline.model import Features, Finding
from pipeline.training.phantom import Phantom
from tests.unit.evaluation.writer import proposals, write

Edit = Callable[[list[Finding]], list[Finding]]


def see(phantom: Phantom) -> Features:
    """Perfect features of a phantom, without rendering it."""
    truth = phantom.truth
    sides = {name: tuple(sorted(getattr(truth, name))) for name in ("effusion", "emphysema", "fibrosis")}
    return replace(Features(np.zeros((1, 1), np.float32), "fake", "1", "0", proposals(truth)), **sides)  # type: ignore[arg-type]  # sides of each


def draft(features: Features, edit: Edit = lambda findings: findings) -> str:
    """What the heads say, after an edit, as a report."""
    said = heads(features.candidates, 0.0, features.effusion or (), features.emphysema or (), features.fibrosis or ())
    return write(edit([*said.findings]))


def perfect() -> Models:
    """Each process of an evaluation may load these."""
    return Models(see, draft)


def heads_only() -> Models:
    """An encoder without fault and no drafter."""
    return Models(see, None)


def faulty(edit: Edit) -> Models:
    """A drafter that writes every list edited."""
    return Models(see, lambda features: draft(features, edit))


def failing() -> Models:
    """Models that are not there."""
    raise OSError("no weights")
