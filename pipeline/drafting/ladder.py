"""The ladder: engines that may write a text, best first. What one cannot do the next does, and each text says which one wrote it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from pipeline import log, metrics
from pipeline.drafting.breaker import Breaker, Standing
from pipeline.drafting.generator import Ask, Generated, Generator
from pipeline.drafting.selfcheck import unfit
from pipeline.errors import BadDraft, ModelMissing, PipelineError, ServiceUnavailable
from pipeline.model import Features

NOTHING = "未生成"
FAILURES = (ServiceUnavailable, ModelMissing)
logger = log.get(__name__)


@dataclass(frozen=True)
class Rung:
    """One engine. `drafts` gives the tokens that it drafts per step (None: not known, or as asked); `sections` are those it is preferred for."""

    name: str  # sglang | sglang-plain | vllm | embedded, with where it is
    generator: Generator
    check: Callable[[], None]
    drafts: Callable[[], int | None] = lambda: None
    sections: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Step:
    """A rung with what is known of it."""

    rung: Rung
    breaker: Breaker = field(compare=False)


class Ladder:
    """A Generator over rungs. Calls from several threads run side by side."""

    def __init__(self, rungs: Sequence[Rung], *, again_after_s: float = 30.0, clock: Callable[[], float] = time.monotonic) -> None:
        if not rungs:
            raise ModelMissing(f"{NOTHING}：no engine may write here; set CTREPORT_SGLANG_URL, or register the embedded model `live`")
        self._steps = tuple(Step(rung, Breaker(rung.check, clock, again_after_s)) for rung in rungs)

    @property
    def phantom_only(self) -> bool:
        """True when any rung's card forbids real studies: which one will write is not known before."""
        return any(step.rung.generator.phantom_only for step in self._steps)

    @property
    def standings(self) -> dict[str, tuple[Standing, str]]:
        """Each rung's standing, and why it is down."""
        return {step.rung.name: (step.breaker.standing, step.breaker.reason) for step in self._steps}

    def refusal(self) -> str | None:
        """Why no rung may write now, after those that were due were proved; None when one may. Ask before a job is claimed: a job that waits costs
        no attempt."""
        standing = [self._lets(step) for step in self._steps]  # every rung is proved, so that the first text finds the best one
        if any(standing):
            return None
        return self._nothing({step.rung.name: step.breaker.reason for step in self._steps})

    def generate(self, ask: Ask, features: Features) -> Generated:
        """The first valid text. A server that fails is left alone for a while; a text that leaves its schema sends its ask to the next rung.

        Raises BadDraft when every rung that answered wrote what is no answer, else ServiceUnavailable when one may answer later, else ModelMissing.
        """
        errors: list[tuple[str, PipelineError]] = []
        for step in ordered(self._steps, ask):
            if not self._lets(step):
                errors.append((step.rung.name, ServiceUnavailable(step.breaker.reason or "is being looked at")))
                continue
            try:
                made = valid(ask, step.rung.generator.generate(ask, features))
            except FAILURES as error:
                step.breaker.fail(str(error))
                self._note(step)
                errors.append((step.rung.name, error))
            except BadDraft as error:
                logger.warning("rung_bad_draft", rung=step.rung.name, section=ask.section or "whole")
                errors.append((step.rung.name, error))
            else:
                return made
            metrics.RUNGS_PASSED.labels(step.rung.name).inc()
        raise self._summed(errors)

    def _lets(self, step: Step) -> bool:
        before = step.breaker.standing
        through = step.breaker.lets_through(FAILURES)
        if step.breaker.standing is not before:
            self._note(step)
        return through

    def _note(self, step: Step) -> None:
        """A rung's standing has changed."""
        metrics.RUNG_UP.labels(step.rung.name).set(step.breaker.standing is Standing.UP)
        logger.warning("rung", rung=step.rung.name, standing=step.breaker.standing.value, reason=step.breaker.reason)

    def _summed(self, errors: Sequence[tuple[str, PipelineError]]) -> PipelineError:
        """What all rungs together came to."""
        text = self._nothing({name: str(error) for name, error in errors})
        kinds = [type(error) for _, error in errors]
        return (BadDraft if BadDraft in kinds else ServiceUnavailable if ServiceUnavailable in kinds else ModelMissing)(text)

    def _nothing(self, reasons: dict[str, str]) -> str:
        return f"{NOTHING}：" + "；".join(f"{name}: {reason}" for name, reason in reasons.items())


def ordered(steps: Sequence[Step], ask: Ask) -> Iterator[Step]:
    """Steps as they are tried for one ask: those preferred for its section first, or by the nearest draft length where one is asked for."""
    wanted = ask.k if ask.k is None or isinstance(ask.k, int) else max(ask.k.values(), default=None)

    def rank(place: int) -> tuple[int, int, int]:
        rung = steps[place].rung
        if wanted is None:
            return (0 if ask.section in rung.sections else 1, 0, place)
        drafts = rung.drafts()
        return (0 if drafts is not None else 1, abs(drafts - wanted) if drafts is not None else 0, place)

    yield from (steps[place] for place in sorted(range(len(steps)), key=rank))


def valid(ask: Ask, made: Generated) -> Generated:
    """A text that fits its schema. Raises BadDraft: truncated JSON under MTP and a grammar is a known fault of servers (sglang 18605)."""
    if (fault := unfit(made.text, ask.schema)) is None:
        return made
    how = "" if made.ended else f", cut at {ask.max_tokens} tokens (CTREPORT_DRAFT_MAX_TOKENS)"
    raise BadDraft(f"its answer does not fit the report schema: {fault}{how}")
