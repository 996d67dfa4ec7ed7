"""The tokens that a checkpoint writes for the self-check's questions: what any server of it must write too.

They stand beside the checkpoint in reference.json (`ctreport model reference`), or are made by the embedded engine where the weights are small.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pipeline.drafting.prompt import section_prompt, section_schema
from pipeline.drafting.schema import DESCRIPTION, FINDINGS
from pipeline.errors import ModelMissing

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pipeline.engine.generate import Engine

FILE = "reference.json"
ROWS = 24  # feature rows of the second question
INDICATION = "体检"
MAX_TOKENS = 400  # more than any findings take
TEXT_TOKENS = 160
SEEN = (  # findings that the last question asks to be put into words
    '{"病灶": [{"候选": 1, "类型": "结节", "侧别": "左肺", "肺叶": "上叶", "密度": "实性", "大小mm": 12, "边缘": "毛刺", "内部结构": "均匀", '
    '"周围改变": "无"}], "淋巴结": [{"候选": 2, "部位": "纵隔", "短径mm": 11}], "肝脏": [], "胸腔积液": "左侧", "肺气肿": "无", "纤维化": "无"}'
)
SMALL_BYTES = 1 << 30  # weights that the embedded engine may load to make a reference


@dataclass(frozen=True, slots=True)
class Probe:
    """One question of the self-check. `ends`: any model ends it, for it has no free text."""

    name: str
    prompt: str
    features: NDArray[np.float32] | None  # (N, D)
    schema: str
    ends: bool = True
    max_tokens: int = MAX_TOKENS


@dataclass(frozen=True, slots=True)
class Reference:
    """Ids for each probe, and at each id how far the second likeliest token was behind, in log-probability."""

    digest: str
    ids: tuple[tuple[int, ...], ...]
    gaps: tuple[tuple[float, ...], ...]


def probes(feature_dim: int) -> tuple[Probe, ...]:
    """The questions, the same everywhere: one of words alone, one with features, and one for a text of some length behind both."""
    features = np.random.default_rng(6).standard_normal((ROWS, feature_dim)).astype(np.float32)  # (N, D)
    schema = section_schema(FINDINGS)
    return (
        Probe("words", section_prompt(FINDINGS, INDICATION, 0), None, schema),
        Probe("features", section_prompt(FINDINGS, INDICATION, ROWS), features, schema),
        Probe(
            "findings",
            section_prompt(DESCRIPTION, INDICATION, ROWS, [SEEN]),
            features,
            section_schema(DESCRIPTION),
            ends=False,
            max_tokens=TEXT_TOKENS,
        ),
    )


def reference_of(folder: Path, digest: str) -> Reference | None:
    """What stands beside the checkpoint, else what the embedded engine writes with small weights; None where there is neither."""
    if (folder / FILE).is_file():
        return _read(folder / FILE, digest)
    from pipeline.engine.headers import weight_files

    files = weight_files(folder)
    if not all(file.is_file() for file in files) or sum(file.stat().st_size for file in files) > SMALL_BYTES:
        return None
    made = make(folder)
    return made if made.digest == digest else None


def make(folder: Path) -> Reference:
    """Let the embedded engine write. Raises ModelMissing when it cannot load the folder."""
    from pipeline.engine.generate import Engine
    from pipeline.engine.policy import Policy

    engine = Engine.load(folder)
    asked = probes(engine.config.ct_feature_dim)
    ids = [
        engine.generate(one.prompt, one.features, schema=one.schema, policy=Policy.plain(jump=False), max_tokens=one.max_tokens).ids for one in asked
    ]
    return Reference(engine.digest, tuple(ids), tuple(_gaps(engine, one, written) for one, written in zip(asked, ids, strict=True)))


def write(folder: Path, reference: Reference) -> Path:
    """Put a reference beside the checkpoint."""
    path = folder / FILE
    value = {"digest": reference.digest, "ids": reference.ids, "gaps": [[_plain(gap) for gap in gaps] for gaps in reference.gaps]}
    path.write_text(json.dumps(value) + "\n", encoding="utf-8")
    return path


def _read(path: Path, digest: str) -> Reference:
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        ids = tuple(tuple(int(token) for token in one) for one in raw["ids"])
        gaps = tuple(tuple(float("inf") if gap is None else float(gap) for gap in one) for one in raw["gaps"])
        found = Reference(str(raw["digest"]), ids, gaps)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelMissing(f"{FILE} cannot be read ({type(error).__name__}); write it again with `ctreport model reference`") from None
    if found.digest != digest:
        raise ModelMissing(f"{FILE} belongs to other weights ('{found.digest[:12]}…'); write it again with `ctreport model reference`")
    return found


def _plain(gap: float) -> float | None:
    """Infinite (there was no second token) is null in JSON."""
    return None if gap == float("inf") else round(gap, 5)


def _gaps(engine: Engine, probe: Probe, written: Sequence[int]) -> tuple[float, ...]:
    """How far the second allowed token was behind the first, at each written id."""
    import torch

    from pipeline.engine.grammar import Grammar

    prompt = engine.tokenizer.encode(probe.prompt)
    rows = None if probe.features is None else torch.from_numpy(probe.features).unsqueeze(0)  # (1, N, D)
    with torch.inference_mode():
        hidden = engine.model(torch.tensor([[*prompt, *written]]), rows)[0, len(prompt) - 1 : -1]  # (n, hidden)
        scores = engine.model.logits(hidden)  # (n, vocab)
    grammar, gaps = Grammar(engine.tokenizer, probe.schema), []
    for row, token in zip(scores, written, strict=True):
        first, second = torch.topk(row + grammar.mask(), 2).values.tolist()
        gaps.append(first - second)
        grammar.consume(token)
    return tuple(gaps)
