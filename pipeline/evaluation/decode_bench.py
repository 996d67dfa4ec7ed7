"""`ctreport bench decode` as a whole: the parts one after the other, then what was asked of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import torch

from pipeline.engine.generate import Engine
from pipeline.evaluation import decode_batches, decode_beams, decode_rows, decode_run, decode_steady
from pipeline.evaluation.decode_contenders import KS, PLAIN, Contender, ours
from pipeline.evaluation.decode_peers import peers, version
from pipeline.evaluation.decode_run import Taken
from pipeline.evaluation.decode_targets import verdicts
from pipeline.evaluation.decode_texts import Case, Told


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is measured: texts of each part, rounds, draft lengths, branches of the beam search."""

    texts: int = 40
    peer_texts: int = 10
    ks: tuple[int, ...] = KS
    batch_texts: int = 16
    batch_rounds: int = 3
    steady_texts: int = 24
    steady_batch: int = 8
    steady_rounds: int = 5
    beam_texts: int = 6
    width: int = 4

    @classmethod
    def short(cls) -> Self:
        """A minute or two on the packaged model."""
        return cls(5, 2, (1, 2, 4, 6, 8), batch_texts=8, batch_rounds=1, steady_texts=4, steady_batch=2, steady_rounds=2, beam_texts=1)

    def of(self, texts: int) -> Self:
        """The same with another number of texts."""
        return replace(self, texts=texts)


def measure(engine: Engine, folder: Path, cases: Sequence[Case], plan: Plan, told: Told) -> dict[str, Any]:
    """Every part with the cases, all in this thread: model, versions, n, rows, targets, notes. `folder` is the engine's checkpoint."""
    others, notes = peers(folder, engine, cases[0], plan.peer_texts, told)
    taken = list(decode_run.run([*ours(engine, plan.ks), *others], cases, told))
    rows = [*decode_rows.rows(taken), *_parts(engine, cases, plain_lengths(taken), plan, told)]
    return {
        "model": f"{engine.card.get('name')} {engine.digest[:12]}",
        "versions": ", ".join(name for name in (f"torch {torch.__version__}", version()) if name),
        "threads": torch.get_num_threads(),
        "n": len(cases),
        "tokens": plain_lengths(taken),
        "rows": rows,
        "targets": verdicts(rows),
        "notes": [*notes, *_told(others)],
    }


def _parts(engine: Engine, cases: Sequence[Case], lengths: Sequence[int], plan: Plan, told: Told) -> Iterator[dict[str, Any]]:
    yield from decode_batches.rows(list(decode_batches.run(engine, cases, plan.batch_texts, plan.batch_rounds, told)))
    places = decode_steady.mixed(lengths, plan.steady_texts)
    if places:
        mix, tokens = [cases[place] for place in places], [lengths[place] for place in places]
        yield from decode_steady.rows(list(decode_steady.run(engine, mix, tokens, plan.steady_batch, plan.steady_rounds, told)), plan.steady_batch)
    yield from decode_beams.rows(list(decode_beams.run(engine, cases[: plan.beam_texts], plan.width, told)), plan.width)


def plain_lengths(taken: Sequence[Taken]) -> list[int]:
    """Tokens of each case's plain text, in the order of the cases."""
    return [one.tokens for one in taken if one.what == PLAIN]


def _told(others: Sequence[Contender]) -> list[str]:
    if not others:
        return []
    return [
        f"transformers writes without a grammar, as many tokens at most as the plain text and an end token, on the first {others[0].texts} texts; "
        "its mtp drafts one token a step and reads the MTP weights from disk at every call"
    ]
