"""The shipped fakes: a drafter and a generator without a model, for tests and for breaking things on purpose."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from pipeline.drafting.generator import Ask, Generated
from pipeline.drafting.parse import parse
from pipeline.drafting.schema import (
    ADVICE,
    DESCRIPTION,
    FINDINGS,
    IMPRESSION,
    KINDS,
    LIVER_KINDS,
    LUNGS,
    MAX_LESIONS,
    MAX_LIVER,
    MAX_NODES,
    MAX_SIZE_MM,
    NODE_SITES,
    SPREADS,
    TEXT_LIMITS,
    dumps,
)
from pipeline.drafting.sections import Lengths, Told, findings_in
from pipeline.errors import PipelineError
from pipeline.model import Candidate, DraftAnswer, DraftSource, Features, Found, Generation, Side
from pipeline.ports import quiet
from pipeline.renewing import Kept

RUNG = "fake"
NODE = "淋巴结"
MARGIN = {"结节": "光滑", "实变": "模糊"}  # where nobody measured it


class FakeGenerator:
    """Writes what the candidates say, section by section. `failures` are raised first, one a call; `texts` are answered next, one a call; None as
    a text cuts the answer. `asked` keeps every ask."""

    def __init__(
        self, *, phantom_only: bool = True, failures: Iterable[PipelineError] = (), texts: Iterable[str | None] = (), server: str = ""
    ) -> None:
        self.phantom_only = phantom_only
        self._failures = list(failures)
        self._texts = list(texts)
        self._source = DraftSource(RUNG, RUNG, "0" * 64, phantom_only, server)
        self.asked: list[Ask] = []

    def generate(self, ask: Ask, features: Features) -> Generated:
        """The scripted failure or text, else a valid answer."""
        self.asked.append(ask)
        if self._failures:
            raise self._failures.pop(0)
        text = self._texts.pop(0) if self._texts else dumps(_section(ask.section, report_of(features)))
        k = ask.k if isinstance(ask.k, int) else None
        made = _generation(text or "", k)
        return Generated(text or "", made, self._source, text is not None)


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
        return self._answer(self._texts.pop(0) if self._texts else dumps(report_of(features)))

    def find(self, features: Features, indication: str, department: str = "radiology", lengths: Lengths | None = None, told: Told = quiet) -> Found:
        """The findings of what `draft` answers, which is the first department's report. Raises BadDraft for a scripted text that is no report."""
        whole = self.draft(features, indication, department)
        parse(whole.text)
        return Found(findings_in(whole.text), whole.generation, whole.source, whole)

    def write(
        self,
        features: Features,
        indication: str,
        found: Found,
        department: str,
        lengths: Lengths | None = None,
        told: Told = quiet,
        kept: Kept | None = None,
    ) -> DraftAnswer:
        """The scripted failure or text, else a report that says what the frozen findings say, with the sections that are kept."""
        self.calls += 1
        if self._failures:
            raise self._failures.pop(0)
        answer = self._answer(self._texts.pop(0) if self._texts else dumps(_with(kept, _written(json.loads(found.text)))))
        told(DESCRIPTION, answer.generation.tokens)
        return answer

    def _answer(self, text: str) -> DraftAnswer:
        return DraftAnswer(text, _generation(text), DraftSource(RUNG, RUNG, "0" * 64, self._phantom_only))


def _generation(text: str, k: int | None = None) -> Generation:
    return Generation(tokens=len(text), verify_count=len(text), accepted_histogram=(len(text),), seconds=0.0, k=k)


def report_of(features: Features) -> dict[str, Any]:
    """A schema-valid report that names each candidate once, lung lesions only where their lobe and density are known."""
    return _written(_findings(features))


def _section(section: str, report: dict[str, Any]) -> dict[str, Any]:
    """One section's answer, or the whole report."""
    found = report[FINDINGS]
    if section == FINDINGS:
        return {name: value for name, value in found.items() if name != DESCRIPTION}
    return {section: {**found, **report}[section]} if section else report


def _findings(features: Features) -> dict[str, Any]:
    """The candidates as the schema lists them."""
    seen = features.candidates
    lesions = [_lesion(one) for one in seen if one.kind in KINDS and one.lobe and one.density][:MAX_LESIONS]
    nodes = [_node(one) for one in seen if one.kind == NODE][:MAX_NODES]
    liver = [_liver(one) for one in seen if one.kind in LIVER_KINDS][:MAX_LIVER]
    spread = {"胸腔积液": _where(features.effusion), "肺气肿": _where(features.emphysema), "纤维化": _where(features.fibrosis)}
    return {"病灶": lesions, NODE: nodes, "肝脏": liver, **spread}


def _written(found: Mapping[str, Any]) -> dict[str, Any]:
    """A whole report that says what is found."""
    parts: list[tuple[str, Callable[[dict[str, Any]], str]]] = [("病灶", _of_lesion), (NODE, _of_node), ("肝脏", _of_liver)]
    said = [words(one) for name, words in parts for one in found[name]]
    text = "".join((*said, *_of_spread(found))) or "胸部CT平扫未见明显异常。"
    findings = {**found, DESCRIPTION: text}
    return {FINDINGS: findings, IMPRESSION: text[: TEXT_LIMITS[IMPRESSION]], ADVICE: "建议随访。"}


def _with(kept: Kept | None, report: dict[str, Any]) -> dict[str, Any]:
    """A report with the sections of an earlier one that stay."""
    texts = {} if kept is None else dict(kept.texts)
    described = {name: texts.pop(name) for name in (DESCRIPTION,) if name in texts}
    return {FINDINGS: report[FINDINGS] | described, **{name: texts.get(name, report[name]) for name in (IMPRESSION, ADVICE)}}


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


def _of_spread(found: Mapping[str, Any]) -> list[str]:
    named = {"胸腔积液": "{}胸腔积液。", "肺气肿": "{}肺气肿。", "纤维化": "{}肺纤维化。"}
    return [words.format(found[kind]) for kind, words in named.items() if found[kind] != SPREADS[0]]
