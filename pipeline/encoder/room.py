"""How many studies may be encoded at once by the memory that the GPU has left: what does not fit waits as a row, and the queue's age tells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch

from pipeline.encoder.batching import Rung, Way

MIB = 1 << 20


class FreeMemory(Protocol):
    """What a device can still give."""

    def free_mb(self) -> float:
        """MiB that the next pass can have, whatever other processes hold."""


class CudaMemory:
    """The present GPU, as its driver sees it, with what torch holds of it and does not use."""

    def free_mb(self) -> float:
        """See the protocol."""
        free, _ = torch.cuda.mem_get_info()
        kept = torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
        return float(free + kept) / MIB


def studies_within(free_mb: float, rungs: Sequence[Rung], picture_mb: float, most: int) -> int:
    """`most` where the widest pass fits, 1 where only a narrower one on the GPU does, 0 where none does. The processor is no way to go round a full
    GPU: it takes minutes for what waits for seconds; whoever wants it sets CTREPORT_ENCODER_DEVICE."""
    on_gpu = [rung for rung in rungs if rung.way is not Way.CPU]
    if not on_gpu:
        return most
    passes_mb = [picture_mb * rung.pictures for rung in on_gpu]
    return most if free_mb >= max(passes_mb) else 1 if free_mb >= min(passes_mb) else 0
