"""The ladder: which engine writes, what happens when it cannot, and what is told of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from pipeline.drafting.breaker import Standing
from pipeline.drafting.generator import WHOLE, Ask, Generated
from pipeline.drafting.ladder import Ladder, Rung, Step, ordered
from pipeline.drafting.prompt import section_schema
from pipeline.drafting.schema import ADVICE, FINDINGS, IMPRESSION
from pipeline.errors import BadDraft, BadInput, ModelMissing, NotAllowed, PipelineError, ServiceUnavailable
from pipeline.model import DraftSource, Features, Generation
from tests.unit.drafting.served import EMPTY

FEATURES = Features(np.zeros((0, 8), np.float32), "seeded", "1", "")
ASK = Ask(FINDINGS, "", section_schema(FINDINGS), 400)
SECRET = "左肺上叶"


class Writer:
    """A generator by script: what it raises or writes, one a call, then `text` for ever."""

    def __init__(self, name: str, script: Iterable[PipelineError | str] = (), *, text: str = EMPTY, phantom_only: bool = False) -> None:
        self.name = name
        self.script = list(script)
        self.text = text
        self.phantom_only = phantom_only
        self.calls = 0

    def generate(self, ask: Ask, features: Features) -> Generated:
        self.calls += 1
        said = self.script.pop(0) if self.script else self.text
        if isinstance(said, PipelineError):
            raise said
        return Generated(said, Generation(1, 1, (1,), 0.0), DraftSource(self.name, "m", "0" * 64, self.phantom_only), True)


class Clock:
    """Seconds that only move when told."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def rung(writer: Writer, check: Callable[[], None] = lambda: None, *, k: int | None = None, sections: frozenset[str] = frozenset()) -> Rung:
    return Rung(writer.name, writer, check, lambda: k, sections)


def ladder(*writers: Writer, clock: Clock | None = None) -> Ladder:
    return Ladder([rung(one) for one in writers], again_after_s=30, clock=clock or Clock())


def test_the_best_rung_writes_and_the_text_says_so() -> None:
    best, next_best = Writer("sglang"), Writer("vllm")
    made = ladder(best, next_best).generate(ASK, FEATURES)
    assert (made.text, made.source.rung, next_best.calls) == (EMPTY, "sglang", 0)


@pytest.mark.parametrize(
    "error", [ServiceUnavailable("down"), ModelMissing("other weights"), BadDraft("cut")], ids=lambda error: type(error).__name__
)
def test_what_one_rung_cannot_the_next_does(error: PipelineError) -> None:
    made = ladder(Writer("sglang", [error]), Writer("sglang-plain"), Writer("vllm")).generate(ASK, FEATURES)
    assert made.source.rung == "sglang-plain"


@pytest.mark.parametrize("text", ['{"病灶": [', "", "[]", EMPTY.replace("无", "到处"), EMPTY[:-1], f"{EMPTY} {EMPTY}"])
def test_a_text_that_leaves_its_schema_sends_the_ask_on_and_keeps_the_rung(text: str) -> None:
    """Truncated JSON under MTP and a grammar: the server is well otherwise."""
    best = Writer("sglang", [text])
    steps = ladder(best, Writer("sglang-plain"))
    assert steps.generate(ASK, FEATURES).source.rung == "sglang-plain"
    assert steps.generate(ASK, FEATURES).source.rung == "sglang"


def test_a_dead_server_costs_one_time_out_and_not_one_per_study() -> None:
    clock, dead = Clock(), Writer("sglang", [ServiceUnavailable("said nothing for 30 s")] * 99)
    steps = ladder(dead, Writer("vllm"), clock=clock)
    for _ in range(50):
        assert steps.generate(ASK, FEATURES).source.rung == "vllm"
    assert dead.calls == 1
    clock.now = 30.0
    steps.generate(ASK, FEATURES)
    assert dead.calls == 2


def test_a_server_that_fails_its_self_check_is_never_asked_and_the_reason_is_told() -> None:
    def refuse() -> None:
        raise ModelMissing("it runs other weights; start it with the right ones")

    bad = Writer("sglang")
    steps = Ladder([rung(bad, refuse), rung(Writer("vllm"))], again_after_s=30, clock=Clock())
    assert steps.generate(ASK, FEATURES).source.rung == "vllm"
    assert bad.calls == 0
    assert steps.standings["sglang"] == (Standing.DOWN, "it runs other weights; start it with the right ones")
    assert steps.refusal() is None


def test_when_nothing_may_write_the_refusal_names_each_reason_and_nothing_is_asked() -> None:
    def refuse() -> None:
        raise ModelMissing("other weights")

    def down() -> None:
        raise ServiceUnavailable("cannot be reached")

    one, other = Writer("sglang"), Writer("vllm")
    steps = Ladder([rung(one, refuse), rung(other, down)], again_after_s=30, clock=Clock())
    assert steps.refusal() == "未生成：sglang: other weights；vllm: cannot be reached"
    assert (one.calls, other.calls) == (0, 0)


def test_the_refusal_ends_when_a_server_comes_back() -> None:
    clock, up = Clock(), [False]

    def check() -> None:
        if not up[0]:
            raise ServiceUnavailable("starting")

    steps = Ladder([rung(Writer("sglang"), check)], again_after_s=30, clock=clock)
    assert steps.refusal() is not None
    up[0] = True
    assert steps.refusal() is not None, "not looked at again before its time"
    clock.now = 30.0
    assert steps.refusal() is None


@pytest.mark.parametrize(
    ("errors", "kind"),
    [
        ([ServiceUnavailable("a"), ModelMissing("b")], ServiceUnavailable),
        ([ModelMissing("a"), ModelMissing("b")], ModelMissing),
        ([BadDraft("a"), ServiceUnavailable("b")], BadDraft),
    ],
)
def test_when_every_rung_failed_it_is_told_as_not_generated(errors: Sequence[PipelineError], kind: type[PipelineError]) -> None:
    steps = ladder(*(Writer(name, [error]) for name, error in zip(("sglang", "vllm"), errors, strict=True)))
    with pytest.raises(kind, match=r"^未生成：sglang: a；vllm: b$"):
        steps.generate(ASK, FEATURES)


@pytest.mark.parametrize("error", [NotAllowed("phantom-only"), BadInput("features of another width")])
def test_what_no_other_rung_would_mend_is_raised_at_once(error: PipelineError) -> None:
    other = Writer("vllm")
    with pytest.raises(type(error)):
        ladder(Writer("sglang", [error]), other).generate(ASK, FEATURES)
    assert other.calls == 0


def test_a_refused_text_is_not_repeated_in_the_message() -> None:
    steps = ladder(Writer("sglang", text=f'{{"{SECRET}": ["{SECRET}'))
    with pytest.raises(BadDraft) as refused:
        steps.generate(ASK, FEATURES)
    assert SECRET not in str(refused.value)


def test_a_ladder_is_phantom_only_when_any_rung_is() -> None:
    assert ladder(Writer("sglang"), Writer("embedded", phantom_only=True)).phantom_only
    assert not ladder(Writer("sglang"), Writer("vllm")).phantom_only


def test_a_ladder_without_rungs_is_refused() -> None:
    with pytest.raises(ModelMissing, match="CTREPORT_SGLANG_URL"):
        Ladder([])


def names(ask: Ask, *rungs: Rung) -> list[str]:
    steps = Ladder(rungs, clock=Clock())
    return [step.rung.name for step in ordered(steps._steps, ask)]


LONG = rung(Writer("sglang"), k=4)
SHORT = rung(Writer("sglang-text"), k=1, sections=frozenset({IMPRESSION, ADVICE}))
PLAIN = rung(Writer("sglang-plain"), k=0)
LAST = rung(Writer("embedded"))


@pytest.mark.parametrize(
    ("section", "k", "wanted"),
    [
        (FINDINGS, None, ["sglang", "sglang-text", "sglang-plain", "embedded"]),
        (IMPRESSION, None, ["sglang-text", "sglang", "sglang-plain", "embedded"]),
        (WHOLE, None, ["sglang", "sglang-text", "sglang-plain", "embedded"]),
        (FINDINGS, 0, ["sglang-plain", "sglang-text", "sglang", "embedded"]),
        (IMPRESSION, 5, ["sglang", "sglang-text", "sglang-plain", "embedded"]),
        (FINDINGS, 2, ["sglang-text", "sglang", "sglang-plain", "embedded"]),
    ],
)
def test_a_draft_length_goes_to_the_server_that_is_nearest_to_it(section: str, k: int | None, wanted: list[str]) -> None:
    assert names(replace(ASK, section=section, k=k), LONG, SHORT, PLAIN, LAST) == wanted


def test_a_length_per_section_in_a_whole_report_is_met_by_its_longest() -> None:
    assert names(replace(ASK, section=WHOLE, k={FINDINGS: 4, IMPRESSION: 0}), PLAIN, LONG)[0] == "sglang"


def test_no_rung_is_left_out() -> None:
    steps = [Step(one, None) for one in (LONG, SHORT, PLAIN, LAST)]  # type: ignore[arg-type]  # the order asks no breaker
    for k in (None, 0, 1, 7):
        assert {step.rung.name for step in ordered(steps, replace(ASK, k=k))} == {"sglang", "sglang-text", "sglang-plain", "embedded"}
