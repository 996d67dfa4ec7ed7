"""The result of `ctreport eval` as tables: cells for a terminal, Markdown for the README."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pipeline.evaluation.quality_targets import ARTICLES, figure_at

HEAD = ("figure", "value", "95 % interval", "heads alone", "must", "goal", "source articles")
STAGES = {"see": "rendering and encoding", "draft": "drafting"}
IN_MM = frozenset({"size_mae_mm"})
MEANINGS: Mapping[str, str] = {
    "json_valid": "answers that are JSON and fit the schema",
    "lesion_f1": "lung lesions, matched by coordinates",
    "lesion_recall": "lung lesions found",
    "small_recall": "of those up to 12 mm",
    "hallucination": "reports with an invented lung lesion, in list or text",
    "hallucination_any": "with anything invented",
    "side_error": "wrong side, in list or text",
    "unflagged_side_error": "of which no rule warns",
    "kind_accuracy": "nodule or consolidation",
    "lobe_accuracy": "lobe",
    "density_accuracy": "density of nodules",
    "margin_accuracy": "margin of nodules",
    "size_mae_mm": "size error, mm",
    "calcified_accuracy": "calcified or not",
    "calcified_f1": "calcification, F1",
    "retraction_accuracy": "pleura retracted or not",
    "retraction_f1": "retraction, F1",
    "term_f1": "standard terms of 描述",
    "four_elements": "部位, 大小, 形态 in 描述 and 建议",
    "agreement": "诊断意见 says what the list says",
    "text_agreement": "描述 says what the list says",
    "effusion_accuracy": "effusion, the right sides",
    "effusion_f1": "effusion, F1 over sides",
    "emphysema_accuracy": "emphysema, the right sides",
    "emphysema_f1": "emphysema, F1 over sides",
    "fibrosis_accuracy": "fibrosis, the right sides",
    "fibrosis_f1": "fibrosis, F1 over sides",
    "node_f1": "enlarged nodes",
    "liver_f1": "liver lesions",
    "liver_kind_accuracy": "their kind",
    "ood.passed": "taken for known by the encoder",
    "shuffled.lesion_f1": "lesion F1 with another phantom's features",
    "counterfactuals.removed": "lesion taken out: it is gone",
    "counterfactuals.mirrored": "lesion in the other lung: the side changes",
    "counterfactuals.density": "other density: it is said",
    "counterfactuals.larger": "8 mm larger: said at least 4 mm larger",
    "counterfactuals.effusion": "effusion added: it is said",
}


def cells(result: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """A line under HEAD for each figure."""
    asked = {one["figure"]: one for one in result["targets"]}
    for path, meaning in MEANINGS.items():
        figure, target = figure_at(result, path), asked.get(path, {})
        alone = result["heads"].get(path, {}).get("value")
        article = ARTICLES.get(path)
        yield (
            f"{path}: {meaning}",
            _number(figure["value"], path),
            _interval(figure, path),
            _number(alone, path),
            _verdict(target, "must"),
            _verdict(target, "goal"),
            "" if article is None else _number(article, path),
        )


def heading(result: Mapping[str, Any]) -> str:
    """How many, which and how long."""
    changed = sum(figure["n"] for figure in result["counterfactuals"].values())
    spent = ", ".join(f"{STAGES[name]} {value:g}" for name, value in result["seconds"].items())
    return (
        f"{result['n']} held-out phantoms (seeds from {result['seed']}, scanners that training never saw), {changed} with one change; "
        f"processor seconds of one: {spent}. Figures on phantoms say nothing about patients."
    )


def real_lines(result: Mapping[str, Any]) -> list[str]:
    """One sentence for each real series."""
    return [f"real series {one['folder']}: {_distance(one)}" for one in result.get("real", ())]


def _distance(one: Mapping[str, Any]) -> str:
    if one["reason"]:
        return str(one["reason"])
    if one["ood"] is None:
        return "this encoder measures no distance"
    return f"distance {one['ood']:.1f}, {'flagged as unlike the phantoms' if one['flagged'] else 'NOT flagged'}"


def markdown(result: Mapping[str, Any]) -> str:
    """The README's table, under where and when."""
    lines = [f"Measured {result['date']} on {result['machine']}; commit {result['commit'] or 'unknown'}. {heading(result)}", ""]
    return "\n".join([*lines, _row(HEAD), _row(["---", *["---:"] * (len(HEAD) - 1)]), *map(_row, cells(result)), "", *real_lines(result)])


def _row(line: Sequence[str]) -> str:
    return "| " + " | ".join(line) + " |"


def _number(value: float | None, path: str) -> str:
    if value is None:
        return "–"
    return f"{value:.2f} mm" if path in IN_MM else f"{100 * value:.1f} %"


def _interval(figure: Mapping[str, float | None], path: str) -> str:
    low, high = figure["low"], figure["high"]
    if low is None or high is None:
        return "–"
    return f"{low:.2f} – {high:.2f}" if path in IN_MM else f"{100 * low:.1f} – {100 * high:.1f}"


def _verdict(target: Mapping[str, Any], name: str) -> str:
    """≥ 0.9 and whether it is reached, in words."""
    if target.get(name) is None:
        return ""
    reached = target[f"{name}_reached"]
    return f"{target[name]} {'not measured' if reached is None else 'reached' if reached else 'not reached'}"
