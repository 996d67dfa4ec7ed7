"""Word-level tokenizer over bytes: listed words are single tokens, anything else falls back to UTF-8 bytes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import llguidance
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from pipeline.errors import ModelMissing

PAD, BOS, EOS, CT = "<pad>", "<bos>", "<eos>", "<ct>"
SPECIAL = (PAD, BOS, EOS, CT)
MAX_NUMBER = 140
BYTE_COST = -2.0  # a listed word (−1) always beats its parts
NEVER = -1e6  # a score that keeps special tokens out of plain text


def _byte_symbols() -> list[str]:
    """The 256 printable stand-ins of GPT-2's byte alphabet, in byte order."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = [b for b in range(256) if b not in plain]
    symbol = {b: chr(b) for b in plain} | {b: chr(256 + i) for i, b in enumerate(rest)}
    return [symbol[b] for b in range(256)]


SYMBOLS = _byte_symbols()
BYTES = {symbol: value for value, symbol in enumerate(SYMBOLS)}


def build(words: Iterable[str]) -> Tokenizer:
    """A tokenizer of 4 special tokens, 256 bytes, the numbers 0–140 and `words`; text is cut into the fewest tokens."""
    listed = dict.fromkeys([*(str(n) for n in range(MAX_NUMBER + 1)), *words])
    encoded = ("".join(SYMBOLS[b] for b in word.encode()) for word in listed)
    entries = [(word, -1.0) for word in dict.fromkeys(encoded) if word not in BYTES]
    vocab = [(token, NEVER) for token in SPECIAL] + [(symbol, BYTE_COST) for symbol in SYMBOLS] + entries
    tokenizer = Tokenizer(models.Unigram(vocab, unk_id=0, byte_fallback=False))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL])
    return tokenizer


def tokenizer_config() -> str:
    """The text of `tokenizer_config.json` for transformers, SGLang and vLLM."""
    names = {"pad_token": PAD, "bos_token": BOS, "eos_token": EOS, "additional_special_tokens": [CT]}
    template = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False, "model_max_length": 2048}
    return json.dumps({**settings, **names, "chat_template": template}, ensure_ascii=False, indent=2) + "\n"


class TextTokenizer:
    """Text ↔ ids of one checkpoint, and the same vocabulary as the grammar engine sees it."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self.size: int = tokenizer.get_vocab_size()
        self.pad_id, self.bos_id, self.eos_id, self.ct_id = (self._id(token) for token in SPECIAL)
        self._pieces = [self._piece(index) for index in range(self.size)]
        self.grammar = llguidance.LLTokenizer(llguidance.TokenizerWrapper(_GrammarView(self)))

    @classmethod
    def read(cls, path: Path) -> TextTokenizer:
        """Read `tokenizer.json`; ModelMissing when it is absent or not a tokenizer file."""
        if not path.is_file():
            raise ModelMissing(f"no tokenizer.json in the model folder '{path.parent.name}'; export the checkpoint again")
        try:
            return cls(Tokenizer.from_file(str(path)))
        except Exception as error:  # noqa: BLE001 - the tokenizers library raises bare Exception on a bad file
            raise ModelMissing(f"tokenizer.json cannot be read ({error}); export the checkpoint again") from None

    def encode(self, text: str) -> list[int]:
        """Ids of a text; `<ct>` becomes the placeholder, no token is added at either end."""
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """Text of ids; bytes that are no UTF-8 (a text cut inside a character) become U+FFFD."""
        return b"".join(self._pieces[index] for index in ids).decode("utf-8", errors="replace")

    def piece(self, index: int) -> bytes:
        """The bytes of one token; empty for a special token."""
        return self._pieces[index]

    def text_of_file(self) -> str:
        """The text of `tokenizer.json`."""
        text: str = self._tokenizer.to_str(pretty=True)
        return text

    def _id(self, token: str) -> int:
        index = self._tokenizer.token_to_id(token)
        if index is None:
            raise ModelMissing(f"tokenizer.json has no token '{token}'; it belongs to another model")
        return int(index)

    def _piece(self, index: int) -> bytes:
        token = self._tokenizer.id_to_token(index)
        if token is None or token in SPECIAL:
            return b""
        return bytes(BYTES[symbol] for symbol in token)


class _GrammarView:
    """What llguidance asks of a tokenizer: the bytes of each token and a way to encode text."""

    def __init__(self, owner: TextTokenizer) -> None:
        self._owner = owner
        self.eos_token_id = owner.eos_id
        self.bos_token_id = owner.bos_id
        self.special_token_ids = [owner.pad_id, owner.bos_id, owner.eos_id, owner.ct_id]
        names = {index: name.encode() for index, name in zip(self.special_token_ids, SPECIAL, strict=True)}
        self.tokens = [names.get(index) or owner.piece(index) for index in range(owner.size)]

    def __call__(self, text: str | bytes) -> list[int]:
        return self._owner.encode(text if isinstance(text, str) else text.decode("utf-8", errors="replace"))
