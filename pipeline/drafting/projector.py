"""The checkpoint's projector alone, for a server that takes rows of its hidden size: `ct_projector.*` of the folder, and nothing else of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.errors import ModelMissing

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray


def projector_of(folder: Path) -> Callable[[NDArray[np.float32]], NDArray[np.float32]]:
    """(N, D) → (N, hidden) in float32, with weights that are read at the first call. Raises ModelMissing when the folder has none."""

    def project(features: NDArray[np.float32]) -> NDArray[np.float32]:
        import torch

        with torch.inference_mode():
            rows: NDArray[np.float32] = _module(folder)(torch.from_numpy(features.astype("float32"))).numpy()  # (N, hidden)
        return rows

    return project


@cache
def _module(folder: Path) -> torch.nn.Module:
    from safetensors import safe_open

    from pipeline.engine.config import ModelConfig
    from pipeline.engine.headers import weight_files
    from pipeline.engine.model import projector
    from pipeline.engine.names import PROJECTOR

    found: dict[str, torch.Tensor] = {}
    try:
        config = ModelConfig.of(json.loads((folder / "config.json").read_text(encoding="utf-8")))
        for path in weight_files(folder):
            with safe_open(path, framework="pt") as file:
                found |= {name.removeprefix(PROJECTOR): file.get_tensor(name).float() for name in file.keys() if name.startswith(PROJECTOR)}  # noqa: SIM118 - safe_open is no mapping
    except OSError:
        found = {}
    if not found:
        raise ModelMissing(f"the folder '{folder.name}' holds no projector weights; copy the file with ct_projector.* there for vLLM")
    made = projector(config)
    made.load_state_dict(found)
    return made.eval().requires_grad_(False)
