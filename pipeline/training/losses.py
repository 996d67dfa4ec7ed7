"""Losses of the main model and of its MTP layer, drafted recursively exactly as decoding does it."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from pipeline.engine.model import Model
from pipeline.training.batches import Batch


class Chain:
    """Stands in for the MTP layer's cache: every depth of the recursion keeps its own rows (B, n, latent)."""

    def __init__(self) -> None:
        self._rows: list[Tensor] = []

    def extend(self, rows: Tensor) -> Tensor:
        """Add one depth and return all of them, (B, depth · n, latent)."""
        self._rows.append(rows)
        return torch.cat(self._rows, dim=1)


def chain_bias(depth: int, count: int) -> Tensor:
    """Which rows a draft at `depth` (1-based) sees: (n, depth · n), 0 or −inf.

    At position q the verified rows reach to q − depth + 1; behind them stand the chain's own guesses, one per depth.
    """
    query, key = torch.arange(count).unsqueeze(1), torch.arange(count).unsqueeze(0)
    seen = [key <= query - depth + 1]
    seen += [key == query - (depth - level) for level in range(2, depth + 1)]
    return torch.zeros(count, depth * count).masked_fill(~torch.cat(seen, dim=1), float("-inf"))


def cross_entropy(model: Model, hidden: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
    """Weighted mean loss; hidden (B, n, hidden) predicts targets (B, n) where weights (B, n) are not 0."""
    kept = weights > 0
    losses = F.cross_entropy(model.logits(hidden[kept]).float(), targets[kept], reduction="none")  # (M,)
    return (losses * weights[kept]).sum() / weights[kept].sum()


def mtp_losses(model: Model, hidden: Tensor, ids: Tensor, targets: Tensor, weights: Tensor, depth: int) -> list[Tensor]:
    """Loss of each draft depth. `hidden` (B, T, hidden) is the main model's; `targets` (B, T) is what should stand at each place."""
    count = ids.shape[1] - 1  # positions that have a next token
    chain, state, losses = Chain(), hidden[:, :-1], []  # state (B, n, hidden)
    turn, _ = model.positions(0, count)
    embedded = model.model.embed_tokens(ids[:, 1:])  # (B, n, hidden)
    for level in range(1, depth + 1):
        state = model.mtp.step(embedded, state, turn, chain_bias(level, count), chain)
        reach = weights[:, 2:].clone()  # (B, n − 1); the draft at q says token q + 2
        reach[:, : level - 1] = 0
        losses.append(cross_entropy(model, state[:, :-1], targets[:, 2:], reach))
        state = F.pad(state[:, :-1], (0, 0, 1, 0))  # the guess at q − 1 feeds position q
    return losses


def joint_loss(model: Model, batch: Batch, depth: int, mtp_weight: float) -> Tensor:
    """Next-token loss and the mean loss of `depth` recursive drafts."""
    loss, hidden = main_loss(model, batch)
    return loss + mtp_weight * torch.stack(mtp_losses(model, hidden, batch.ids, batch.ids, batch.weights, depth)).mean()


def distil_loss(model: Model, batch: Batch, depth: int) -> Tensor:
    """Mean loss of deep drafts against what the main model itself would say; it learns nothing by it."""
    with torch.no_grad():
        hidden = model(batch.ids, batch.features)  # (B, T, hidden)
        chosen = model.logits(hidden).argmax(dim=-1)  # (B, T), of the token after each place
    targets = torch.cat([batch.ids[:, :1], chosen[:, :-1]], dim=1)  # (B, T)
    return torch.stack(mtp_losses(model, hidden, batch.ids, targets, batch.weights.clamp(max=1.0), depth)).mean()


def main_loss(model: Model, batch: Batch) -> tuple[Tensor, Tensor]:
    """Next-token loss, and the post-norm hidden states (B, T, hidden)."""
    hidden = model(batch.ids, batch.features)
    return cross_entropy(model, hidden[:, :-1], batch.ids[:, 1:], batch.weights[:, 1:]), hidden


@torch.no_grad()
def agreement(model: Model, batch: Batch, depth: int) -> dict[str, float]:
    """Held-out figures: loss, share of right answer tokens and of right fact tokens, and of right drafts per depth."""
    loss, hidden = main_loss(model, batch)
    best = model.logits(hidden).argmax(dim=-1)  # (B, T)
    weights = batch.weights[:, 1:]
    right = best[:, :-1] == batch.ids[:, 1:]  # (B, T − 1)
    facts = weights > 1
    figures = {"loss": float(loss), "tokens_right": share(right, weights > 0), "facts_right": share(right, facts)}
    return figures | {f"draft{level}": value for level, value in enumerate(draft_shares(model, batch, hidden, best, depth), 1)}


@torch.no_grad()
def draft_shares(model: Model, batch: Batch, hidden: Tensor, best: Tensor, depth: int) -> list[float]:
    """Share of drafts at each depth that equal the main model's choice `best` (B, T) at the same place."""
    count = batch.ids.shape[1] - 1
    chain, state, shares = Chain(), hidden[:, :-1], []
    turn, _ = model.positions(0, count)
    embedded = model.model.embed_tokens(batch.ids[:, 1:])
    for level in range(1, depth + 1):
        state = model.mtp.step(embedded, state, turn, chain_bias(level, count), chain)
        guess = model.logits(state[:, :-1]).argmax(dim=-1)  # (B, n − 1), of token q + 2
        shares.append(share(guess == best[:, 1:-1], batch.weights[:, 2:] > 0))
        state = F.pad(state[:, :-1], (0, 0, 1, 0))
    return shares


def share(hits: Tensor, among: Tensor) -> float:
    """Share of True where `among` is True."""
    return float(hits[among].float().mean()) if bool(among.any()) else 0.0
