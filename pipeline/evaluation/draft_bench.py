"""`ctreport bench draft` without its end-to-end part: sections, decoding alone, and the Pareto sweep, on every engine there is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from pipeline.drafting.generator import Generator
from pipeline.drafting.schema import ADVICE, DESCRIPTION, FINDINGS, IMPRESSION
from pipeline.drafting.served import ServedGenerator
from pipeline.encoder.features import load_features
from pipeline.engine.generate import Engine
from pipeline.evaluation import draft_decode, draft_pareto, draft_rows, draft_terms, draft_ways
from pipeline.evaluation.cases import HELD_OUT, drawn
from pipeline.evaluation.decode_texts import Case, Told, from_files, held_out
from pipeline.evaluation.draft_pareto import Known
from pipeline.model import DEPARTMENTS, Candidate, Features
from pipeline.training.truth import Truth

BY_SECTION: Mapping[str, int] = {FINDINGS: 6, DESCRIPTION: 6, IMPRESSION: 3, ADVICE: 3}  # long in the findings, short behind: the source article
SECTIONS, DECODE, PARETO = "sections", "decode", "pareto"


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is measured."""

    scans: int = 20
    departments: tuple[str, ...] = tuple(DEPARTMENTS)
    ks: tuple[int, ...] = (1, 2, 4, 6, 8)
    by_section: Mapping[str, int] = field(default_factory=lambda: BY_SECTION)
    load: draft_decode.Load = field(default_factory=draft_decode.Load)
    heats: tuple[tuple[float, float], ...] = draft_pareto.HEATS
    pareto_ks: tuple[int | None, ...] = draft_pareto.KS
    word_heats: tuple[float, ...] = draft_terms.HEATS
    flow_studies: int = 5

    @classmethod
    def short(cls) -> Self:
        """Some minutes on the packaged model."""
        load = draft_decode.Load().short()
        return cls(3, ks=(2, 4), load=load, heats=draft_pareto.HEATS[2:4], pareto_ks=(0, 4, None), word_heats=draft_terms.HEATS[:2], flow_studies=1)


@dataclass(frozen=True)
class Engines:
    """Who drafts: the embedded engine and the checkpoint folder that it is, each draft server, and how a site asks a server."""

    embedded: Generator
    folder: Path
    served: Mapping[str, ServedGenerator]
    wrap: Callable[[Generator], Generator] = lambda generator: generator


@dataclass(frozen=True, eq=False)
class Scan:
    """One scan to draft; the truth is None of a features file that nobody knows more about."""

    case: Case
    candidates: tuple[Candidate, ...] = ()
    truth: Truth | None = None

    @property
    def features(self) -> Features:
        """As a drafter takes them."""
        return Features(self.case.features, "bench", "", "", self.candidates)


def scans(files: Sequence[Path], encoder: Path, count: int, work: Path, told: Told) -> list[Scan]:
    """The scans of features files, else the first `count` held-out phantoms. Raises BadInput or ModelMissing."""
    if files:
        return [Scan(case) for case in from_files(files[:count])]
    cases = held_out(encoder, count, work, told)
    seeds = range(HELD_OUT, HELD_OUT + count)
    folders = {path.name: path for path in work.glob("*/phantom-*.safetensors")}
    candidates = [load_features(folders[f"phantom-{seed}.safetensors"]).candidates for seed in seeds]
    return [Scan(case, seen, drawn(seed).truth) for case, seen, seed in zip(cases, candidates, seeds, strict=True)]


def measure(parts: Sequence[str], engines: Engines, those: Sequence[Scan], plan: Plan, told: Told) -> dict[str, Any]:
    """Draft the scans with every contender: n, departments, rows, failures, notes. Raises as the engines do, but for BadDraft, which is counted."""
    result: dict[str, Any] = {
        "n": len(those),
        "departments": list(plan.departments),
        "rows": [],
        "failures": [],
        "notes": _notes(engines.served),
    }
    makers = {SECTIONS: _sections, DECODE: _decode, PARETO: _pareto, draft_terms.TERMS: _terms}
    for part in parts:
        made = makers[part](engines, those, plan, told)
        for key in ("rows", "failures", "notes"):
            result[key] += made.get(key, [])
    return result


def _sections(engines: Engines, those: Sequence[Scan], plan: Plan, told: Told) -> dict[str, list[Any]]:
    served = {name: engines.wrap(one) for name, one in engines.served.items()}
    contenders = draft_ways.contenders(engines.embedded, served, plan.ks, plan.by_section)
    taken = list(draft_ways.run(contenders, [scan.features for scan in those], plan.departments, told))
    failures = [one for one in taken if isinstance(one, draft_ways.Failure)]
    found = draft_rows.rows([one for one in taken if isinstance(one, draft_ways.Part)], failures, plan.departments)
    failed = [f"{one.engine} {one.way}, {one.mode}, {one.department}: {one.reason}" for one in failures]
    return {"rows": found, "failures": list(dict.fromkeys(failed)), "notes": draft_rows.alarms(found)}


def _decode(engines: Engines, those: Sequence[Scan], plan: Plan, told: Told) -> dict[str, list[Any]]:
    writers = draft_decode.writers(Engine.load(engines.folder), engines.served, those[0].case, plan.load.tokens_in)
    found = draft_decode.rows(list(draft_decode.run(writers, plan.load, told)))
    return {"rows": found, "notes": draft_decode.notes(found)}


def _pareto(engines: Engines, those: Sequence[Scan], plan: Plan, told: Told) -> dict[str, list[Any]]:
    known = [Known(scan.case, scan.candidates, scan.truth) for scan in those if scan.truth is not None]
    if not known:
        return {"notes": ["the Pareto sweep needs scans whose findings are known: it is made on phantoms, not on --features"]}
    writers = {draft_ways.EMBEDDED: draft_pareto.embedded_writer(Engine.load(engines.folder))}
    writers |= {name: draft_pareto.served_writer(one) for name, one in engines.served.items()}
    settings = draft_pareto.settings_of(engines.served, plan.pareto_ks, plan.heats)
    return {"rows": draft_pareto.rows(list(draft_pareto.run(writers, settings, known, told)), known)}


def _terms(engines: Engines, those: Sequence[Scan], plan: Plan, told: Told) -> dict[str, list[Any]]:
    engine = Engine.load(engines.folder)
    return {"rows": list(draft_terms.rows(engines.embedded, engine, [scan.features for scan in those], plan.departments, plan.word_heats, told))}


def _notes(served: Mapping[str, ServedGenerator]) -> list[str]:
    if not served:
        return ["no draft server is configured (CTREPORT_SGLANG_URL, CTREPORT_VLLM_URL): only the embedded engine was measured"]
    if draft_ways.SERVED_PLAIN not in served and any(name.startswith("sglang") for name in served):
        return ["no SGLang server without MTP is configured (CTREPORT_SGLANG_PLAIN_URL): the one with MTP has nothing to be compared with"]
    return []
