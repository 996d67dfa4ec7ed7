"""Greedy verification of one chain of drafted tokens per request."""

from __future__ import annotations

import torch
from torch import Tensor


def build_tree_kernel_efficient_cpu(
    parents: Tensor,
    chosen: Tensor,
    seq_lens: Tensor,
    tree_mask: Tensor,
    positions: Tensor,
    index: Tensor,
    following: Tensor,
    sibling: Tensor,
    topk: int,
    depth: int,
    width: int,
    mask_mode: int,
) -> None:
    """Describe the chains: positions (B · width), `index` and `following` (B, width). The mask stays as it is: a chain's is the causal one."""
    if topk != 1:
        raise RuntimeError(f"the stand-in verifies one chain, not {topk}; start the server with --speculative-eagle-topk 1")
    count = len(seq_lens)
    steps = torch.arange(width)  # (width)
    positions.view(count, width).copy_(seq_lens.view(-1, 1) + steps)
    index.copy_(torch.arange(count * width).view(count, width))
    following.copy_(torch.where(steps < width - 1, steps + 1, -1).expand(count, width))
    sibling.fill_(-1)


def verify_tree_greedy_cpu(
    predicts: Tensor,
    accept_index: Tensor,
    accept_token_num: Tensor,
    candidates: Tensor,
    retrive_index: Tensor,
    retrive_next_token: Tensor,
    retrive_next_sibling: Tensor,
    target_predict: Tensor,
) -> None:
    """Accept each chain's drafts as long as they are what the model writes: candidates and target (B, width); the first candidate is verified."""
    count, width = candidates.shape
    target = target_predict.view(count, width)
    for row in range(count):
        good = (candidates[row, 1:] == target[row, :-1]).int().cumprod(0)  # (width − 1)
        accepted = int(good.sum())
        first = row * width
        accept_index[row, : accepted + 1] = torch.arange(first, first + accepted + 1, dtype=accept_index.dtype)
        predicts[first : first + accepted + 1] = target[row, : accepted + 1].to(predicts.dtype)
        accept_token_num[row] = accepted


def fill_bonus_tokens_cpu(tokens: Tensor, lengths: Tensor, bonus: Tensor, width: int) -> None:
    """The last verified token of each request: tokens (B · width), lengths (B) with that token counted."""
    last = torch.arange(len(lengths)) * width + lengths.long() - 1
    bonus.copy_(tokens.view(-1)[last].to(bonus.dtype))
