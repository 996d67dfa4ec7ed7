"""What report quality is asked to reach, against what was measured, and what the source articles reached."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

SHUFFLED = "shuffled.lesion_f1"
# published figures of the articles that this project follows; side_error before their fix
ARTICLES: Mapping[str, float] = MappingProxyType({"term_f1": 0.896, "four_elements": 0.854, "hallucination": 0.031, "side_error": 0.187})


@dataclass(frozen=True, slots=True)
class Target:
    """A figure of the result (its path, with dots) at least, or at most, `must` and `goal`."""

    figure: str
    must: float | None
    goal: float | None
    at_most: bool = False

    def reached(self, value: float, asked: float) -> bool:
        """Whether a measured value is good enough."""
        return value <= asked if self.at_most else value >= asked


TARGETS: tuple[Target, ...] = (
    Target("json_valid", 1.0, 1.0),
    Target("lesion_f1", 0.90, 0.93),
    Target("hallucination", 0.06, 0.031, at_most=True),
    Target("side_error", 0.02, 0.01, at_most=True),
    Target("unflagged_side_error", 0.0, 0.0, at_most=True),
    Target("lobe_accuracy", 0.90, 0.93),
    Target("density_accuracy", 0.90, 0.92),
    Target("margin_accuracy", None, 0.75),
    Target("size_mae_mm", 3.0, 2.5, at_most=True),
    Target("four_elements", None, 0.99),
    Target("agreement", 0.98, 0.99),
    Target("counterfactuals.removed", 0.90, 0.95),
    Target("counterfactuals.mirrored", 0.90, 0.95),
    Target("counterfactuals.density", 0.90, 0.95),
    Target("counterfactuals.larger", 0.90, 0.95),
    Target("counterfactuals.effusion", 0.90, 0.95),
    Target("ood.passed", 0.98, None),
    Target(SHUFFLED, 0.5, 0.5, at_most=True),
)


def verdicts(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Each target with what was measured and whether must and goal are reached; None where nothing was measured or asked."""
    return [_verdict(target, figure_at(result, target.figure)["value"]) for target in TARGETS]


def figure_at(result: Mapping[str, Any], path: str) -> dict[str, float | None]:
    """The figure {value, low, high} under a dotted path."""
    found: Any = result
    for name in path.split("."):
        found = found[name]
    return dict(found)


def missed(result: Mapping[str, Any]) -> list[str]:
    """Figures whose must was measured and not reached."""
    return [one["figure"] for one in result["targets"] if one["must_reached"] is False]


def _verdict(target: Target, value: float | None) -> dict[str, Any]:
    sign = "≤" if target.at_most else "≥"
    told: dict[str, Any] = {"figure": target.figure, "measured": value}
    for name, asked in (("must", target.must), ("goal", target.goal)):
        told[name] = None if asked is None else f"{sign} {asked:g}"
        told[f"{name}_reached"] = None if asked is None or value is None else target.reached(value, asked)
    return told
