"""Grammar of one answer: a JSON schema compiled to token masks, without any freedom in white space."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING

import llguidance
import llguidance.numpy as bitmasks
import numpy as np
import torch
from torch import Tensor

from pipeline.engine.tokenizer import TextTokenizer
from pipeline.errors import BadInput

if TYPE_CHECKING:
    from llguidance._lib import JsonCompileOptions

OPTIONS: JsonCompileOptions = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}


@lru_cache(maxsize=32)
def compile_schema(schema: str) -> str:
    """The grammar of a JSON schema; BadInput when the schema is not one."""
    try:
        json.loads(schema)
        grammar = llguidance.LLMatcher.grammar_from_json_schema(schema, overrides=OPTIONS)
    except ValueError as error:
        raise BadInput(f"the report schema is not a JSON schema ({error}); correct the schema") from None
    return str(grammar)


class Grammar:
    """Where one text stands in its schema."""

    def __init__(self, tokenizer: TextTokenizer, schema: str) -> None:
        self._matcher = llguidance.LLMatcher(tokenizer.grammar, compile_schema(schema))
        self._words = bitmasks.allocate_token_bitmask(1, tokenizer.size)  # packed bits, filled in place
        self._where = (self._words.ctypes.data, self._words.nbytes)
        self._size = tokenizer.size
        self._check()

    def fork(self) -> Grammar:
        """The same place in the same schema, which goes its own way from here."""
        other = Grammar.__new__(Grammar)
        other.__dict__.update(self.__dict__, _matcher=self._matcher.deep_copy())  # the bits stay shared: they are filled and read in one go
        return other

    @property
    def finished(self) -> bool:
        """True once nothing may follow; a finished grammar is never asked for a mask."""
        return bool(self._matcher.is_stopped())

    @property
    def forced(self) -> int | None:
        """The one token that the mask allows here, or None where there is a choice.

        The engine says first whether bytes are forced, which is much cheaper than a mask; the mask then has the word: a token is forced only
        when no other one is allowed, so that no text is ever cut into tokens again.
        """
        if not self._matcher.compute_ff_tokens():
            return None
        bits = self._bits()
        return bits.bit_length() - 1 if bits.bit_count() == 1 else None

    def allows(self, token: int) -> bool:
        """True when the mask allows this token, without making the mask; only where nothing is forced (there the mask is narrower)."""
        return self._matcher.validate_tokens([token]) == 1

    def mask(self) -> Tensor:
        """What is added to the logits (vocab,): 0 for tokens that may come next, −inf for the others."""
        self._fill()
        bits = np.unpackbits(self._words.view(np.uint8), bitorder="little")[: self._size]
        return torch.from_numpy(np.where(bits, np.float32(0), np.float32(-np.inf)))

    def consume(self, token: int) -> None:
        """Advance by one token that the mask allowed."""
        if not self._matcher.consume_token(token):
            self._check()

    def rollback(self, count: int) -> None:
        """Take the last `count` tokens back."""
        if count:
            self._matcher.rollback(count)
            self._check()

    def _bits(self) -> int:
        """The mask as one whole number: bit i is token i."""
        self._fill()
        return int.from_bytes(self._words.tobytes(), "little")

    def _fill(self) -> None:
        self._matcher.unsafe_compute_mask_ptr(*self._where)
        self._check()

    def _check(self) -> None:
        if self._matcher.is_error():
            raise BadInput(f"the grammar engine refuses the schema or a token ({self._matcher.get_error()[:200]}); correct the schema")
