"""Figures over many reports, each with a 95 % bootstrap interval over the phantoms; Wilson's where nothing or everything was right, which no
resampling would ever doubt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from pipeline.evaluation.averages import NOTHING, Figure, wilson
from pipeline.evaluation.score import Tally

RESAMPLES = 1000
Sums = Mapping[str, NDArray[np.float64]]  # name of a count → (R,) sums, one per resample


@dataclass(frozen=True, slots=True)
class Ratio:
    """One sum of counts over another; nothing counted gives no figure."""

    top: Mapping[str, float]  # count → how often it goes in
    bottom: Mapping[str, float]
    is_share: bool = True  # False: a mean of something that is measured

    def of(self, sums: Sums) -> NDArray[np.float64]:
        """(R,) values, NaN where nothing was counted."""
        top, bottom = _total(self.top, sums), _total(self.bottom, sums)
        return np.asarray(np.divide(top, bottom, out=np.full(top.shape, np.nan), where=bottom > 0))


def _total(part: Mapping[str, float], sums: Sums) -> NDArray[np.float64]:
    return np.asarray(np.sum([weight * sums[name] for name, weight in part.items()], axis=0), dtype=np.float64)


def _share(top: str, bottom: str) -> Ratio:
    return Ratio({top: 1}, {bottom: 1})


def _f1(name: str = "") -> Ratio:
    """2 found / (2 found + invented + missed)."""
    return Ratio({f"{name}found": 2}, {f"{name}found": 2, f"{name}invented": 1, f"{name}missed": 1})


def _hits(name: str) -> Ratio:
    """F1 of a trait: twice the hits over how often it was said and true."""
    return Ratio({f"{name}_hit": 2}, {f"{name}_sum": 1})


FIGURES: Mapping[str, Ratio] = MappingProxyType(
    {
        "json_valid": _share("valid", "reports"),
        "lesion_f1": _f1(),
        "lesion_recall": Ratio({"found": 1}, {"found": 1, "missed": 1}),
        "small_recall": _share("small_found", "small"),
        "hallucination": _share("inventing", "reports"),
        "hallucination_any": _share("inventing_any", "reports"),
        "side_error": _share("side_wrong", "found"),
        "unflagged_side_error": _share("side_unflagged", "found"),
        "kind_accuracy": _share("kind_right", "found"),
        "lobe_accuracy": _share("lobe_right", "found"),
        "density_accuracy": _share("density_right", "nodules"),
        "margin_accuracy": _share("margin_right", "nodules"),
        "size_mae_mm": Ratio({"size_error_mm": 1}, {"found": 1}, is_share=False),
        "calcified_accuracy": _share("calcified_right", "nodules"),
        "calcified_f1": _hits("calcified"),
        "retraction_accuracy": _share("retraction_right", "nodules"),
        "retraction_f1": _hits("retraction"),
        "term_f1": Ratio({"terms_right": 2}, {"terms_said": 1, "terms_true": 1}),
        "four_elements": _share("complete", "positive"),
        "agreement": _share("agreed", "texts"),
        "text_agreement": _share("described", "texts"),
        "effusion_accuracy": _share("effusion_right", "reports"),
        "effusion_f1": _hits("effusion"),
        "emphysema_accuracy": _share("emphysema_right", "reports"),
        "emphysema_f1": _hits("emphysema"),
        "fibrosis_accuracy": _share("fibrosis_right", "reports"),
        "fibrosis_f1": _hits("fibrosis"),
        "node_f1": _f1("node_"),
        "liver_f1": _f1("liver_"),
        "liver_kind_accuracy": _share("liver_kind_right", "liver_found"),
    }
)


def figures(tallies: Sequence[Tally], seed: int = 0) -> dict[str, Figure]:
    """Every figure as {value, low, high}; None where nothing was counted (no finding, no lesion)."""
    table = {name: np.array([one[name] for one in tallies], dtype=np.float64) for name in tallies[0]}  # (n,) each
    weights = _resampled(len(tallies), seed)
    point = {name: column.sum(keepdims=True) for name, column in table.items()}
    drawn = {name: weights @ column for name, column in table.items()}
    return {name: _figure(ratio, point, drawn) for name, ratio in FIGURES.items()}


def _resampled(n: int, seed: int) -> NDArray[np.float64]:
    """(R, n): how often each report stands in each resample."""
    rng = np.random.default_rng(seed)
    return rng.multinomial(n, np.full(n, 1 / n), size=RESAMPLES).astype(np.float64)


def _figure(ratio: Ratio, point: Sums, drawn: Sums) -> Figure:
    value = float(ratio.of(point)[0])
    if np.isnan(value):
        return dict(NOTHING)
    certain = ratio.is_share and value in (0.0, 1.0)
    low, high = wilson(value, float(_total(ratio.bottom, point)[0])) if certain else np.nanpercentile(ratio.of(drawn), [2.5, 97.5])
    return {"value": round(value, 4), "low": round(float(low), 4), "high": round(float(high), 4)}
