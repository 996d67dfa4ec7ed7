"""DeepSeek-V3 written the slow, obviously right way: the reference that the fast engine is held against.

Explicit keys and values for each head, a loop over tokens and their experts, everything computed anew for every token, in float64,
straight from the published tensors (arXiv 2412.19437, sections 2.1 and 2.2). No cache, no absorbed projection, no fused matrix, no mask.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import llguidance
import torch
from torch import Tensor

from pipeline.engine.config import ModelConfig
from pipeline.engine.grammar import compile_schema
from pipeline.engine.model import Model
from pipeline.engine.names import to_official
from pipeline.engine.tokenizer import TextTokenizer


class Slow:
    """One model in published names; rows are positions, no batch."""

    def __init__(self, tensors: Mapping[str, Tensor], config: ModelConfig) -> None:
        self.tensors = {name: tensor.double() for name, tensor in tensors.items()}
        self.config = config

    @classmethod
    def of(cls, model: Model) -> Slow:
        """The same weights as a fast model's."""
        return cls(to_official({name: tensor.detach() for name, tensor in model.state_dict().items()}, model.config), model.config)

    def hidden(self, ids: Sequence[int], features: Tensor | None = None) -> Tensor:
        """Post-norm hidden states (T, hidden) of ids; the i-th placeholder is the i-th projected row of features (N, D)."""
        rows = [self.tensors["model.embed_tokens.weight"][token] for token in ids]
        places = [place for place, token in enumerate(ids) if token == self.config.ct_placeholder_id]
        for place, feature in zip(places, features if features is not None else (), strict=True):
            rows[place] = self.project(feature.double())
        x = torch.stack(rows)
        for layer in range(self.config.num_hidden_layers):
            x = self.layer(x, f"model.layers.{layer}.", dense=layer < self.config.first_k_dense_replace)
        return self.norm(x, "model.norm")

    def logits(self, hidden: Tensor) -> Tensor:
        """(…, hidden) → (…, vocab)."""
        return hidden @ self.tensors["lm_head.weight"].T

    def mtp(self, tokens: Sequence[int], hidden: Tensor) -> Tensor:
        """MTP states (T, hidden): row t pairs the token at t + 1 with the main model's (or an earlier MTP) state at t."""
        name = f"model.layers.{self.config.num_hidden_layers}."
        pairs = []
        for token, state in zip(tokens, hidden, strict=True):
            embedded = self.norm(self.tensors["model.embed_tokens.weight"][token], f"{name}enorm")
            pairs.append(self.tensors[f"{name}eh_proj.weight"] @ torch.cat([embedded, self.norm(state, f"{name}hnorm")]))
        return self.norm(self.layer(torch.stack(pairs), name, dense=False), f"{name}shared_head.norm")

    def project(self, feature: Tensor) -> Tensor:
        """One feature row (D) → an embedding (hidden)."""
        return self.tensors["ct_projector.weight"] @ feature

    def layer(self, x: Tensor, name: str, *, dense: bool) -> Tensor:
        """One decoder layer over all rows (T, hidden)."""
        x = x + self.attention(self.norm(x, f"{name}input_layernorm"), f"{name}self_attn.")
        rows = self.norm(x, f"{name}post_attention_layernorm")
        forward = self.feed_forward if dense else self.experts
        return x + torch.stack([forward(row, f"{name}mlp.") for row in rows])

    def attention(self, x: Tensor, name: str) -> Tensor:
        """Every head with its own keys and values; a token looks at itself and what stands before it."""
        c = self.config
        weight = {part: self.tensors[f"{name}{part}.weight"] for part in ("q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj", "o_proj")}
        queries = (self.norm(x @ weight["q_a_proj"].T, f"{name}q_a_layernorm") @ weight["q_b_proj"].T).view(len(x), c.num_attention_heads, -1)
        down = x @ weight["kv_a_proj_with_mqa"].T
        up = (self.norm(down[:, : c.kv_lora_rank], f"{name}kv_a_layernorm") @ weight["kv_b_proj"].T).view(len(x), c.num_attention_heads, -1)
        shared_key = self.turn(down[:, c.kv_lora_rank :])  # (T, rope)
        heads = []
        for head in range(c.num_attention_heads):
            query = torch.cat([queries[:, head, : c.qk_nope_head_dim], self.turn(queries[:, head, c.qk_nope_head_dim :])], dim=1)
            key = torch.cat([up[:, head, : c.qk_nope_head_dim], shared_key], dim=1)  # (T, nope + rope)
            value = up[:, head, c.qk_nope_head_dim :]  # (T, v)
            rows = []
            for t in range(len(x)):
                scores = key[: t + 1] @ query[t] * c.head_dim**-0.5 * self.stretch(c.yarn.mscale_all_dim) ** 2
                rows.append(scores.softmax(0) @ value[: t + 1])
            heads.append(torch.stack(rows))
        return torch.cat(heads, dim=1) @ weight["o_proj"].T

    def turn(self, x: Tensor) -> Tensor:
        """Rotate neighbouring pairs of row t by t times its speed: a complex product."""
        length, width = x.shape
        speeds = torch.tensor([self.speed(pair, width) for pair in range(width // 2)], dtype=torch.float64)
        phases = torch.outer(torch.arange(length, dtype=torch.float64), speeds)
        pairs = torch.view_as_complex(x.reshape(length, -1, 2))
        yarn = self.config.yarn
        lengths = torch.full_like(phases, self.stretch(yarn.mscale) / self.stretch(yarn.mscale_all_dim))
        return torch.view_as_real(pairs * torch.polar(lengths, phases)).flatten(1)

    def speed(self, pair: int, width: int) -> float:
        """Radians per position of a pair; yarn divides those of slow pairs by its factor (arXiv 2309.00071, as published with DeepSeek-V3)."""
        yarn, theta = self.config.yarn, self.config.rope_theta
        first, last = (
            width * math.log(yarn.original_max_position_embeddings / (2 * math.pi * turns)) / (2 * math.log(theta))
            for turns in (yarn.beta_fast, yarn.beta_slow)
        )
        low, high = max(math.floor(first), 0), min(math.ceil(last), width - 1)
        slow = min(max((pair - low) / max(high - low, 0.001), 0), 1)
        fast = math.pow(theta, -2 * pair / width)
        return fast * (1 - slow) + fast / yarn.factor * slow

    def stretch(self, weight: float) -> float:
        """yarn's scale for attention: 1 at factor 1."""
        return 0.1 * weight * math.log(self.config.yarn.factor) + 1

    def experts(self, row: Tensor, name: str) -> Tensor:
        """The chosen experts one after the other, and the shared one."""
        c = self.config
        scores = (self.tensors[f"{name}gate.weight"] @ row).sigmoid().tolist()
        bias = self.tensors[f"{name}gate.e_score_correction_bias"].tolist()
        chosen = sorted(range(c.n_routed_experts), key=lambda expert: -(scores[expert] + bias[expert]))[: c.num_experts_per_tok]
        total = sum(scores[expert] for expert in chosen)
        out = self.feed_forward(row, f"{name}shared_experts.")
        for expert in chosen:
            out = out + scores[expert] / total * c.routed_scaling_factor * self.feed_forward(row, f"{name}experts.{expert}.")
        return out

    def feed_forward(self, row: Tensor, name: str) -> Tensor:
        """One gated feed-forward block over one token."""
        gate, up, down = (self.tensors[f"{name}{part}.weight"] for part in ("gate_proj", "up_proj", "down_proj"))
        opened = gate @ row
        return down @ (opened / (1 + (-opened).exp()) * (up @ row))

    def norm(self, x: Tensor, name: str) -> Tensor:
        """Divide by the root of the mean square, then weigh."""
        return x / (x.square().mean(-1, keepdim=True) + self.config.rms_norm_eps).sqrt() * self.tensors[f"{name}.weight"]


class Trying:
    """A grammar that is asked about one token at a time, by trying it on a copy."""

    def __init__(self, tokenizer: TextTokenizer, schema: str | None) -> None:
        self.matcher = llguidance.LLMatcher(tokenizer.grammar, compile_schema(schema)) if schema else None

    def copy(self) -> Trying:
        """Another one that stands at the same place."""
        twin = Trying.__new__(Trying)
        twin.matcher = self.matcher.deep_copy() if self.matcher else None
        return twin

    @property
    def finished(self) -> bool:
        """True once nothing may follow."""
        return self.matcher is not None and bool(self.matcher.is_stopped())

    @property
    def forced(self) -> list[int]:
        """Where one text only may follow: its tokens, as the tokenizer cuts it."""
        return list(self.matcher.compute_ff_tokens()) if self.matcher is not None else []

    def best(self, logits: Tensor) -> int:
        """The likeliest token that may come next, which is then taken."""
        if self.matcher is None:
            return int(logits.argmax())
        ranked = self.forced[:1] or logits.argsort(descending=True, stable=True).tolist()
        token = next(token for token in ranked if self.matcher.validate_tokens([token]) == 1)
        self.matcher.consume_token(token)
        return int(token)


def write(slow: Slow, tokenizer: TextTokenizer, prompt: Sequence[int], features: Tensor | None, schema: str | None, limit: int) -> list[int]:
    """Greedy text: the whole text through the model for every token, the grammar by trying."""
    grammar = Trying(tokenizer, schema)
    out: list[int] = []
    while len(out) < limit and not grammar.finished:
        token = grammar.best(slow.logits(slow.hidden([*prompt, *out], features)[-1]))
        if token == tokenizer.eos_id:
            break
        out.append(token)
    return out


def drafts(slow: Slow, text: Sequence[int], hidden: Tensor, grammar: Trying, k: int, eos: int) -> list[tuple[int, bool]]:
    """Up to k drafts after `text`, and whether each was free: the MTP layer over all of it, then over its own states.

    `hidden` (T − 1, hidden) are the main model's states of all but the last token. A draft that would end the text is not made.
    """
    tokens, states = list(text[1:]), list(hidden)
    ahead = grammar.copy()
    out: list[tuple[int, bool]] = []
    while len(out) < k:
        state = slow.mtp(tokens, torch.stack(states))[-1]
        free = not ahead.forced
        token = ahead.best(slow.logits(state))
        if token == eos or ahead.finished:
            break
        out.append((token, free))
        tokens.append(token)
        states.append(state)
    return out
