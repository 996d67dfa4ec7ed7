"""SGLang's plugin of the rig: this processor counts as one with matrix tiles, and there is no GPU to wait for."""

from __future__ import annotations

import torch


def prepare() -> None:
    """Called by SGLang in each of its processes, before its models are built."""
    from sglang.srt.runtime_context import override_platform

    override_platform(has_amx=True).install()
    for name in ("synchronize", "empty_cache"):
        setattr(torch.cuda, name, _nothing)


def _nothing(*_: object) -> None:
    return None
