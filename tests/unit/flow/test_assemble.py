"""The step around the verdict: what is frozen, what waits, what is withdrawn, and who is rung."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import cast
from uuid import UUID, uuid4

from pipeline.choosing import ChoiceRule, SeriesChoice
from pipeline.evidence import Evidence, Patience, Verdict, VerdictKind
from pipeline.flow.assemble import Assembling, assemble
from pipeline.model import Lease, Step, Study
from pipeline.ports import Store, Work
from tests.unit.flow.test_choose import SC, series, study

PATIENCE = Patience(quiet_s=1.0, settle_s=1.0, patience_s=10.0, force_after_s=100.0)
QUIET = Evidence(quiet_s=2.0, age_s=5.0, images=30)


@dataclass
class FakeStore:
    """Quiet studies in, freezes and audit rows out."""

    quiet: tuple[Study, ...]
    frozen: list[tuple[SeriesChoice, bool, str | None]] = field(default_factory=list)
    actions: list[str] = field(default_factory=list)
    commits: int = 0
    late: bool = False
    verdicts: list[Verdict] = field(default_factory=list)
    known: Evidence = QUIET

    @contextmanager
    def begin(self) -> Iterator[Work]:
        yield cast("Work", self)
        self.commits += 1

    @property
    def studies(self) -> FakeStore:
        return self

    @property
    def audit(self) -> FakeStore:
        return self

    def claim_quiet(self, patience: Patience, limit: int, lease: Lease) -> tuple[Study, ...]:
        return self.quiet[:limit]

    def evidence(self, _study: Study) -> Evidence:
        return self.known

    def choice_rules(self) -> tuple[ChoiceRule, ...]:
        return ()

    def postpone(self, _study: Study, verdict: Verdict, lease: Lease) -> bool:
        self.verdicts.append(verdict)
        return not self.late

    def withdraw_rejected(self, _study: Study) -> bool:
        return True

    def freeze(
        self, _study: Study, made: SeriesChoice, is_phantom: bool, reason: str | None, verdict: Verdict, night_in_s: float = 0.0
    ) -> UUID | None:
        assert night_in_s == 0.0  # without off-peak hours nothing waits for them
        if self.late:
            return None
        self.verdicts.append(verdict)
        self.frozen.append((made, is_phantom, reason))
        return uuid4()

    def append(self, action: str, **_: object) -> None:
        self.actions.append(action)


@dataclass
class Bell:
    """Remembers rings, and how many transactions had committed by then."""

    store: FakeStore
    rung: list[tuple[Step, int]] = field(default_factory=list)

    def ring(self, step: Step) -> None:
        self.rung.append((step, self.store.commits))


@dataclass
class Phantoms:
    """Holds the images whose UID begins with a prefix."""

    prefix: str

    def holds_all(self, sop_uids: Sequence[str]) -> bool:
        return bool(sop_uids) and all(uid.startswith(self.prefix) for uid in sop_uids)


def run(store: FakeStore, prefix: str = "none") -> tuple[int, list[tuple[Step, int]]]:
    bell = Bell(store)
    handled = assemble(Assembling(cast("Store", store), Phantoms(prefix), bell, PATIENCE, 8), 10, Lease("me", 60.0))
    return handled, bell.rung


def test_quiet_studies_are_frozen_and_the_bell_rings_once_after_the_commits() -> None:
    store = FakeStore((study(series("1")), study(series("2")), study(series("3", body_part="HEAD"))))
    assert run(store) == (3, [(Step.ENCODE, 7)])
    assert [(bool(made.chosen), reason is None) for made, _, reason in store.frozen] == [(True, True), (True, True), (False, False)]
    assert store.actions == ["assemble", "assemble", "assemble", "unsupported"]


def test_nothing_ready_rings_nothing() -> None:
    assert run(FakeStore((study(series(body_part="HEAD")),))) == (1, [])
    assert run(FakeStore((study(series()),), late=True)) == (1, [])
    assert run(FakeStore(())) == (0, [])


def test_a_study_is_a_phantom_only_when_every_image_is_in_the_ledger() -> None:
    mixed = study(series("1"), series("2", 1, sop_class=SC))
    store = FakeStore((mixed,))
    run(store, "1.")
    assert store.frozen[0][1] is True
    run(store, "1.1.")
    assert store.frozen[1][1] is False


def test_a_study_that_lacks_something_waits_and_then_goes_on_as_partial() -> None:
    store = FakeStore((study(series()),), known=replace(QUIET, associations_aborted=1))
    assert run(store) == (1, [])
    store.known = replace(store.known, quiet_s=10.0)
    assert run(store) == (1, [(Step.ENCODE, 6)])
    assert [verdict.kind for verdict in store.verdicts] == [VerdictKind.WAIT, VerdictKind.PARTIAL]
    assert store.actions == ["assemble_wait", "assemble"]


def test_a_forced_study_says_so_in_the_trail() -> None:
    store = FakeStore((study(series()),), known=replace(QUIET, age_s=100.0, associations_open=1))
    run(store)
    assert store.verdicts[0].forced
    assert store.actions == ["assemble", "assemble_forced"]


def test_a_study_of_which_notes_took_back_every_image_is_withdrawn_and_deliver_is_rung() -> None:
    store = FakeStore((study(),), known=replace(QUIET, images=0, rejected=30))
    assert run(store) == (1, [(Step.DELIVER, 3)])
    assert store.frozen == []


def test_slices_missing_inside_a_series_are_found_and_counted() -> None:
    whole = series()
    holed = replace(whole, instances=(*whole.instances[:9], *whole.instances[11:]))
    store = FakeStore((study(holed),))
    run(store)
    (gap,) = store.verdicts[0].evidence.gaps
    assert (gap.after, gap.missing) == (9, 2)
