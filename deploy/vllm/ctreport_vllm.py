"""vLLM's plugin for our checkpoints: its loader refuses tensors that it does not know, and the projector `ct_projector.*` stays with the client."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

PREFIX = "ct_projector."


def register() -> None:
    """Let vLLM's DeepSeek read a folder that holds a projector too. vLLM calls it in each of its processes (entry point vllm.general_plugins)."""
    from vllm import ModelRegistry
    from vllm.model_executor.models.deepseek_v2 import DeepseekV3ForCausalLM

    class WithoutProjector(DeepseekV3ForCausalLM):  # type: ignore[misc]  # vLLM is not installed where types are checked
        def load_weights(self, weights: Iterable[tuple[str, Any]]) -> set[str]:
            read: set[str] = super().load_weights((name, tensor) for name, tensor in weights if not name.startswith(PREFIX))
            return read

    ModelRegistry.register_model("DeepseekV3ForCausalLM", WithoutProjector)
