"""Which model may write which draft."""

from __future__ import annotations

import pytest

from pipeline.errors import NotAllowed
from pipeline.flow.draft import watermark_for
from pipeline.model import DEMO_WATERMARK, WATERMARK


def test_a_phantom_only_model_never_drafts_a_real_study_at_a_site() -> None:
    with pytest.raises(NotAllowed, match="phantom-only"):
        watermark_for(phantom_only=True, is_phantom=False, mode="site")


def test_in_demo_mode_a_real_study_is_drafted_under_the_demo_watermark() -> None:
    assert watermark_for(phantom_only=True, is_phantom=False, mode="demo").startswith(DEMO_WATERMARK)


@pytest.mark.parametrize("mode", ["demo", "site"])
@pytest.mark.parametrize(("phantom_only", "is_phantom"), [(True, True), (False, True), (False, False)])
def test_every_other_draft_carries_the_plain_watermark(phantom_only: bool, is_phantom: bool, mode: str) -> None:
    assert watermark_for(phantom_only, is_phantom, "demo" if mode == "demo" else "site") == WATERMARK
