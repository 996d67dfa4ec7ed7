"""Figures over many scores, each with a 95 % bootstrap interval over the phantoms."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from pipeline.evaluation.score import Score

RESAMPLES = 1000
Figure = dict[str, float | None]
Counts = Mapping[str, NDArray[np.float64]]  # field of Score → (R,) sums, one per resample


def _ratio(top: NDArray[np.float64], bottom: NDArray[np.float64]) -> NDArray[np.float64]:
    """NaN where nothing was counted."""
    return np.divide(top, bottom, out=np.full_like(top, np.nan), where=bottom > 0)


def _f1(right: NDArray[np.float64], said: NDArray[np.float64], true: NDArray[np.float64]) -> NDArray[np.float64]:
    return _ratio(2 * right, said + true)


FIGURES: Mapping[str, Callable[[Counts], NDArray[np.float64]]] = MappingProxyType(
    {
        "lesion_f1": lambda c: _f1(c["found"], c["found"] + c["invented"], c["found"] + c["missed"]),
        "lesion_recall": lambda c: _ratio(c["found"], c["found"] + c["missed"]),
        "term_f1": lambda c: _f1(c["terms_right"], c["terms_said"], c["terms_true"]),
        "four_elements": lambda c: _ratio(c["complete"], c["found"] + c["invented"]),
        "hallucination": lambda c: c["inventing"] / c["reports"],
        "side_error": lambda c: _ratio(c["side_wrong"], c["found"]),
        "size_mae_mm": lambda c: _ratio(c["size_error_mm"], c["found"]),
        "effusion_accuracy": lambda c: c["effusion_right"] / c["reports"],
        "json_valid": lambda c: c["valid"] / c["reports"],
    }
)


def figures(scores: Sequence[Score], seed: int = 0) -> dict[str, Figure]:
    """Every figure as {value, low, high}; None where nothing was counted (no finding, no lesion)."""
    table = _table(scores)
    rng = np.random.default_rng(seed)
    picks = rng.integers(len(scores), size=(RESAMPLES, len(scores)))  # (R, n)
    point = {name: column.sum(keepdims=True) for name, column in table.items()}
    drawn = {name: column[picks].sum(axis=1) for name, column in table.items()}
    return {name: _figure(float(figure(point)[0]), figure(drawn)) for name, figure in FIGURES.items()}


def _table(scores: Sequence[Score]) -> dict[str, NDArray[np.float64]]:
    columns = {name: np.array([getattr(one, name) for one in scores], dtype=np.float64) for name in Score.__slots__}
    return columns | {"reports": np.ones(len(scores)), "inventing": (columns["invented"] > 0).astype(np.float64)}


def _figure(value: float, drawn: NDArray[np.float64]) -> Figure:
    if np.isnan(value):
        return {"value": None, "low": None, "high": None}
    low, high = np.nanpercentile(drawn, [2.5, 97.5])
    return {"value": round(value, 4), "low": round(float(low), 4), "high": round(float(high), 4)}
