"""Ways to damage a checkpoint folder."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

SHARDS = 3


def edit_weights(folder: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    """Change the tensors of model.safetensors in place."""
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors")


def drop(*starts: str) -> Callable[[dict[str, torch.Tensor]], None]:
    """A change that removes every tensor whose name begins so."""

    def change(tensors: dict[str, torch.Tensor]) -> None:
        for name in [name for name in tensors if name.startswith(starts)]:
            del tensors[name]

    return change


def put(name: str, tensor: torch.Tensor) -> Callable[[dict[str, torch.Tensor]], None]:
    """A change that lays a tensor under a name."""
    return lambda tensors: tensors.__setitem__(name, tensor)


def edit_json(path: Path, **values: object) -> None:
    """Set keys of a JSON file; a key set to None is removed."""
    held = json.loads(path.read_text(encoding="utf-8")) | values
    path.write_text(json.dumps({key: value for key, value in held.items() if value is not None}), encoding="utf-8")


def split(folder: Path) -> list[Path]:
    """Turn model.safetensors into three files and an index, in the order of names; returns the files."""
    tensors = load_file(folder / "model.safetensors")
    names = sorted(tensors)
    files = [folder / f"model-{number + 1:05d}-of-{SHARDS:05d}.safetensors" for number in range(SHARDS)]
    placed: dict[str, str] = {}
    for number, file in enumerate(files):
        part = names[number::SHARDS]
        save_file({name: tensors[name] for name in part}, file)
        placed |= dict.fromkeys(part, file.name)
    write_index(folder, placed)
    (folder / "model.safetensors").unlink()
    return files


def write_index(folder: Path, placed: Mapping[str, str]) -> None:
    """The index of a folder in several files."""
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": dict(placed)}), encoding="utf-8")
