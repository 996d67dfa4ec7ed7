"""One checkpoint folder: config.json, tokenizer.json, model.safetensors in the official names, card.json, MODEL_CARD.md, perhaps sentences.txt."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from pipeline.engine.check import look, refuse, unsound
from pipeline.engine.headers import WEIGHTS, weight_files
from pipeline.engine.model import Model
from pipeline.engine.names import from_official, to_official
from pipeline.engine.tokenizer import TextTokenizer, tokenizer_config
from pipeline.errors import ModelMissing

PACKAGED = Path(__file__).parent / "weights"  # the phantom-only model of the embedded default
SENTENCES = "sentences.txt"
Card = Mapping[str, object]


@dataclass(frozen=True)
class Checkpoint:
    """A loaded model with everything that says what it is."""

    model: Model
    tokenizer: TextTokenizer
    card: Card
    digest: str
    sentences: tuple[str, ...] = ()  # texts that lookup drafting knows from the start


def digest(folder: Path) -> str:
    """SHA-256 over names and bytes of config, tokenizer and weights: of what decides the text."""
    total = hashlib.sha256()
    for path in (folder / "config.json", folder / "tokenizer.json", *weight_files(folder)):
        total.update(path.name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()


def save(folder: Path, model: Model, tokenizer: TextTokenizer, card: Card, about: str, sentences: Sequence[str] = ()) -> str:
    """Write a checkpoint in bfloat16 and return its digest; `about` is the text of MODEL_CARD.md, `sentences` (one line each) of sentences.txt."""
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
        **({SENTENCES: "".join(" ".join(text.split()) + "\n" for text in sentences)} if sentences else {}),
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    return digest(folder)


def load(folder: Path) -> Checkpoint:
    """Load a checkpoint in float32; ModelMissing says what `ctreport model check` says of a folder that does not fit."""
    seen = look(folder)
    refuse(seen.problems)
    assert seen.config is not None and seen.tokenizer is not None  # noqa: PT018 - without a problem both are there
    tensors = {name: tensor.float() for path in seen.headers.files for name, tensor in load_file(path).items()}
    refuse(unsound(tensors.items()))
    model = Model(seen.config)
    model.load_state_dict(from_official(tensors, seen.config, model.state_dict()))
    return Checkpoint(model.eval().requires_grad_(False), seen.tokenizer, seen.card, digest(folder), read_sentences(folder / SENTENCES))


def read_sentences(path: Path) -> tuple[str, ...]:
    """The texts of a sentences.txt, none without the file; ModelMissing when it is no UTF-8 text. They speed decoding up and never change a text."""
    try:
        return tuple(line for line in path.read_text(encoding="utf-8").splitlines() if line)
    except FileNotFoundError:
        return ()
    except (OSError, UnicodeDecodeError) as error:
        raise ModelMissing(f"{SENTENCES} cannot be read ({error}); write it again in UTF-8, one text a line, or remove it") from None


def _stored_type(name: str) -> torch.dtype:
    """bfloat16, but float32 for the two router tensors that other engines keep exact."""
    return torch.float32 if name.endswith(("gate.weight", "e_score_correction_bias")) else torch.bfloat16
