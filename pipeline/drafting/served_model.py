"""The checkpoint that draft servers serve, as a client needs it: config, tokenizer, card and digest. The weights may be elsewhere, and torch too."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenizers import Tokenizer

from pipeline.drafting.prompt import PLACEHOLDER
from pipeline.drafting.server import Question
from pipeline.errors import BadInput, ModelMissing
from pipeline.model import LIVE

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

HEX_DIGITS = 64


@dataclass(frozen=True, eq=False)
class ServedModel:
    """What is known of a served checkpoint without its weights."""

    folder: Path
    name: str
    use: str  # of the card: live, phantom-only …
    digest: str
    tokenizer: Tokenizer
    feature_dim: int
    hidden_size: int
    placeholder_id: int
    eos_id: int
    longest: int  # tokens of prompt and answer

    @classmethod
    def read(cls, folder: Path, digest: str = "") -> ServedModel:
        """Read a folder; without a given digest its own weights are digested. Raises ModelMissing."""
        config, card = _json(folder / "config.json"), _json(folder / "card.json")
        try:
            numbers = [int(config[key]) for key in ("ct_feature_dim", "hidden_size", "ct_placeholder_id", "eos_token_id", "max_position_embeddings")]
        except (KeyError, TypeError, ValueError) as error:
            raise ModelMissing(f"config.json of the served model '{folder.name}' has no usable {error}; copy it from the served folder") from None
        name, use = str(card.get("name") or folder.name), str(card.get("use") or "")
        return cls(folder, name, use, digest or _digest(folder), _tokenizer(folder / "tokenizer.json"), *numbers)

    @property
    def phantom_only(self) -> bool:
        """True unless its card says `live`."""
        return self.use != LIVE

    def question(self, prompt: str, features: NDArray[np.float32] | None, schema: str, max_tokens: int, *, ranked: bool = False) -> Question:
        """A rendered prompt with its features (N, D), cut where they go in. Raises BadInput where they do not fit."""
        head, *rest = prompt.split(PLACEHOLDER)
        rows = 0 if features is None else len(features)
        if any(rest[:-1]) or len(rest) != rows:
            raise BadInput(f"the prompt has {len(rest)} feature places and {rows} feature rows came; render the prompt for the features")
        if features is not None and rows and features.shape[1] != self.feature_dim:
            raise BadInput(
                f"features have {features.shape[1]} columns, the served model '{self.name}' takes {self.feature_dim}: encoder and language model "
                "were not trained for each other; set CTREPORT_ENCODER_NAME and the draft server to a pair that was"
            )
        tail = rest[-1] if rest else ""
        ids = (*self.encode(head), *[self.placeholder_id] * rows, *self.encode(tail))
        if len(ids) + max_tokens > self.longest:
            raise BadInput(f"a prompt of {len(ids)} tokens and {max_tokens} new ones must fit into {self.longest}; lower CTREPORT_DRAFT_MAX_TOKENS")
        return Question(head, tail, ids, features if rows else None, schema, max_tokens, ranked)

    def encode(self, text: str) -> list[int]:
        """Ids of a text; no token is added at either end."""
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False).ids if text else []
        return ids


def _json(path: Path) -> Mapping[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        what = type(error).__name__
        raise ModelMissing(f"{path.name} of the served model '{path.parent.name}' cannot be read ({what}); set CTREPORT_SERVED_MODEL") from None
    if not isinstance(value, dict):
        raise ModelMissing(f"{path.name} of the served model '{path.parent.name}' is no JSON object; copy it from the served folder")
    return value


def _digest(folder: Path) -> str:
    from pipeline.engine.checkpoint import digest  # loads torch: a site that sets CTREPORT_SERVED_DIGEST does not

    try:
        return digest(folder)
    except OSError:
        raise ModelMissing(
            f"the folder '{folder.name}' holds no weights to take a digest of; set CTREPORT_SERVED_DIGEST to what `ctreport model digest` says of "
            "the served folder"
        ) from None


def _tokenizer(path: Path) -> Tokenizer:
    if not path.is_file():
        raise ModelMissing(f"no tokenizer.json in the folder '{path.parent.name}' of the served model; copy it from the served folder")
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # noqa: BLE001 - the tokenizers library raises bare Exception on a bad file
        raise ModelMissing(f"tokenizer.json cannot be read ({error}); copy it from the served folder") from None
