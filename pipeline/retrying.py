"""How often and how soon an error is tried again: one rule per family of errors, as data. Permanent errors have none."""

from __future__ import annotations

import enum
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from pipeline.errors import Permanent, PipelineError, ServiceUnavailable, StorageFull, Transient


class Family(enum.StrEnum):
    """What kind of error it was, as the rules, the trail and the metrics name it."""

    SERVICE = "service"  # a database, broker or draft server does not answer
    STORAGE = "storage"  # no room, or a folder that cannot be written
    PASSING = "passing"  # any other that may pass
    PERMANENT = "permanent"  # a person has to act


CLASSES: tuple[tuple[type[PipelineError], Family], ...] = (
    (ServiceUnavailable, Family.SERVICE),
    (StorageFull, Family.STORAGE),
    (Transient, Family.PASSING),
    (Permanent, Family.PERMANENT),
)


def family_of(error: PipelineError) -> Family:
    """The first class that the error is of names its family."""
    return next((family for kind, family in CLASSES if isinstance(error, kind)), Family.PERMANENT)


@dataclass(frozen=True, slots=True)
class RetryRule:
    """Tries in all, seconds until the second, and the longest pause; each pause is twice the one before, less up to half of it by chance, so that
    what failed together does not come back together."""

    tries: int
    first_s: float
    longest_s: float = 600.0

    def pause_s(self, tried: int, chance: float) -> float | None:
        """Seconds until the next try after so many, None when it was the last. `chance` is in [0, 1)."""
        if tried >= self.tries:
            return None
        whole = min(self.first_s * 2.0 ** min(max(0, tried - 1), 60), self.longest_s)
        return whole * (1.0 - chance / 2.0)


NO_RULES: Mapping[Family, RetryRule] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Retry:
    """The rules of a site: of families that have their own, else one for all that may pass."""

    max_attempts: int
    delay_s: float
    rules: Mapping[Family, RetryRule] = field(default_factory=lambda: NO_RULES)
    chance: Callable[[], float] = field(default=random.random)

    def after(self, error: PipelineError, tried: int) -> float | None:
        """Seconds until the next try after `tried` of them, None when a person has to act first."""
        family = family_of(error)
        if family is Family.PERMANENT:
            return None
        return self.rules.get(family, RetryRule(self.max_attempts, self.delay_s)).pause_s(tried, self.chance())


def usual(max_attempts: int, delay_s: float) -> Mapping[Family, RetryRule]:
    """The rules of a site that sets none: a service that is away comes back within the hour, a full disk takes somebody longer."""
    return {
        Family.SERVICE: RetryRule(max(12, max_attempts), delay_s),
        Family.STORAGE: RetryRule(max(24, max_attempts), 6 * delay_s, 1800.0),
        Family.PASSING: RetryRule(max_attempts, delay_s),
    }
