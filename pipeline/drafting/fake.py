"""The shipped fake: a drafter without a model, for tests and for breaking things on purpose."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pipeline.drafting.schema import KINDS, LIVER_KINDS, LUNGS, MAX_LESIONS, MAX_LIVER, MAX_NODES, MAX_SIZE_MM, NODE_SITES, SPREADS, dumps
from pipeline.errors import PipelineError
from pipeline.model import Candidate, DraftAnswer, DraftSource, Features, Generation, Side

RUNG = "fake"
NODE = "淋巴结"
MARGIN = {"结节": "光滑", "实变": "模糊"}  # where nobody measured it


class FakeDrafter:
    """Writes what the candidates say, always the same. `failures` are raised first, one a call; `texts` are answered next, one a call."""

    def __init__(self, *, phantom_only: bool = True, failures: Iterable[PipelineError] = (), texts: Iterable[str] = ()) -> None:
        self._phantom_only = phantom_only
        self._failures = list(failures)
        self._texts = list(texts)
        self.calls = 0

    @property
    def phantom_only(self) -> bool:
        """As constructed."""
        return self._phantom_only

    def draft(self, features: Features, indication: str, department: str) -> DraftAnswer:
        """The scripted failure or text, else a valid report from `features.candidates`."""
        self.calls += 1
        if self._failures:
            raise self._failures.pop(0)
        text = self._texts.pop(0) if self._texts else dumps(report_of(features))
        generation = Generation(tokens=len(text), verify_count=len(text), accepted_histogram=(len(text),), seconds=0.0)
        return DraftAnswer(text, generation, DraftSource(RUNG, RUNG, "0" * 64, self._phantom_only))


def report_of(features: Features) -> dict[str, Any]:
    """A schema-valid report that names each candidate once, lung lesions only where their lobe and density are known."""
    seen = features.candidates
    lesions = [_lesion(one) for one in seen if one.kind in KINDS and one.lobe and one.density][:MAX_LESIONS]
    nodes = [_node(one) for one in seen if one.kind == NODE][:MAX_NODES]
    liver = [_liver(one) for one in seen if one.kind in LIVER_KINDS][:MAX_LIVER]
    spread = {"胸腔积液": _where(features.effusion), "肺气肿": _where(features.emphysema), "纤维化": _where(features.fibrosis)}
    text = "".join((*map(_of_lesion, lesions), *map(_of_node, nodes), *map(_of_liver, liver), *_of_spread(spread))) or "胸部CT平扫未见明显异常。"
    findings = {"病灶": lesions, NODE: nodes, "肝脏": liver, **spread, "描述": text}
    return {"检查所见": findings, "诊断意见": text[:400], "建议": "建议随访。"}


def _where(sides: Sequence[Side] | None) -> str:
    """The schema's word for these sides."""
    found = frozenset(sides or ())
    return SPREADS[-1] if len(found) > 1 else next((f"{side}侧" for side in found), SPREADS[0])


def _lesion(candidate: Candidate) -> dict[str, Any]:
    return {
        "候选": candidate.index,
        "类型": candidate.kind,
        "侧别": LUNGS[0] if candidate.side is Side.LEFT else LUNGS[1],
        "肺叶": candidate.lobe,
        "密度": candidate.density,
        "大小mm": _whole_mm(candidate),
        "边缘": candidate.margin or MARGIN[candidate.kind],
        "内部结构": "钙化" if candidate.calcified else "均匀",
        "周围改变": "胸膜牵拉" if candidate.retraction else "无",
    }


def _node(candidate: Candidate) -> dict[str, Any]:
    return {"候选": candidate.index, "部位": NODE_SITES[0], "短径mm": _whole_mm(candidate)}


def _liver(candidate: Candidate) -> dict[str, Any]:
    return {"候选": candidate.index, "类型": candidate.kind, "大小mm": _whole_mm(candidate)}


def _whole_mm(candidate: Candidate) -> int:
    return min(MAX_SIZE_MM, max(1, round(candidate.size_mm)))


def _of_lesion(item: dict[str, Any]) -> str:
    return f"{item['侧别']}{item['肺叶']}{item['密度']}{item['类型']}，约{item['大小mm']}mm。"


def _of_node(item: dict[str, Any]) -> str:
    return f"{item['部位']}淋巴结肿大，短径约{item['短径mm']}mm。"


def _of_liver(item: dict[str, Any]) -> str:
    return f"肝内{item['类型']}，约{item['大小mm']}mm。"


def _of_spread(spread: dict[str, str]) -> list[str]:
    named = {"胸腔积液": "{}胸腔积液。", "肺气肿": "{}肺气肿。", "纤维化": "{}肺纤维化。"}
    return [named[kind].format(where) for kind, where in spread.items() if where != SPREADS[0]]
