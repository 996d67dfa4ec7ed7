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
        self._words = bitmasks.allocate_token_bitmask(1, tokenizer.size)
        self._size = tokenizer.size
        self._check()

    @property
    def finished(self) -> bool:
        """True once nothing may follow; a finished grammar is never asked for a mask."""
        return bool(self._matcher.is_stopped())

    def mask(self) -> Tensor:
        """What is added to the logits (vocab,): 0 for tokens that may come next, −inf for the others."""
        bitmasks.fill_next_token_bitmask(self._matcher, self._words)
        self._check()
        bits = np.unpackbits(self._words.view(np.uint8), bitorder="little")[: self._size]
        return torch.from_numpy(np.where(bits, np.float32(0), np.float32(-np.inf)))

    def consume(self, token: int) -> None:
        """Advance by one token that the mask allowed."""
        self._matcher.consume_token(token)
        self._check()

    def rollback(self, count: int) -> None:
        """Take the last `count` tokens back."""
        if count:
            self._matcher.rollback(count)
            self._check()

    def _check(self) -> None:
        if self._matcher.is_error():
            raise BadInput(f"the grammar engine refuses the schema or a token ({self._matcher.get_error()[:200]}); correct the schema")
