"""A plain-torch stand-in for SGLang's kernel package, so that the real server runs on a processor in tests.

No wheel of the processor kernels exists and the GPU wheel does not load without a driver. What SGLang 0.5.23 calls for DeepSeek with NEXTN
and top-k 1 is written here for this project, slow and plain; every other name is there too and says so when it is called.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from .attention import register
from .places import (
    assign_draft_cache_locs_contiguous_cpu,
    assign_extend_cache_locs_cpu,
    assign_req_to_token_pool_cpu,
    build_draft_decode_metadata_cpu,
)
from .verify import build_tree_kernel_efficient_cpu, fill_bonus_tokens_cpu, verify_tree_greedy_cpu

__all__ = [
    "assign_draft_cache_locs_contiguous_cpu",
    "assign_extend_cache_locs_cpu",
    "assign_req_to_token_pool_cpu",
    "build_draft_decode_metadata_cpu",
    "build_tree_kernel_efficient_cpu",
    "fill_bonus_tokens_cpu",
    "verify_tree_greedy_cpu",
]

register()


def __getattr__(name: str) -> Callable[..., NoReturn]:
    """A kernel that this stand-in does not have: importable, not callable."""
    if name.startswith("__"):
        raise AttributeError(name)

    def missing(*_: object, **__: object) -> NoReturn:
        raise RuntimeError(f"the stand-in of sgl_kernel has no '{name}'; write it in tests/sglang/stand_in/sgl_kernel or keep the server from it")

    return missing
