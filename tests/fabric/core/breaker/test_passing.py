"""How calls pass breakers, over rows in memory: who opens, who probes, who is refused, what is counted."""

import pytest

from fabric.core.breaker.foretold import foretell_refusal
from fabric.core.breaker.passing import BreakerKey, BreakerRefusal, Gate, pass_breakers, settle_breakers
from fabric.core.breaker.signals import NEUTRAL
from fabric.core.breaker.table import (
    BreakerHappening,
    BreakerState,
    Standing,
    apply_happening,
    decode_standing,
    encode_standing,
)
from fabric.core.events.commands import CallModel, CallTool
from fabric.core.spec.policies.breakers import BreakerScope, SignalName, endpoint, semantic
from fabric.core.values.units import US
from fabric.runtime.breakers import build_count
from simulator.stores.memory.guards import MemoryGuards

STEP = "fan_out.0.e0.r0"
MODEL = CallModel(
    command_id=f"{STEP}.t1",
    attempt=1,
    step_id=STEP,
    agent="worker",
    model="small",
    messages=(),
    tools=(),
    output="summary",
    max_output_tokens=1,
    idempotency_key="k",
    deadline_at=0,
)
TOOL = CallTool(
    command_id=f"{STEP}.t1.c0",
    attempt=1,
    step_id=STEP,
    agent="worker",
    tool="look",
    args_ref="r",
    call_id="1",
    idempotency_key="k",
    deadline_at=0,
)
BREAKER = endpoint().model_copy(update={"success_threshold": 2})
KEY = BreakerKey("provider:scripted", BREAKER.kind)
GATE = Gate(BREAKER, KEY, True, {})


class Clock:
    us = 1_000_000 * US

    def now(self):
        return self.us


class Rows:
    """One store, which the named callers ask."""

    def __init__(self):
        self.clock = Clock()
        self.store = MemoryGuards(self.clock)
        self.before_change = lambda: None
        self.for_s = 30.0

    def do(self, steps, who="a"):
        answer = None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration as done:
                return done.value
            answer = self.one(step, who)

    def one(self, step, who):
        where = (step.key.scope, step.key.kind)
        if step.do == "look":
            return self.store.guards([where])[0]
        seen = step.row.generation
        if step.do == "change":
            self.before_change()
            held = who if step.held else ""
            return self.store.change(*where, generation=seen, state=step.state, holder=held, keeps=step.keeps)
        if step.do == "permit":
            return self.store.permit(*where, generation=seen, holder=who, for_s=self.for_s, most=step.most)
        if step.do == "give_up":
            return self.store.give_up(*where, holder=who)
        return self.store.tell([build_count(step)])

    def say(self, met, end, who="a", bad=frozenset()):
        self.do(settle_breakers(met, end, bad), who)

    def calls(self, *ends, gate=GATE):
        for end in ends:
            met = self.do(pass_breakers([gate]))
            assert not isinstance(met, BreakerRefusal)
            self.say(met, end)

    @property
    def row(self):
        return self.store.guards([(KEY.scope, KEY.kind)])[0]

    @property
    def standing(self):
        return decode_standing(self.row.state)

    def opened(self):
        self.calls(*[SignalName.TIMEOUT] * 5)
        assert isinstance(self.do(pass_breakers([GATE])), BreakerRefusal)
        return self

    def cooled(self):
        self.clock.us += round(BREAKER.cooldown_s * US)
        return self


@pytest.fixture
def rows():
    return Rows()


def test_the_call_after_the_fifth_failure_opens_it_and_is_refused(rows):
    rows.calls(*[SignalName.TIMEOUT] * 4)
    assert isinstance(rows.do(pass_breakers([GATE])), tuple)
    rows.calls(SignalName.SERVER_ERROR)
    refused = rows.do(pass_breakers([GATE]))
    assert isinstance(refused, BreakerRefusal)
    assert (refused.standing.state, refused.standing.failures, refused.standing.signal) == ("open", 5, "timeout")
    assert refused.changed_at == rows.clock.us
    assert rows.row.counts == {}


def test_one_that_answers_breaks_the_streak_and_what_says_nothing_does_not(rows):
    rows.calls(*[SignalName.TIMEOUT] * 4, None, *[SignalName.TIMEOUT] * 4, NEUTRAL)
    assert isinstance(rows.do(pass_breakers([GATE])), tuple)
    rows.calls(SignalName.TIMEOUT)
    assert isinstance(rows.do(pass_breakers([GATE])), BreakerRefusal)


def test_after_the_cooldown_one_call_probes_and_the_others_are_refused(rows):
    rows.opened()
    rows.clock.us += round(BREAKER.cooldown_s * US) - 1
    assert rows.do(pass_breakers([GATE])).standing.state is BreakerState.OPEN
    rows.clock.us += 1
    (probe,) = rows.do(pass_breakers([GATE]), "a")
    assert probe.probe
    refused = rows.do(pass_breakers([GATE]), "b")
    assert (refused.standing.state, refused.until) == (
        BreakerState.HALF_OPEN,
        rows.clock.us + 30 * US,
    )  # As long as the permit.


def test_so_many_probes_close_it_as_must_succeed(rows):
    rows.opened().cooled()
    for passed in (1, 2):
        met = rows.do(pass_breakers([GATE]))
        assert met[0].probe
        rows.say(met, None)
        assert (rows.standing.state, rows.standing.passed) == (("half_open", 1) if passed == 1 else ("closed", 0))
    assert not rows.do(pass_breakers([GATE]))[0].probe


def test_a_probe_that_fails_opens_it_again_and_at_the_third_trip_it_stops(rows):
    rows.opened()
    for trips in (2, 3):
        rows.cooled()
        rows.say(rows.do(pass_breakers([GATE])), SignalName.SERVER_ERROR)
        assert rows.standing.trips == trips
    assert rows.standing.state is BreakerState.STOPPED
    assert rows.cooled().do(pass_breakers([GATE])).standing.held


def test_a_probe_that_says_nothing_gives_its_permit_to_the_next(rows):
    rows.opened().cooled()
    rows.say(rows.do(pass_breakers([GATE]), "a"), NEUTRAL, "a")
    assert rows.do(pass_breakers([GATE]), "b")[0].probe


def test_a_probe_whose_permit_expired_changes_nothing(rows):
    rows.opened().cooled()
    late = rows.do(pass_breakers([GATE]), "a")
    rows.clock.us += 31 * US
    assert rows.do(pass_breakers([GATE]), "b")[0].probe
    rows.say(late, None, "a")
    assert (rows.standing.state, rows.standing.passed) == (BreakerState.HALF_OPEN, 0)


def test_what_was_let_through_before_it_opened_is_not_counted_after(rows):
    slow = rows.do(pass_breakers([GATE]))
    rows.opened()
    rows.say(slow, SignalName.TIMEOUT)
    assert rows.row.counts == {}


def test_the_second_to_open_it_sees_the_first_result(rows):
    rows.calls(*[SignalName.TIMEOUT] * 5)
    racing = [True]

    def first():
        if racing.pop() if racing else False:
            assert isinstance(rows.do(pass_breakers([GATE]), "b"), BreakerRefusal)

    rows.before_change = first
    refused = rows.do(pass_breakers([GATE]), "a")
    assert (refused.standing.trips, refused.generation) == (1, 1)


def test_a_permit_is_given_back_when_a_later_breaker_refuses(rows):
    rows.opened().cooled()
    other = Gate(semantic(BreakerScope.TOOL), BreakerKey("tool:f:look", "x"), True, {SignalName.SCHEMA_INVALID: 2})
    assert isinstance(rows.do(pass_breakers([GATE, other]), "a"), BreakerRefusal)
    assert rows.do(pass_breakers([GATE]), "b")[0].probe


def test_a_streak_of_the_calls_own_step_opens_it_for_all_runs(rows):
    policy = semantic()
    key = BreakerKey("agent:f:worker", policy.kind)
    mine, theirs = (Gate(policy, key, True, {SignalName.SCHEMA_INVALID: n}) for n in (2, 0))
    assert isinstance(rows.do(pass_breakers([theirs])), tuple)
    assert rows.do(pass_breakers([mine])).standing.signal == "schema_invalid"
    assert isinstance(rows.do(pass_breakers([theirs])), BreakerRefusal)


def test_a_probe_whose_answer_has_not_the_form_fails(rows):
    policy = semantic()
    key = BreakerKey("agent:f:worker", policy.kind)
    seen = rows.store.guards([(key.scope, key.kind)])[0]
    opened = apply_happening(
        policy, Standing(), BreakerHappening.TRIPPED, signal="schema_invalid", failures=2, threshold=2
    )
    rows.store.change(key.scope, key.kind, generation=seen.generation, state=encode_standing(opened))
    met = rows.cooled().do(pass_breakers([Gate(policy, key, True, {})]))
    rows.say(met, None, bad=frozenset({SignalName.SCHEMA_INVALID}))
    standing = decode_standing(rows.store.guards([(key.scope, key.kind)])[0].state)
    assert (standing.state, standing.trips) == (BreakerState.OPEN, 2)


# -- several probes at once --------------------------------------------------------------------------------------------


def several(most, needed, **changed):
    policy = BREAKER.model_copy(update={"half_open_max": most, "success_threshold": needed, **changed})
    return Gate(policy, BreakerKey(KEY.scope, policy.kind), True, {})


class Several(Rows):
    """A breaker that lets several probe, half open."""

    def __init__(self, most, needed, **changed):
        super().__init__()
        self.gate = several(most, needed, **changed)
        self.calls(*[SignalName.TIMEOUT] * 5, gate=self.gate)
        assert isinstance(self.asks("first"), BreakerRefusal)
        self.cooled()

    def asks(self, who):
        return self.do(pass_breakers([self.gate]), who)

    @property
    def row(self):
        return self.store.guards([(self.gate.key.scope, self.gate.key.kind)])[0]


@pytest.mark.parametrize("most", [1, 2, 3, 16])
def test_as_many_probe_as_may_and_the_next_is_refused(most):
    rows = Several(most, 1)
    probes = [rows.asks(f"p{n}") for n in range(most)]
    assert all(one.probe for (one,) in probes)
    refused = rows.asks("one more")
    assert (refused.standing.state, refused.until) == (BreakerState.HALF_OPEN, rows.clock.us + 30 * US)
    rows.say(probes[0], NEUTRAL, "p0")
    assert rows.asks("one more")[0].probe
    assert isinstance(rows.asks("and one"), BreakerRefusal)


def test_a_refused_call_comes_back_when_the_first_permit_runs_out():
    rows = Several(2, 1)
    rows.for_s = 40.0
    rows.asks("long")
    rows.for_s = 10.0
    rows.asks("short")
    assert rows.asks("late").until == rows.clock.us + 10 * US
    rows.clock.us += 10 * US
    assert rows.asks("late")[0].probe


def test_probes_that_pass_at_once_are_each_counted():
    rows = Several(3, 3)
    probes = [rows.asks(who) for who in "abc"]
    for met, who, passed in zip(probes, "abc", (1, 2, 0), strict=True):
        rows.say(met, None, who)
        assert rows.standing.passed == passed
    assert rows.standing.state is BreakerState.CLOSED


def test_a_probe_that_passed_leaves_the_others_out_and_makes_room_for_one():
    rows = Several(2, 3)
    first, second = rows.asks("a"), rows.asks("b")
    rows.say(first, None, "a")
    assert rows.asks("c")[0].probe
    assert isinstance(rows.asks("d"), BreakerRefusal)
    rows.say(second, None, "b")
    assert (rows.standing.passed, rows.asks("d")[0].probe) == (2, True)


def test_one_probe_that_fails_opens_it_whatever_the_others_say():
    rows = Several(3, 3)
    probes = {who: rows.asks(who) for who in "abc"}
    rows.say(probes["a"], None, "a")
    rows.say(probes["b"], SignalName.TIMEOUT, "b")
    assert (rows.standing.state, rows.standing.trips) == (BreakerState.OPEN, 2)
    rows.say(probes["c"], None, "c")
    assert (rows.standing.state, rows.standing.trips, rows.row.permits) == (BreakerState.OPEN, 2, {})


def test_a_probe_of_the_time_before_is_still_out_and_counts_for_nothing_but_its_place():
    rows = Several(2, 1)
    rows.for_s = 1_000.0
    slow, failing = rows.asks("slow"), rows.asks("failing")
    rows.say(failing, SignalName.TIMEOUT, "failing")
    rows.cooled()
    assert rows.asks("next")[0].probe
    assert isinstance(rows.asks("third"), BreakerRefusal), "the slow one is out too"
    rows.say(slow, None, "slow")
    assert rows.standing.state is BreakerState.HALF_OPEN
    assert rows.asks("third")[0].probe


def test_a_probe_after_it_closed_changes_nothing():
    rows = Several(2, 1)
    first, second = rows.asks("a"), rows.asks("b")
    rows.say(first, None, "a")
    rows.say(second, SignalName.TIMEOUT, "b")
    assert (rows.standing.state, rows.row.counts) == (BreakerState.CLOSED, {})


def stopped(rows):
    rows.opened()
    for _ in range(2):
        rows.cooled().say(rows.do(pass_breakers([GATE])), SignalName.SERVER_ERROR)


def let_out(rows):
    """Its probe went out, and was not heard of again."""
    rows.opened().cooled().do(pass_breakers([GATE]), "a")
    rows.clock.us += 31 * US


MOMENTS = {
    "closed": (lambda rows: None, False),
    "one failure before": (lambda rows: rows.calls(*[SignalName.TIMEOUT] * 4), False),
    "at its threshold": (lambda rows: rows.calls(*[SignalName.TIMEOUT] * 5), True),
    "open": (Rows.opened, True),
    "its cooldown is over": (lambda rows: rows.opened().cooled(), False),
    "its probe is out": (lambda rows: rows.opened().cooled().do(pass_breakers([GATE]), "a"), True),
    "its probe's permit is over": (let_out, False),
    "it stopped": (lambda rows: (stopped(rows), rows.cooled()), True),
}


@pytest.mark.parametrize(("reach", "refuses"), MOMENTS.values(), ids=MOMENTS)
def test_whether_a_call_would_be_refused_is_what_it_meets_then_and_asking_moves_nothing(rows, reach, refuses):
    reach(rows)
    before = rows.row
    assert rows.do(foretell_refusal([GATE], (), NEUTRAL)) is refuses
    assert rows.row == before
    assert isinstance(rows.do(pass_breakers([GATE]), "b"), BreakerRefusal) is refuses


def test_one_of_several_that_refuses_is_enough(rows):
    other = Gate(BREAKER, BreakerKey("agent:f:a", BREAKER.kind), True, {})
    assert rows.do(foretell_refusal([other, GATE], (), NEUTRAL)) is False
    rows.opened()
    assert rows.do(foretell_refusal([other, GATE], (), NEUTRAL)) is True


@pytest.mark.parametrize(("before", "end", "refuses"), [
    (3, SignalName.TIMEOUT, False),
    (4, SignalName.TIMEOUT, True),
    (4, SignalName.RATE_LIMIT, False),
    (4, NEUTRAL, False),
])  # fmt: skip
def test_the_end_of_the_call_before_counts_before_it_is_told(rows, before, end, refuses):
    rows.calls(*[SignalName.TIMEOUT] * before)
    met = rows.do(pass_breakers([GATE]))
    assert rows.do(foretell_refusal([GATE], met, end)) is refuses
    other = Gate(BREAKER, BreakerKey("agent:f:a", BREAKER.kind), True, {})
    assert rows.do(foretell_refusal([other], met, end)) is False


def test_a_probe_that_failed_lets_no_call_through_and_one_that_says_nothing_does(rows):
    rows.opened().cooled()
    met = rows.do(pass_breakers([GATE]), "a")
    assert rows.do(foretell_refusal([GATE], met, SignalName.TIMEOUT)) is True
    assert rows.do(foretell_refusal([GATE], met, NEUTRAL)) is False
