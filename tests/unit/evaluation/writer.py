"""A plain writer of reports: truth → perfect proposals → the JSON text that says them, for judging the judge."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pipeline.evaluation.told import LIVER_KINDS, LUNG_KINDS, NODE, SPREAD, true_findings
from pipeline.model import Candidate, Finding, Side
from pipeline.training.truth import Truth

FORMS = {"实性": "实性结节", "磨玻璃": "磨玻璃结节", "部分实性": "部分实性结节"}
EDGES = {"光滑": "边缘光滑", "分叶": "可见分叶征", "毛刺": "可见毛刺征", "模糊": "边缘模糊"}


def proposals(truth: Truth) -> tuple[Candidate, ...]:
    """What an encoder without fault would propose, in the order of `true_findings`."""
    lungs = [
        Candidate(
            0,
            one.kind,
            one.center_mm,
            one.side,
            one.lobe,
            one.density,
            one.size_mm,
            0.9,
            margin=one.margin,
            calcified=one.calcified,
            retraction=one.retraction,
        )
        for one in truth.lesions
    ]
    nodes = [Candidate(0, NODE, one.center_mm, Side.LEFT, None, None, one.size_mm, 0.9) for one in truth.nodes]
    liver = [Candidate(0, one.kind, one.center_mm, Side.RIGHT, None, None, one.size_mm, 0.9) for one in truth.liver]
    return tuple(replace(one, index=number) for number, one in enumerate((*lungs, *nodes, *liver), 1))


def truths_list(truth: Truth) -> list[Finding]:
    """The truth as a report's list, each finding with the candidate that `proposals` gives it."""
    return [replace(one, candidate=None if one.kind in SPREAD else number) for number, one in enumerate(true_findings(truth), 1)]


def write(
    listed: Sequence[Finding],
    described: Sequence[Finding] | None = None,
    concluded: Sequence[Finding] | None = None,
    advice: str = "建议3个月后复查胸部CT。",
) -> str:
    """One report; texts say what is listed unless they are given findings of their own."""
    told = listed if described is None else described
    last = listed if concluded is None else concluded
    seen: dict[str, Any] = {
        "病灶": [_lesion(one) for one in listed if one.kind in LUNG_KINDS],
        "淋巴结": [{"候选": one.candidate, "部位": "纵隔", "短径mm": one.size_mm} for one in listed if one.kind == NODE],
        "肝脏": [{"候选": one.candidate, "类型": one.kind.removeprefix("肝"), "大小mm": one.size_mm} for one in listed if one.kind in LIVER_KINDS],
    }
    seen |= {kind: next((one.side for one in listed if one.kind == kind), "无") for kind in SPREAD}
    seen |= {"描述": "胸廓对称，气管居中。" + "".join(map(_sentence, told)) + "心影大小、形态正常。"}
    impression = "".join(f"{number}. {_conclusion(one)}" for number, one in enumerate(last, 1)) or "胸部CT平扫未见明显异常。"
    return json.dumps({"检查所见": seen, "诊断意见": impression, "建议": advice}, ensure_ascii=False)


def _lesion(one: Finding) -> dict[str, object]:
    return {
        "候选": one.candidate,
        "类型": one.kind,
        "侧别": one.side,
        "肺叶": one.lobe,
        "密度": one.density,
        "大小mm": one.size_mm,
        "边缘": one.margin,
        "内部结构": one.internal,
        "周围改变": one.surround,
    }


def _sentence(one: Finding) -> str:
    if one.kind in LUNG_KINDS:
        form = "片状实变影" if one.kind == "实变" else FORMS[one.density or ""]
        inside = "内见钙化" if one.internal == "钙化" else "密度均匀"
        around = "邻近胸膜牵拉" if one.surround == "胸膜牵拉" else "未见胸膜牵拉"
        return f"{one.side}{one.lobe}见{form}，大小约{one.size_mm}mm，{EDGES[one.margin or '']}，{inside}，{around}。"
    if one.kind == NODE:
        return f"纵隔见肿大淋巴结，短径约{one.size_mm}mm。"
    if one.kind in LIVER_KINDS:
        return f"肝内见低密度影，直径约{one.size_mm}mm{'' if one.kind == '肝低密度灶' else '，考虑' + one.kind.removeprefix('肝')}。"
    return {"胸腔积液": f"{one.side}胸腔见积液。", "肺气肿": f"{one.side[0]}肺见肺气肿。", "纤维化": f"{one.side[0]}肺见网格影。"}[one.kind]


def _conclusion(one: Finding) -> str:
    if one.kind in LUNG_KINDS:
        return f"{one.side}{one.lobe}{'实变' if one.kind == '实变' else FORMS[one.density or '']}，约{one.size_mm}mm。"
    if one.kind in (NODE, *LIVER_KINDS):
        name = "纵隔淋巴结肿大" if one.kind == NODE else "肝内低密度影" if one.kind == "肝低密度灶" else one.kind
        return f"{name}，约{one.size_mm}mm。"
    return f"{one.side}胸腔积液。" if one.kind == "胸腔积液" else f"{one.side[0]}肺{one.kind.removeprefix('肺')}。"
