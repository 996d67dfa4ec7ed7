"""What a fake draft server answers so that it passes for a sound one: the self-check's tokens, and a normal chest for all else."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pipeline.drafting.fake_server import shortest
from pipeline.drafting.reference import Reference, probes
from pipeline.drafting.schema import dumps
from pipeline.drafting.served_model import ServedModel

NORMAL = "胸部CT平扫未见明显异常。"
Answers = Callable[[Mapping[str, Any], Sequence[int]], str | Sequence[int]]


def normal_chest(model: ServedModel, reference: Reference) -> Answers:
    """For `Script.answers`; `reference` holds the self-check's tokens, as the embedded engine writes them."""
    asked = [model.question(one.prompt, one.features, one.schema, one.max_tokens).ids for one in probes(model.feature_dim)]
    known = dict(zip(asked, reference.ids, strict=True))

    def answer(schema: Mapping[str, Any], ids: Sequence[int]) -> str | Sequence[int]:
        return known.get(tuple(ids)) or dumps(_told(shortest(schema)))

    return answer


def _told(said: Any) -> Any:
    """The shortest answer with a sentence for each text that is a lone full stop."""
    if isinstance(said, dict):
        return {name: _told(value) for name, value in said.items()}
    return NORMAL if said == "。" else said
