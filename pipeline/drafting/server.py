"""What every draft server is asked and answers, whichever protocol it speaks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False, slots=True)
class Question:
    """One text to continue: `head`, then the feature rows, then `tail`; `ids` are all of it, one placeholder id for each row."""

    head: str
    tail: str
    ids: tuple[int, ...]
    features: NDArray[np.float32] | None  # (N, D); None: no rows
    schema: str  # empty: nothing constrains the text, for measuring alone
    max_tokens: int
    ranked: bool = False  # tell how far apart the two likeliest tokens were
    endless: bool = False  # go on behind the end, up to max_tokens: for measuring alone
    temperature: float = 0.0  # above 0 tokens are drawn: for measuring alone
    top_p: float = 1.0

    @property
    def rows(self) -> int:
        """Feature rows."""
        return 0 if self.features is None else len(self.features)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server wrote. `histogram[i]` counts the verify steps that accepted i drafted tokens; empty: the server told none."""

    text: str
    ids: tuple[int, ...]  # without the end token
    ended: bool  # False: cut at max_tokens
    histogram: tuple[int, ...]
    verify_count: int
    prompt_tokens: int
    digest: str  # of the weights, as the server knows them
    first_token_s: float
    seconds: float
    gaps: tuple[float, ...] = ()  # log-probability of the likeliest token above the second's, for each id; empty: not told


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """How a server was started, as it reports it."""

    server: str  # name and version
    digest: str
    dtype: str
    k: int  # tokens drafted per step, at most; 0: it drafts none
    speculation: str  # empty: it drafts none
    faults: tuple[str, ...] = ()  # what must be started otherwise
    notes: tuple[str, ...] = ()  # what a person should know


class Server(Protocol):
    """One draft server."""

    @property
    def rung(self) -> str:
        """sglang, sglang-plain or vllm."""

    @property
    def name(self) -> str:
        """Host and port."""

    def info(self) -> ServerInfo:
        """Raises ServiceUnavailable, or ModelMissing for what cannot serve."""

    def ask(self, question: Question, info: ServerInfo) -> Answer:
        """Write one text, greedily unless the question says otherwise. Raises ServiceUnavailable or ModelMissing."""
