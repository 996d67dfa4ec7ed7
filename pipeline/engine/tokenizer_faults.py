"""What keeps a `tokenizer.json` from carrying Chinese reports, one sentence per fault."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from pipeline.engine.tokenizer import SPECIAL, TextTokenizer

SIGNS = "，。、；：（）“”《》"
TERMS = (
    *("磨玻璃影", "分叶征", "毛刺征", "胸膜凹陷", "空泡征", "支气管充气征", "纵隔淋巴结", "胸腔积液"),
    *("肺气肿", "纤维化", "实变", "结节", "纹理", "囊肿", "血管瘤"),
)
OTHER = "they belong to different models"


def look_at_tokenizer(path: Path, raw: Mapping[str, Any], *, served: bool = False) -> tuple[TextTokenizer | None, list[str]]:
    """The tokenizer where the engine can use it, and every fault of it, alone and beside its config (`raw`)."""
    if not path.is_file():
        return None, [f"no tokenizer.json in the model folder '{path.parent.name}'; export the checkpoint again"]
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # noqa: BLE001 - the tokenizers library raises bare Exception on a bad file
        return None, [f"tokenizer.json cannot be read ({error}); export the checkpoint again"]
    problems = [*_lost_text(tokenizer), *_misfits(tokenizer, raw, served=served)]
    if served:
        return None, problems
    if absent := [token for token in SPECIAL if tokenizer.token_to_id(token) is None]:
        return None, [*problems, f"tokenizer.json has no token {' '.join(absent)}; it belongs to another model"]
    try:
        return TextTokenizer(tokenizer), problems
    except KeyError as error:
        return None, [*problems, f"tokenizer.json does not spell its tokens in bytes (symbol {error}); this engine runs only byte-level ones"]


def _lost_text(tokenizer: Tokenizer) -> Iterator[str]:
    """Signs and terms that do not come back from their ids."""
    unknown = _unknown_id(tokenizer)
    lost: list[str] = []
    changed: list[str] = []
    for text in (*SIGNS, *TERMS):
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        if not ids or unknown in ids:
            lost.append(text)
        elif tokenizer.decode(ids, skip_special_tokens=False) != text:
            changed.append(text)
    if lost:
        yield f"tokenizer.json maps {' '.join(lost)} to unknown; reports need these: use a tokenizer that falls back to bytes"
    if changed:
        yield f"tokenizer.json does not give {' '.join(changed)} back as written; reports would be changed: use a tokenizer without normalisation"


def _unknown_id(tokenizer: Tokenizer) -> int | None:
    model = json.loads(tokenizer.to_str())["model"]
    if isinstance(index := model.get("unk_id"), int):
        return index
    token = model.get("unk_token")
    return tokenizer.token_to_id(token) if isinstance(token, str) else None


def _misfits(tokenizer: Tokenizer, raw: Mapping[str, Any], *, served: bool) -> Iterator[str]:
    """Where tokenizer and config disagree; a server's embedding may have more rows than there are tokens."""
    size, wanted = tokenizer.get_vocab_size(), raw.get("vocab_size")
    if isinstance(wanted, int) and (size > wanted if served else size != wanted):
        yield f"tokenizer.json has {size} tokens, config.json says {wanted}; {OTHER}"
    place = raw.get("ct_placeholder_id")
    if served and isinstance(place, int) and isinstance(wanted, int) and not 0 <= place < wanted:
        yield f"config.json has ct_placeholder_id = {place}, which is no id below vocab_size {wanted}; export the checkpoint again"
    named = {"<ct>": place, "<eos>": raw.get("eos_token_id")}
    found = {token: tokenizer.token_to_id(token) for token in named}
    if not served and None not in found.values() and None not in named.values() and found != named:
        yield f"tokenizer.json and config.json disagree about <ct> or <eos>; {OTHER}"
