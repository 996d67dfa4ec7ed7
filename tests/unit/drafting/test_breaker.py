"""The circuit breaker."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from hypothesis import given
from hypothesis import strategies as st

from pipeline.drafting.breaker import Breaker, Standing
from pipeline.errors import ServiceUnavailable

FAILURES = (ServiceUnavailable,)


class Clock:
    """Seconds that only move when told."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Server:
    """Counts its proofs; `up` says how they end."""

    def __init__(self, *, up: bool = True) -> None:
        self.up = up
        self.proofs = 0

    def check(self) -> None:
        self.proofs += 1
        if not self.up:
            raise ServiceUnavailable("down")


def test_a_server_is_proved_once_and_then_let_through() -> None:
    server, clock = Server(), Clock()
    breaker = Breaker(server.check, clock, 30)
    assert breaker.standing is Standing.UNTRIED
    assert [breaker.lets_through(FAILURES) for _ in range(5)] == [True] * 5
    assert server.proofs == 1


def test_a_dead_server_is_tried_once_per_pause() -> None:
    server, clock = Server(up=False), Clock()
    breaker = Breaker(server.check, clock, 30)
    for second in range(0, 90, 3):
        clock.now = float(second)
        assert not breaker.lets_through(FAILURES)
    assert server.proofs == 3
    assert (breaker.standing, breaker.reason) == (Standing.DOWN, "down")


def test_a_server_that_comes_back_is_let_through_after_its_next_proof() -> None:
    server, clock = Server(), Clock()
    breaker = Breaker(server.check, clock, 30)
    assert breaker.lets_through(FAILURES)
    breaker.fail("broke off")
    clock.now = 29.9
    assert not breaker.lets_through(FAILURES)
    clock.now = 30.0
    assert breaker.lets_through(FAILURES)
    assert (server.proofs, breaker.reason) == (2, "")


def test_at_the_first_proof_others_wait_for_it() -> None:
    started, go = threading.Event(), threading.Event()
    proofs = []

    def check() -> None:
        proofs.append(1)
        started.set()
        assert go.wait(10)

    breaker = Breaker(check, Clock(), 30)
    with ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(breaker.lets_through, FAILURES) for _ in range(4)]
        assert started.wait(10)
        go.set()
        assert [one.result(10) for one in waiting] == [True] * 4
    assert len(proofs) == 1


def test_while_a_fallen_server_is_proved_others_are_turned_away() -> None:
    started, go = threading.Event(), threading.Event()
    server, clock = Server(up=False), Clock()

    def check() -> None:
        if server.proofs:
            started.set()
            assert go.wait(10)
        server.check()

    breaker = Breaker(check, clock, 30)
    assert not breaker.lets_through(FAILURES)
    clock.now, server.up = 31.0, True
    with ThreadPoolExecutor(1) as pool:
        probing = pool.submit(breaker.lets_through, FAILURES)
        assert started.wait(10)
        assert not breaker.lets_through(FAILURES)
        go.set()
        assert probing.result(10)
    assert breaker.lets_through(FAILURES)


@given(st.lists(st.tuples(st.floats(0, 100), st.booleans(), st.booleans()), max_size=40))
def test_it_never_lets_through_what_it_knows_to_be_down(steps: list[tuple[float, bool, bool]]) -> None:
    server, clock = Server(), Clock()
    breaker = Breaker(server.check, clock, 30)
    fell: float | None = None
    for wait, up, fails in steps:
        clock.now += wait
        server.up = up
        before = server.proofs
        through = breaker.lets_through(FAILURES)
        if fell is not None and clock.now - fell < 30:
            assert not through
            assert server.proofs == before
        if server.proofs > before:
            assert through is up
            fell = None if up else clock.now
        if through and fails:
            breaker.fail("broke off")
            fell = clock.now
