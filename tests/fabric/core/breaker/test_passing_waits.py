"""How long a breaker stays open: for the Retry-After of what it counted, where one was told, else for its own cooldown."""

import pytest

from fabric.core.breaker.foretold import reopen_breaker
from fabric.core.breaker.passing import BreakerKey, BreakerRefusal, Gate, pass_breakers, settle_breakers
from fabric.core.breaker.signals import NEUTRAL, told_cooldown_us
from fabric.core.breaker.table import BreakerState
from fabric.core.mechanisms import circuit_breaker
from fabric.core.spec.policies.breakers import SignalName, rate_limit
from fabric.core.values.units import US
from tests.fabric.core.breaker.test_passing import KEY, Rows

LIMITED = Gate(rate_limit(), BreakerKey(KEY.scope, rate_limit().kind), True, {})


class Storm(Rows):
    """A provider that says 429, and how long it wants to be left alone."""

    def asks(self, who="a"):
        return self.do(pass_breakers([LIMITED]), who)

    def says(self, met, wait_s=0.0, end=SignalName.RATE_LIMIT, who="a"):
        self.do(settle_breakers(met, end, frozenset(), round(wait_s * US)), who)

    def met(self, *waits_s):
        """Calls that went out together, and came back as 429 with these waits."""
        for met, wait_s in [(self.asks(), wait_s) for wait_s in waits_s]:
            self.says(met, wait_s)

    def passes(self, seconds):
        self.clock.us += round(seconds * US)

    def refused_for(self):
        refused = self.asks()
        assert isinstance(refused, BreakerRefusal)
        return circuit_breaker.wait_us(refused) / US

    @property
    def row(self):
        return self.store.guards([(LIMITED.key.scope, LIMITED.key.kind)])[0]


@pytest.mark.parametrize(
    ("waits_s", "open_s"),
    [((0, 0, 90), 90), ((300, 0, 0), 300), ((90, 300, 120), 300), ((0, 5, 59), 59), ((1, 1, 1), 1), ((0, 0, 0), 60)],
)
def test_it_stays_open_for_the_longest_wait_of_its_streak_else_for_its_cooldown(waits_s, open_s):
    storm = Storm()
    storm.met(*waits_s)
    assert storm.refused_for() == open_s
    storm.passes(open_s - 0.000001)
    assert isinstance(storm.asks(), BreakerRefusal)
    storm.passes(0.000001)
    assert storm.asks()[0].probe


def test_a_wait_is_counted_from_its_answer_and_not_from_the_opening():
    storm = Storm()
    storm.met(200, 0)
    storm.passes(50)
    storm.met(0)
    assert storm.refused_for() == 150


def test_what_was_over_before_it_opened_says_nothing():
    storm = Storm()
    storm.met(5, 0)
    storm.passes(20)
    storm.met(0)
    assert storm.refused_for() == 60


@pytest.mark.parametrize("wait_s", [0.000001, 0.02, 0.999])
def test_a_wait_below_a_second_counts_as_a_second(wait_s):
    storm = Storm()
    storm.met(0, 0, wait_s)
    assert storm.refused_for() == 1
    storm.passes(1)
    probe = storm.asks()
    assert circuit_breaker.wait_us(reopen_breaker(probe[0], SignalName.RATE_LIMIT, round(wait_s * US))) == 2 * US
    storm.says(probe, wait_s)
    assert storm.refused_for() == 2


def test_an_endpoint_that_names_short_waits_in_a_long_storm_is_believed_less_each_time():
    storm = Storm()
    storm.met(0, 0, 1)
    waits, trips = [], []
    for _ in range(6):
        waits.append(storm.refused_for())
        trips.append(storm.standing.trips)
        storm.passes(waits[-1])
        storm.says(storm.asks(), 1)
    assert waits == [1, 2, 4, 8, 16, 32]
    assert trips == [1] * 6, "what came before the cooldown is no trip"
    assert storm.refused_for() == 60
    storm.passes(60)
    storm.says(storm.asks(), 1)
    assert (storm.refused_for(), storm.standing.trips) == (60, 2)


def test_a_probe_that_passes_forgets_the_short_waits():
    storm = Storm()
    storm.met(0, 0, 1)
    storm.passes(1)
    storm.says(storm.asks(), 1)
    storm.passes(2)
    storm.says(storm.asks(), end=None)
    assert (storm.standing.state, storm.standing.early) == (BreakerState.CLOSED, 0)


def test_a_cooldown_below_a_second_is_not_made_longer_by_a_shorter_wait():
    quick = rate_limit().model_copy(update={"cooldown_s": 0.25})
    assert told_cooldown_us(quick, 20_000) == 250_000
    assert told_cooldown_us(quick, 700_000) == 700_000


def test_a_probe_that_fails_and_is_told_nothing_waits_its_own_cooldown():
    storm = Storm()
    storm.met(0, 0, 7)
    storm.passes(7)
    probe = storm.asks()
    assert circuit_breaker.wait_us(reopen_breaker(probe[0], SignalName.RATE_LIMIT, 0)) == 60 * US
    storm.says(probe)
    assert storm.refused_for() == 60


def test_what_a_broken_streak_told_does_not_count():
    storm = Storm()
    storm.met(900, 900)
    storm.says(storm.asks(), end=None)
    storm.met(0, 0, 0)
    assert storm.refused_for() == 60


def test_a_call_that_was_out_when_it_opened_is_heeded_too():
    storm = Storm()
    late = storm.asks()
    storm.met(70, 70, 70)
    assert storm.refused_for() == 70
    storm.says(late, 120)
    assert storm.refused_for() == 120
    assert storm.standing.trips == 1


def test_one_of_an_older_generation_that_came_clean_forgets_nothing():
    storm = Storm()
    late = storm.asks()
    storm.met(500, 0, 0)
    assert storm.refused_for() == 500
    storm.says(late, end=None)
    assert storm.refused_for() == 500


def test_a_probe_that_fails_keeps_it_open_for_as_long_as_it_was_told():
    storm = Storm()
    storm.met(0, 0, 0)
    assert storm.refused_for() == 60
    storm.passes(60)
    probe = storm.asks()
    again = reopen_breaker(probe[0], SignalName.RATE_LIMIT, 400 * US)
    assert circuit_breaker.wait_us(again) == 400 * US
    storm.says(probe, 400)
    assert (storm.refused_for(), storm.standing.trips) == (400, 2)
    storm.passes(400)
    assert storm.asks()[0].probe


def test_while_it_is_half_open_what_a_late_call_told_keeps_the_next_probe_back():
    storm = Storm()
    late = storm.asks()
    storm.met(0, 0, 0)
    assert storm.refused_for() == 60
    storm.passes(60)
    probe = storm.asks("a")
    storm.says(late, 30)
    storm.says(probe, end=NEUTRAL)
    assert storm.refused_for() == 30
    storm.passes(30)
    assert storm.asks("b")[0].probe
