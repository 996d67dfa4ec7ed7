"""One checkpoint folder: config.json, tokenizer.json, model.safetensors in the official names, card.json, MODEL_CARD.md."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from pipeline.engine.config import ModelConfig
from pipeline.engine.model import Model
from pipeline.engine.names import FIRST, PROJECTOR, from_official, to_official
from pipeline.engine.tokenizer import TextTokenizer, tokenizer_config
from pipeline.errors import ModelMissing

PACKAGED = Path(__file__).parent / "weights"  # the phantom-only model of the embedded default
WEIGHTS = "model.safetensors"
DIGESTED = ("config.json", "tokenizer.json", WEIGHTS)
USES = ("phantom-only", "test-only", "candidate", "live")
Card = Mapping[str, object]


@dataclass(frozen=True)
class Checkpoint:
    """A loaded model with everything that says what it is."""

    model: Model
    tokenizer: TextTokenizer
    card: Card
    digest: str


def digest(folder: Path) -> str:
    """SHA-256 over names and bytes of config, tokenizer and weights."""
    total = hashlib.sha256()
    for name in DIGESTED:
        total.update(name.encode() + b"\0" + hashlib.sha256((folder / name).read_bytes()).digest())
    return total.hexdigest()


def save(folder: Path, model: Model, tokenizer: TextTokenizer, card: Card, about: str) -> str:
    """Write a checkpoint in bfloat16 and return its digest; `about` is the text of MODEL_CARD.md."""
    folder.mkdir(parents=True, exist_ok=True)
    state = {name: tensor.detach() for name, tensor in model.state_dict().items()}
    official = to_official(state, model.config)
    tensors = {name: tensor.to(_stored_type(name)).contiguous().clone() for name, tensor in official.items()}
    save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})
    (folder / WEIGHTS).chmod(0o644)  # safetensors writes 0600; the package is for every user
    texts = {
        "config.json": model.config.to_json(),
        "tokenizer.json": tokenizer.text_of_file(),
        "tokenizer_config.json": tokenizer_config(),
        "card.json": json.dumps(dict(card), ensure_ascii=False, indent=2) + "\n",
        "MODEL_CARD.md": about,
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    return digest(folder)


def load(folder: Path) -> Checkpoint:
    """Load a checkpoint in float32; ModelMissing says which part is absent or does not fit, and what to do."""
    if not folder.is_dir():
        raise ModelMissing(f"the model folder '{folder.name}' does not exist; set CTREPORT_DRAFT_WEIGHTS or run `ctreport train`")
    config = ModelConfig.read(folder / "config.json")
    tokenizer = TextTokenizer.read(folder / "tokenizer.json")
    _check_vocabulary(config, tokenizer)
    model = Model(config)
    state = _fitting(_read_tensors(folder / WEIGHTS), config, model.state_dict())
    model.load_state_dict(state)
    return Checkpoint(model.eval().requires_grad_(False), tokenizer, _read_card(folder / "card.json"), digest(folder))


def _stored_type(name: str) -> torch.dtype:
    """bfloat16, but float32 for the two router tensors that other engines keep exact."""
    return torch.float32 if name.endswith(("gate.weight", "e_score_correction_bias")) else torch.bfloat16


def _read_tensors(path: Path) -> dict[str, Tensor]:
    if not path.is_file():
        raise ModelMissing(f"no {WEIGHTS} in the model folder '{path.parent.name}'; copy the weights there or run `ctreport train`")
    try:
        return {name: tensor.float() for name, tensor in load_file(path).items()}
    except (SafetensorError, OSError) as error:
        raise ModelMissing(f"{WEIGHTS} cannot be read ({error}); copy the weights again") from None


def _fitting(tensors: Mapping[str, Tensor], config: ModelConfig, wanted: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The model's state, after every name, shape and value has been looked at."""
    _check_projector(tensors, config)
    state = from_official(tensors, config, wanted)
    missing = sorted(set(wanted) - set(state))
    mtp = f"model.layers.{config.num_hidden_layers}."
    if any(name.startswith(mtp) for name in missing):
        raise ModelMissing(f"{WEIGHTS} has no complete MTP layer ({mtp}*: {len(missing)} tensors absent); use a checkpoint with its MTP weights")
    if missing:
        raise ModelMissing(f"{WEIGHTS} lacks {len(missing)} tensors, first '{missing[0]}'; copy the weights again")
    for name, tensor in state.items():
        if tensor.shape != wanted[name].shape:
            have, want = tuple(tensor.shape), tuple(wanted[name].shape)
            raise ModelMissing(f"'{name}' has shape {have}, config.json asks for {want}; config and weights belong to different models")
        if not bool(torch.isfinite(tensor).all()):
            raise ModelMissing(f"'{name}' holds NaN or infinite values; the weights are damaged: copy or train them again")
    return state


def _check_projector(tensors: Mapping[str, Tensor], config: ModelConfig) -> None:
    """The projector stands between an encoder and the language model: say which of the two does not fit, and by which numbers."""
    found = next((kind for kind, name in FIRST.items() if name in tensors), None)
    if found is None:
        raise ModelMissing(f"{WEIGHTS} has no {PROJECTOR}*, which takes the encoder's features; use a checkpoint with its projector")
    if found != config.ct_projector_type:
        raise ModelMissing(f"the projector in {WEIGHTS} is {found}, config.json says {config.ct_projector_type}; they belong to different models")
    hidden, columns = tensors[FIRST[found]].shape
    if (columns, hidden) != (config.ct_feature_dim, config.hidden_size):
        raise ModelMissing(
            f"the projector in {WEIGHTS} takes features of {columns} columns and gives {hidden}, config.json asks for {config.ct_feature_dim} from "
            f"the encoder (ct_feature_dim) and {config.hidden_size} for the language model (hidden_size); "
            "config and weights belong to different models"
        )


def _check_vocabulary(config: ModelConfig, tokenizer: TextTokenizer) -> None:
    if tokenizer.size != config.vocab_size:
        raise ModelMissing(f"tokenizer.json has {tokenizer.size} tokens, config.json says {config.vocab_size}; they belong to different models")
    if (tokenizer.ct_id, tokenizer.eos_id) != (config.ct_placeholder_id, config.eos_token_id):
        raise ModelMissing("tokenizer.json and config.json disagree about <ct> or <eos>; they belong to different models")


def _read_card(path: Path) -> Card:
    try:
        card = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise ModelMissing(f"no readable card.json in the model folder '{path.parent.name}'; it must say what the model may be used for") from None
    if not isinstance(card, dict) or card.get("use") not in USES:
        raise ModelMissing(f'card.json must hold "use", one of {", ".join(USES)}; correct the card')
    return card
