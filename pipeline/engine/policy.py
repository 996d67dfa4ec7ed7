"""How tokens are proposed for verification: which drafters, how long, and whether forced tokens are jumped over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pipeline.engine.sections import START_K
from pipeline.errors import BadInput

MAX_DRAFT = 16  # a verified block has at most one row more


@dataclass(frozen=True)
class Policy:
    """Which drafters compete; the text is the same under every policy.

    `k` is the MTP draft length (0 … 16): one for the whole text, one per section (absent sections take their start value), or None for
    adaptive. BadInput when a length is outside.
    """

    mtp: bool = True
    k: int | Mapping[str, int] | None = None
    lookup: bool = False
    jump: bool = True

    def __post_init__(self) -> None:
        lengths = self.k.values() if isinstance(self.k, Mapping) else [self.k or 0]
        for length in lengths:
            if not 0 <= length <= MAX_DRAFT:
                raise BadInput(f"draft length {length} is outside 0 … {MAX_DRAFT}; choose one inside")

    @classmethod
    def plain(cls, jump: bool = False) -> Policy:
        """One token per forward pass, no drafts."""
        return cls(mtp=False, k=0, jump=jump)

    @classmethod
    def fixed(cls, k: int) -> Policy:
        """MTP alone with one draft length everywhere, forced tokens jumped over; k = 0 drafts nothing."""
        return cls(mtp=k > 0, k=k)

    @classmethod
    def default(cls) -> Policy:
        """Adaptive MTP and lookup compete at every step, forced tokens are jumped over."""
        return cls(lookup=True)

    @property
    def adaptive(self) -> bool:
        """True when the controller chooses the draft length."""
        return self.mtp and self.k is None

    @property
    def longest(self) -> int:
        """The longest block that can be drafted, for caches and histograms."""
        if self.lookup or self.adaptive:
            return MAX_DRAFT
        if not self.mtp:
            return 0
        return max([*START_K.values(), *self.k.values()]) if isinstance(self.k, Mapping) else self.k or 0

    def length(self, section: str) -> int | None:
        """The fixed MTP draft length in a section; None when the controller chooses it."""
        if not self.mtp:
            return 0
        return self.k.get(section, START_K[section]) if isinstance(self.k, Mapping) else self.k
