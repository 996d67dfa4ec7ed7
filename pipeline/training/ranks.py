"""Training in several single-threaded processes that average their gradients over gloo: on a CPU two of them beat two OpenMP threads."""

from __future__ import annotations

import multiprocessing as mp
import socket
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from pipeline.errors import PipelineError

PATIENCE = timedelta(minutes=10)


def run_ranks(target: Callable[..., None], world: int, *arguments: Any) -> None:
    """Run `target(rank, *arguments)` in `world` processes; PipelineError when one of them fails."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    context = mp.get_context("spawn")
    ranks = [context.Process(target=_rank, args=(target, rank, world, port, arguments)) for rank in range(world)]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join()
    if failed := [rank for rank, process in enumerate(ranks) if process.exitcode != 0]:
        raise PipelineError(f"training process {failed[0]} ended with status {ranks[failed[0]].exitcode}; its last lines say why")


def _rank(target: Callable[..., None], rank: int, world: int, port: int, arguments: tuple[Any, ...]) -> None:
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=world, timeout=PATIENCE)
    try:
        target(rank, *arguments)
    finally:
        dist.destroy_process_group()


def agreed(*values: float) -> tuple[float, ...]:
    """Process 0's values, so that all processes decide alike."""
    told = torch.tensor(values, dtype=torch.float64)
    dist.broadcast(told, 0)
    return tuple(told.tolist())


def average_gradients(model: nn.Module) -> None:
    """Replace each gradient by its mean over the processes."""
    used = [p for p in model.parameters() if p.requires_grad]
    flat = torch.cat([(p.grad if p.grad is not None else torch.zeros_like(p)).reshape(-1) for p in used])
    dist.all_reduce(flat)
    flat /= dist.get_world_size()
    at = 0
    for p in used:
        p.grad = flat[at : at + p.numel()].view_as(p).clone()
        at += p.numel()
