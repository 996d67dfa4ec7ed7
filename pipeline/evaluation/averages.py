"""Means and shares with a 95 % interval."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

Figure = dict[str, float | None]
RESAMPLES = 1000
Z = 1.96
NOTHING: Figure = {"value": None, "low": None, "high": None}


def mean(values: Sequence[float]) -> Figure:
    """The mean and its bootstrap interval; None for no values."""
    if not values:
        return dict(NOTHING)
    data = np.asarray(values, dtype=float)
    drawn = data[np.random.default_rng(0).integers(len(data), size=(RESAMPLES, len(data)))].mean(axis=1)
    low, high = np.percentile(drawn, [2.5, 97.5])
    return _figure(float(data.mean()), float(low), float(high))


def share(found: Sequence[bool]) -> Figure:
    """The share of yes and Wilson's interval (1927), which is never of zero width; None for no values."""
    if not found:
        return dict(NOTHING)
    p = sum(found) / len(found)
    return _figure(p, *wilson(p, len(found)))


def wilson(p: float, n: float) -> tuple[float, float]:
    """Wilson's 95 % interval of a share `p` of `n`."""
    middle = (p + Z * Z / (2 * n)) / (1 + Z * Z / n)
    half = Z * float(np.sqrt(p * (1 - p) / n + Z * Z / (4 * n * n))) / (1 + Z * Z / n)
    return max(0.0, middle - half), min(1.0, middle + half)


def _figure(value: float, low: float, high: float) -> Figure:
    return {"value": round(value, 4), "low": round(low, 4), "high": round(high, 4)}
