"""Weights of the small nets beside this file: one safetensors file each, and one card that says what each is and may be used for."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.errors import ModelMissing

if TYPE_CHECKING:
    from torch import nn

PACKAGED = Path(__file__).parent / "weights"
CARD = "card.json"


def fill(net: nn.Module, folder: Path, name: str) -> dict[str, Any]:
    """Put `NAME.safetensors` of a folder into `net` as float32, in evaluation mode; returns its entry of the card.

    Raises ModelMissing, which names the file, when it is absent, is not the one that the card describes, or does not fit the net.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load

    path = folder / f"{name}.safetensors"
    try:
        entry: dict[str, Any] = json.loads((folder / CARD).read_text(encoding="utf-8"))[name]
        data = path.read_bytes()
        if hashlib.sha256(data).hexdigest() != entry["sha256"]:
            raise ModelMissing(f"'{path.name}' in '{folder}' is not the file that its {CARD} describes (SHA-256 differs); {_remedy(name)}")
        net.load_state_dict({key: tensor.float() if tensor.is_floating_point() else tensor for key, tensor in load(data).items()})
    except (OSError, ValueError, KeyError, TypeError, SafetensorError, RuntimeError) as error:
        raise ModelMissing(f"'{path.name}' in '{folder}' cannot be loaded ({type(error).__name__}); {_remedy(name)}") from error
    net.eval()
    return entry


def _remedy(name: str) -> str:
    return f"install the package anew, or make the weights with `ctreport train --part {'laterality' if name == 'side' else 'denoiser'}`"
