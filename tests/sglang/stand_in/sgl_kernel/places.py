"""Which cache slots a request's tokens have: SGLang's table `req_to_token` (requests, positions) and lists of slots."""

from __future__ import annotations

from torch import Tensor


def assign_req_to_token_pool_cpu(rows: Tensor, req_to_token: Tensor, starts: Tensor, ends: Tensor, slots: Tensor, width: int) -> None:
    """Write `slots`, one request after the other, into the table between each one's start and end."""
    done = 0
    for row, start, end in _spans(rows, starts, ends):
        req_to_token[row, start:end] = slots[done : done + end - start].to(req_to_token.dtype)
        done += end - start


def assign_extend_cache_locs_cpu(rows: Tensor, req_to_token: Tensor, starts: Tensor, ends: Tensor, slots: Tensor, width: int) -> None:
    """Read the table between each request's start and end into `slots`, one request after the other."""
    done = 0
    for row, start, end in _spans(rows, starts, ends):
        slots[done : done + end - start] = req_to_token[row, start:end].to(slots.dtype)
        done += end - start


def assign_draft_cache_locs_contiguous_cpu(
    rows: Tensor, req_to_token: Tensor, seq_lens: Tensor, slots: Tensor, width: int, topk: int, columns: int
) -> None:
    """Read the `topk` · `columns` slots behind each request's tokens into `slots`."""
    assign_extend_cache_locs_cpu(rows, req_to_token, seq_lens, seq_lens + topk * columns, slots, width)


def build_draft_decode_metadata_cpu(req_to_token: Tensor, rows: Tensor, seq_lens: Tensor, topk: int, steps: int, width: int) -> Tensor:
    """The table's rows of these requests: a single chain of drafts lies behind its prefix already."""
    if topk != 1:
        raise RuntimeError(f"the stand-in drafts one chain, not {topk}; start the server with --speculative-eagle-topk 1")
    return req_to_token[rows.long()].contiguous()


def _spans(rows: Tensor, starts: Tensor, ends: Tensor) -> list[tuple[int, int, int]]:
    return list(zip(rows.tolist(), starts.tolist(), ends.tolist(), strict=True))
