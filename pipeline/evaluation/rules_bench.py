"""How long the rules take for one report, beside the obvious way: one regular expression with every term as an alternative."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from statistics import median, quantiles
from typing import Any

from pipeline.checking import CheckContext, RuleSet
from pipeline.irradiation import DoseEvent
from pipeline.model import Report
from pipeline.rules.analysis import analysed
from pipeline.rules.checks import CHECKS, EDITS, run
from pipeline.rules.lexicon import compiled, forms
from pipeline.rules.seed import seed_ruleset
from pipeline.rules.spans import folded

TOKENS_PER_CHARACTER = 0.6  # of Chinese text (DeepSeek API documentation, "Token & Token Usage")
DAY = date(2026, 1, 15)
# one report as it is dictated: findings with places, sizes and margins, absent findings, past and uncertain ones, and what a dose warning needs
FINDINGS = (
    "胸廓对称，气管居中，双肺纹理清晰。左肺上叶尖后段见毛玻璃结节，大小约8mm×6mm，边界清晰，其内血管纹理可辨。右肺下叶背段见片状实变影，"
    "范围约23mm×15mm，边界模糊，可见支气管充气征。双肺散在条索影，右肺中叶见一钙化灶，直径约4mm。双侧肺门未见增大，气管、支气管通畅。"
    "纵隔居中，4R组淋巴结稍大，短径约9mm，余未见肿大淋巴结。心影大小、形态正常，主动脉及冠状动脉壁见钙化。左侧胸腔见少量胸水，右侧胸腔未见积液。"
    "肝S8段见类圆形低密度影，直径约1.2cm，CT值约12HU，考虑囊肿可能。胆囊未见结石，壁不厚。脾脏、胰腺未见异常。左肾见囊肿，直径约15mm。双侧肾上腺未见增粗。"
    "所示胸椎退行性变，骨质未见明显骨折及骨质破坏征象，双侧腋窝未见肿大淋巴结。"
)
IMPRESSION = (
    "1. 左肺上叶尖后段磨玻璃结节，约8mm，原位腺癌可能。2. 右肺下叶背段实变影，考虑炎性可能，转移不除外。3. 双肺纤维灶，右肺中叶钙化灶。"
    "4. 左侧胸腔少量积液。5. 主动脉及冠状动脉钙化。6. 肝囊肿可能，左肾囊肿。"
)
ADVICE = "建议抗感染治疗后复查胸部CT，3个月后复查左肺上叶结节，必要时增强扫描或穿刺活检。"
ROUNDS = {True: 100, False: 1000}
TICK = 50  # rounds between signs of life: a progress bar must not share the time that is measured


@dataclass(frozen=True, slots=True)
class Task:
    """What is measured, under which name."""

    what: str
    once: Callable[[], object]


def measure(short: bool, ticked: Callable[[float, str], None] = lambda share, line: None) -> list[dict[str, Any]]:
    """Rows of `ctreport bench rules`: the engine, its parts, and the naive peer, each in turn within one run."""
    ruleset = seed_ruleset()
    compiling, _ = _took(lambda: compiled(ruleset))
    tasks, rounds = list(_tasks(ruleset)), ROUNDS[short]
    taken: dict[str, list[tuple[float, float]]] = {task.what: [] for task in tasks}
    for number in range(rounds):
        for task in tasks:
            task.once()  # what ran before it leaves the processor's caches as it likes
            if task.what != PEER or number % 10 == 0:  # the peer takes so long that every tenth round is enough
                taken[task.what].append(_took(task.once))
        if number % TICK == 0:
            ticked(number / rounds, f"round {number + 1} of {rounds}")
    rows = [_row(what, seconds) for what, seconds in taken.items()]
    engine = rows[0]
    characters = len(_text())
    engine |= {"terms": len(ruleset.lexicon), "forms": forms(ruleset.lexicon)}
    engine |= {"characters": characters, "tokens": round(TOKENS_PER_CHARACTER * characters)}
    engine |= {"compile_ms": round(1000 * compiling, 1), "speedup_vs_regex": round(_median(rows, PEER) / _median(rows, MATCHING), 1)}
    return rows


PEER = "regex alternation, finds the same terms"
MATCHING = "terms alone, as ctreport finds them"
READING = "reading: terms, scopes, measures, places"


def report() -> Report:
    """The measured report: some 300 tokens."""
    return Report(FINDINGS, IMPRESSION, ADVICE)


def context() -> CheckContext:
    """A patient past the threshold of the dose rule, so that it has to write its warning."""
    doses = tuple(DoseEvent(f"{number}", DAY - timedelta(days=20 * number), "chest", 400.0, 8.0) for number in range(1, 9))
    return CheckContext(DAY, doses, covers=("肺", "纵隔", "心脏", "肝", "胆囊", "脾", "胰腺", "肾"), contrast=False, sex="F", age_years=61.0)


def _text() -> str:
    return "".join(report().sections().values())


def _tasks(ruleset: RuleSet) -> Iterator[Task]:
    written, known = report(), context()
    text = folded(_text())
    lexicon = compiled(ruleset)
    naive = re.compile("|".join(sorted(map(re.escape, lexicon.entries), key=len, reverse=True)))
    yield Task("ctreport", lambda: run(written, ruleset, known))
    yield Task(PEER, lambda: naive.findall(text))
    yield Task(MATCHING, lambda: lexicon.tokens(text))
    yield Task(READING, lambda: analysed(written, ruleset, known))
    for edit in EDITS:
        yield Task(f"rule {edit.id}", lambda edit=edit: edit.function(written, ruleset, known))  # type: ignore[misc]  # mypy cannot type a default
    analysis = analysed(written, ruleset, known)
    for check in CHECKS:
        yield Task(f"rule {check.id}", lambda check=check: check.function(analysis))  # type: ignore[misc]  # mypy cannot type a default


def _took(once: Callable[[], object]) -> tuple[float, float]:
    """Seconds on the clock, and of the processor: on a machine that others use as well only the second are the engine's own."""
    began, worked = time.perf_counter(), time.thread_time()
    once()
    return time.perf_counter() - began, time.thread_time() - worked


def _row(what: str, taken: list[tuple[float, float]]) -> dict[str, Any]:
    clock, processor = [one for one, _ in taken], [one for _, one in taken]
    figures = {"median_ms": median(clock), "p95_ms": quantiles(clock, n=20)[-1], "cpu_median_ms": median(processor)}
    return {"what": what} | {name: round(1000 * seconds, 3) for name, seconds in figures.items()} | {"runs": len(taken)}


def _median(rows: list[dict[str, Any]], what: str) -> float:
    return float(next(row["cpu_median_ms"] for row in rows if row["what"] == what))
