"""The shipped fake: a drafter without a model, for tests and for breaking things on purpose."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pipeline.drafting.schema import LUNGS, MAX_LESIONS, MAX_SIZE_MM, dumps
from pipeline.errors import PipelineError
from pipeline.model import Candidate, DraftAnswer, DraftSource, Features, Generation, Side

RUNG = "fake"


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
    """A schema-valid report that names each candidate once whose lobe and density are known."""
    known = [candidate for candidate in features.candidates if candidate.lobe and candidate.density]
    lesions = [_lesion(candidate) for candidate in known[:MAX_LESIONS]]
    sides = frozenset(features.effusion or ())
    effusion = "双侧" if len(sides) > 1 else next((f"{side}侧" for side in sides), "无")
    named = [f"{item['侧别']}{item['肺叶']}{item['密度']}{item['类型']}，约{item['大小mm']}mm。" for item in lesions]
    named += [] if effusion == "无" else [f"{effusion}胸腔积液。"]
    text = "".join(named) or "胸部CT平扫未见明显异常。"
    return {"检查所见": {"病灶": lesions, "胸腔积液": effusion, "描述": text}, "诊断意见": text[:400], "建议": "建议随访。"}


def _lesion(candidate: Candidate) -> dict[str, Any]:
    return {
        "候选": candidate.index,
        "类型": candidate.kind,
        "侧别": LUNGS[0] if candidate.side is Side.LEFT else LUNGS[1],
        "肺叶": candidate.lobe,
        "密度": candidate.density,
        "大小mm": min(MAX_SIZE_MM, max(1, round(candidate.size_mm))),
    }
