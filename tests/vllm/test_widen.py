"""The wider folder is the same model."""

from __future__ import annotations

from pathlib import Path

import torch

from pipeline.engine.checkpoint import load
from pipeline.engine.seeded import write_seeded_checkpoint
from tests.vllm.widen import SIZES, widen


def test_a_widened_folder_has_the_same_logits_and_drafts(tmp_path: Path) -> None:
    write_seeded_checkpoint(tmp_path / "narrow", feature_dim=12)
    narrow, wide = (load(folder).model for folder in (tmp_path / "narrow", widen(tmp_path / "narrow", tmp_path / "wide")))
    assert {key: getattr(wide.config, key) for key in SIZES} == SIZES
    ids = torch.randint(4, narrow.config.vocab_size, (2, 40), generator=torch.Generator().manual_seed(0))
    hidden = narrow(ids)
    assert torch.allclose(wide(ids), hidden, atol=1e-4)
    assert torch.allclose(wide.draft(ids, hidden), narrow.draft(ids, hidden), atol=1e-4)
