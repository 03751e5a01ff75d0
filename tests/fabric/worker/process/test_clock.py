"""The store's time, carried on: it never goes back, never runs off, and comes true again."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.core.values.units import US
from fabric.runtime.ports.journal import StoreUnavailable
from fabric.worker.process.clock import (
    FRESH_S,
    SLEW,
    UNSTEADY_S,
    AskingClock,
    MeasuredClock,
    SteadyClock,
    elapsed_s,
    moved_alone,
)

NOON = 1_800_000_000 * US
BEAT_S = 3.0

jumps = st.one_of(st.just(0.0), st.floats(-4_000, 4_000), st.floats(-0.5, 0.5))
passing = st.floats(0.0, 20.0)


@dataclass
class Machine:
    """Ticks and a store's clock, moved by hand."""

    at: float = 100.0
    store_us: int = NOON
    asked: int = 0
    away: bool = False
    clock: SteadyClock = field(init=False)

    def __post_init__(self) -> None:
        self.clock = SteadyClock(lambda: self.at, lambda: 7)

    def pass_s(self, seconds: float) -> None:
        self.at += seconds
        self.store_us += round(seconds * US)

    def read(self, round_trip_s: float = 0.0) -> None:
        self.clock.record_measurement(self.store_us, self.at - round_trip_s / 2, self.at + round_trip_s / 2)

    def ask(self) -> int:
        self.asked += 1
        if self.away:
            raise StoreUnavailable("away")
        return self.store_us


def test_before_the_first_reading_it_is_the_machines():
    assert SteadyClock(lambda: 0.0, lambda: 7).now() == 7


def test_the_first_reading_counts_at_once():
    machine = Machine()
    machine.read()
    assert machine.clock.now() == NOON
    machine.pass_s(12.5)
    assert machine.clock.now() == machine.store_us


@given(st.lists(st.tuples(passing, jumps, st.booleans()), max_size=40))
def test_it_never_goes_back_and_never_more_than_a_tenth_faster_or_slower(steps):
    machine = Machine()
    machine.read()
    before, at = machine.clock.now(), machine.at
    for seconds, jump_s, read in steps:
        machine.pass_s(seconds)
        machine.store_us += round(jump_s * US)
        if read:
            machine.read()
        shown, passed_us = machine.clock.now(), (machine.at - at) * US
        assert shown >= before
        assert (1 - SLEW) * passed_us - 2 <= shown - before <= (1 + SLEW) * passed_us + 2
        before, at = shown, machine.at


@given(st.floats(-60, 60))
def test_after_a_jump_it_comes_true_again_and_stays_so(jump_s):
    machine = Machine()
    machine.read()
    machine.store_us += round(jump_s * US)
    for _ in range(int(abs(jump_s) / SLEW / BEAT_S) + 2):
        machine.pass_s(BEAT_S)
        machine.read()
        machine.clock.now()
    assert abs(machine.clock.now() - machine.store_us) <= US // 1_000
    machine.pass_s(BEAT_S)
    assert abs(machine.clock.now() - machine.store_us) <= US // 1_000


@given(st.lists(st.tuples(st.floats(0.0, 5.0), st.floats(-0.4, 0.4)), min_size=2, max_size=30))
def test_two_machines_that_read_one_store_agree_to_the_error_of_their_readings(steps):
    """The other process judges an instant as the one that fixed it, whatever their own clocks say."""
    first, second = Machine(at=5.0), Machine(at=90_000.0)
    for machine in (first, second):
        machine.read()
    for seconds, error_s in steps:
        for machine in (first, second):
            machine.pass_s(seconds)
        first.clock.record_measurement(first.store_us + round(error_s * US), first.at, first.at)
        second.read()
        assert abs(first.clock.now() - second.clock.now()) <= 0.5 * US


def test_an_answer_that_took_long_says_nothing():
    machine = Machine()
    machine.read()
    machine.pass_s(5.0)
    machine.store_us += 3 * US
    machine.read(round_trip_s=2.0)
    machine.pass_s(5.0)
    assert machine.clock.now() == machine.store_us - 3 * US


@pytest.mark.parametrize(
    ("jump_s", "steady"), [(0.0, True), (0.9, True), (15.0, False), (-15.0, False), (3_600.0, False)]
)
def test_it_knows_when_the_stores_clock_was_set(jump_s, steady):
    machine = Machine()
    assert isinstance(machine.clock, MeasuredClock)
    machine.read()
    machine.pass_s(BEAT_S)
    machine.store_us += round(jump_s * US)
    machine.read()
    assert machine.clock.steady() is (steady or jump_s == 0.0)
    machine.pass_s(UNSTEADY_S + 0.01)
    machine.read()
    assert machine.clock.steady() is True


def test_a_clock_that_goes_on_is_never_taken_for_one_that_was_set():
    for passed in (0.0, 0.5, 3.0, 600.0):
        assert not moved_alone(passed, passed)
    assert moved_alone(22.0, 10.0)
    assert moved_alone(-1.5, 10.0)


class TestAsking:
    def made(self):
        machine = Machine()
        return machine, AskingClock(machine.ask, machine.clock)

    def test_it_asks_once_for_a_while(self):
        machine, clock = self.made()
        for _ in range(100):
            clock.now()
        assert machine.asked == 1
        assert abs(clock.now() - NOON) < US

    def test_a_store_that_is_away_stops_nothing(self):
        machine, clock = self.made()
        machine.away = True
        assert clock.now() == 7
        machine.away = False
        assert abs(clock.now() - NOON) < US

    def test_it_asks_again_when_the_reading_is_old(self):
        machine, clock = self.made()
        clock.now()
        machine.pass_s(elapsed_s() - machine.at + FRESH_S + 1)
        clock.now()
        assert machine.asked == 2
