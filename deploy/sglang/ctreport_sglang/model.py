"""DeepSeek-V3 that reads CT features: the published model of SGLang 0.5.23 and the checkpoint's projector `ct_projector.*` in front of it.

The class keeps SGLang's own name: attention, cache layout, the MTP draft model and defaults are chosen by that name, and an external class wins
over a built-in one. The MTP layer gets the projected features from the main model's forward pass.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from sglang.srt.managers.mm_utils import pad_mm_tokens, prepare_mm_inputs
from sglang.srt.managers.schedule_batch import Modality, MultimodalDataItem, MultimodalInputs
from sglang.srt.model_loader.weight_utils import default_weight_loader
from sglang.srt.models.deepseek_nextn import DeepseekV3ForCausalLMNextN
from sglang.srt.models.deepseek_v2 import DeepseekV3ForCausalLM as Published
from torch import Tensor, nn

PREFIX = "ct_projector."


class MlpProjector(nn.Module):
    """Two layers with a GELU between them: `ct_projector_type` "mlp" of the checkpoint."""

    def __init__(self, columns: int, hidden: int) -> None:
        super().__init__()
        self.linear_1 = nn.Linear(columns, hidden)
        self.linear_2 = nn.Linear(hidden, hidden)

    def forward(self, rows: Tensor) -> Tensor:
        """(N, D) → (N, hidden)."""
        out: Tensor = self.linear_2(nn.functional.gelu(self.linear_1(rows)))
        return out


def projector(config: Any) -> nn.Module:
    """What turns a feature row (D) into an embedding (hidden), as the checkpoint's config.json says."""
    if getattr(config, "ct_projector_type", "linear") == "mlp":
        return MlpProjector(config.ct_feature_dim, config.hidden_size)
    return nn.Linear(config.ct_feature_dim, config.hidden_size, bias=False)


class DeepseekV3ForCausalLM(Published):  # type: ignore[misc]  # SGLang is not installed where types are checked
    """The published model; a prompt's placeholders take the projected rows of the request's features."""

    def __init__(self, config: Any, quant_config: Any = None, prefix: str = "") -> None:
        super().__init__(config, quant_config, prefix)
        self.ct_projector = projector(config)

    def pad_input_ids(self, input_ids: array[int], mm_inputs: MultimodalInputs) -> array[int]:
        """Placeholders become marks of the features behind them, so that the prefix cache never takes one study's for another's."""
        padded: array[int] = pad_mm_tokens(input_ids, mm_inputs)
        return padded

    def get_image_feature(self, items: Sequence[MultimodalDataItem]) -> Tensor:
        """Embeddings (N, hidden) of the items' feature rows, in their order."""
        weight = next(self.ct_projector.parameters())
        rows = torch.cat([item.feature for item in items]).to(weight)  # (N, D)
        embedded: Tensor = self.ct_projector(rows)
        return embedded

    def forward(
        self, input_ids: Tensor, positions: Tensor, forward_batch: Any, input_embeds: Tensor | None = None, pp_proxy_tensors: Any = None
    ) -> Any:
        """As the published model, with features where the prompt has placeholders."""
        if input_embeds is None:
            input_embeds = prepare_mm_inputs(input_ids, forward_batch, self, {}, None, {Modality.IMAGE: self.get_image_feature})
        return super().forward(input_ids, positions, forward_batch, input_embeds, pp_proxy_tensors)

    def load_weights(self, weights: Iterable[tuple[str, Tensor]], is_nextn: bool = False) -> None:
        """The projector's tensors here, the rest as published. ValueError when the checkpoint has no whole projector."""
        waiting = dict(self.ct_projector.named_parameters())
        super().load_weights(self._without_projector(weights, waiting), is_nextn)
        if waiting:
            raise ValueError(f"the checkpoint has no {PREFIX}{', '.join(waiting)}; serve one that was aligned with an encoder (`ctreport align`)")

    def _without_projector(self, weights: Iterable[tuple[str, Tensor]], waiting: dict[str, nn.Parameter]) -> Iterator[tuple[str, Tensor]]:
        for name, tensor in weights:
            if name.startswith(PREFIX):
                default_weight_loader(waiting.pop(name.removeprefix(PREFIX)), tensor)
            else:
                yield name, tensor


EntryClass = [DeepseekV3ForCausalLM, DeepseekV3ForCausalLMNextN]  # with its draft model named here too, SGLang need not import every model it has
