"""One process counts and sees guard rows, step by step on a clock that is passed by hand; and it earns retry tokens."""

import threading

import pytest

from fabric.core.breaker.passing import BreakerKey, Gate, PassedBreaker, settle_breakers
from fabric.core.breaker.table import BreakerState, Standing, decode_standing, encode_standing
from fabric.core.budgets.grants import TokenWant
from fabric.core.events.commands import CallTool
from fabric.core.spec.policies.breakers import Breaker, endpoint
from fabric.core.state.context import compile_spec
from fabric.core.values.frozen import replace
from fabric.runtime.driver import RunDriver
from fabric.runtime.hosting.ownership import OwnedRun
from fabric.runtime.ports.journal import StoreUnavailable
from fabric.runtime.ports.spending import SignalCount, TokenAsk
from fabric.worker.spending.breakers import _carry_on
from fabric.worker.spending.grant_desk import GrantDesk
from fabric.worker.spending.guards import AWAY_S, FLUSH_S, FRESH_S, USED_S, Guards
from fabric.worker.spending.process_share import ProcessShare, RetryTokens
from simulator.stores.memory.grants import MemoryGrants
from simulator.stores.memory.guards import MemoryGuards
from tests.fabric.core.fabrics import PRICES, lone
from tests.fabric.runtime.shelves import Shelf
from tests.fabric.stores.journal_worlds import SECOND, Hand
from tests.fabric.stores.writer.writer_scenes import WAIT_S

KEY = ("provider:scripted", "circuit_breaker")


class Store:
    """The memory store, counting its calls; away for as many as it is told."""

    def __init__(self, clock):
        self._real, self.calls, self.failures = MemoryGuards(clock), [], []

    def __getattr__(self, name):
        def called(*given, **named):
            self.calls.append(name)
            failure = self.failures.pop(0) if self.failures else None
            if failure is not None and not getattr(failure, "unknown", False):
                raise failure
            found = getattr(self._real, name)(*given, **named)
            if failure is not None:
                raise failure
            return found

        return called


class Process:
    def __init__(self, clock, store):
        self.clock, self.store, self._posted = clock, store, []
        self.guards = Guards(store, self._posted.append, lambda: clock.us / SECOND)
        self.answers = []

    def turn(self):
        pause_s = self.guards.turn()
        posted, self._posted[:] = list(self._posted), []
        for one in posted:
            one()
        return pause_s

    def pass_time(self, seconds):
        self.clock.us += round(seconds * SECOND)

    def seen(self):
        """The row, looked at now."""
        self.guards.look([KEY], lambda: None)
        self.turn()
        return self.guards.row(*KEY)


@pytest.fixture
def clock():
    return Hand()


@pytest.fixture
def process(clock):
    return Process(clock, Store(clock))


def failed(n=1, **changed):
    return SignalCount(scope=KEY[0], kind=KEY[1], generation=0, signal="failed", n=n, **changed)


def test_what_is_counted_is_told_together_and_not_more_often_than_every_quarter_of_a_second(process):
    for _ in range(100):
        process.guards.count(failed())
    process.turn()
    assert process.store.calls == ["tell"]
    process.guards.count(failed())
    assert process.turn() == pytest.approx(FLUSH_S)
    assert process.store.calls == ["tell"]
    process.pass_time(FLUSH_S)
    process.turn()
    assert process.store.calls == ["tell", "tell"]
    assert process.seen().counts == {"failed": 101}


def test_a_reset_begins_anew_whatever_was_counted_before(process):
    for one in (failed(5), failed(2, reset=True), failed(1)):
        process.guards.count(one)
    process.turn()
    assert process.seen().counts == {"failed": 3}
    process.pass_time(FLUSH_S)
    process.guards.count(failed(4))
    process.turn()
    assert process.seen().counts == {"failed": 7}


def test_counts_wait_for_the_database_and_what_may_have_been_counted_is_not_counted_twice(process):
    process.store.failures = [StoreUnavailable("away"), StoreUnavailable("away", unknown=True)]
    process.guards.count(failed(3))
    assert process.turn() == AWAY_S
    process.guards.count(failed(2))
    process.pass_time(1)
    process.turn()
    process.guards.count(failed(10))
    process.pass_time(1)
    process.turn()
    assert process.seen().counts == {"failed": 15}


def test_a_row_is_shown_for_a_second_and_kept_fresh_while_it_is_used(process):
    assert process.guards.row(*KEY) is None
    process.turn()
    assert process.guards.row(*KEY).generation == 0
    process.store._real.change(*KEY, generation=0, state="open")
    process.pass_time(FRESH_S)
    assert process.guards.row(*KEY).generation == 0
    process.pass_time(0.01)
    assert process.guards.row(*KEY) is None
    process.turn()
    assert process.guards.row(*KEY).state == "open"


def test_a_unused_row_is_looked_at_no_more(process):
    process.guards.row(*KEY)
    for _ in range(40):
        process.turn()
        process.pass_time(0.5)
    assert len(process.store.calls) == round(USED_S / 0.5)


def test_of_two_processes_one_changes_the_row_and_the_other_learns_it(process, clock):
    other = Process(clock, process.store)
    mine, theirs = process.seen(), other.seen()
    process.guards.change(mine, "open", process.answers.append)
    process.turn()
    other.guards.change(theirs, "open", other.answers.append)
    other.turn()
    assert (process.answers, other.answers) == ([True], [False])
    assert process.seen().state == other.seen().state == "open"
    assert process.seen().generation == 1


def test_one_probes_and_what_it_finds_decides(process, clock):
    other = Process(clock, process.store)
    process.guards.change(process.seen(), "half_open", process.answers.append)
    process.turn()
    for one in (process, other):
        one.guards.permit(one.seen(), f"probe-{id(one)}", 30.0, one.answers.append)
        one.turn()
    assert (process.answers, other.answers) == ([True, True], [False])
    other.guards.change(other.seen(), "closed", other.answers.append, holder=f"probe-{id(other)}")
    other.turn()
    assert other.answers == [False, False]
    process.guards.give_up(process.seen(), f"probe-{id(process)}")
    process.turn()
    other.guards.permit(other.seen(), "next", 30.0, other.answers.append)
    other.turn()
    assert other.answers[-1]


def test_probes_that_end_at_once_are_each_heard(process):
    """Both speak of the row as it was when they went out: who comes second looks again and counts on."""
    policy = Breaker.model_validate(endpoint().model_dump() | {"half_open_max": 2, "success_threshold": 2})
    process.guards.change(process.seen(), encode_standing(Standing(state=BreakerState.HALF_OPEN, trips=1)), bool)
    process.turn()
    for holder in "ab":
        process.guards.permit(process.seen(), holder, 30.0, process.answers.append, most=2)
        process.turn()
    assert process.answers == [True, True]
    met = (PassedBreaker(Gate(policy, BreakerKey(*KEY), True, {}), process.seen(), probe=True),)
    for holder in "ab":
        _carry_on(process.guards, settle_breakers(met, None, frozenset()), holder, None)
    for _ in range(4):
        process.turn()
    assert (decode_standing(process.seen().state).state, process.seen().permits) == (BreakerState.CLOSED, {})


def test_what_is_asked_while_the_database_is_away_is_asked_again_and_an_odd_failure_stops_nothing(process):
    seen = process.seen()
    process.store.failures = [StoreUnavailable("away"), StoreUnavailable("away")]
    process.guards.change(seen, "open", process.answers.append)
    process.turn()
    process.turn()
    assert process.answers == []
    process.turn()
    assert process.answers == [True]
    process.store.failures = [RuntimeError("unforeseen")]
    process.guards.give_up(seen, "nobody")
    process.turn()
    assert process.seen().state == "open"


def test_on_a_thread_of_its_own(clock):
    posted = threading.Semaphore(0)
    told = []

    def post(call):
        told.append(call)
        posted.release()

    store = Store(clock)
    guards = Guards(store, post)
    guards.start()
    guards.look([KEY], lambda: None)
    assert posted.acquire(timeout=10)
    assert guards.row(*KEY).generation == 0
    guards.count(failed(2))
    guards.stop()
    assert store._real.guards([KEY])[0].counts == {"failed": 2}


@pytest.mark.parametrize("begun", [False, True], ids=["asked for", "answered on a loop that is no more"])
def test_what_is_asked_for_and_what_follows_is_carried_out_before_it_ends(clock, begun):
    store, posted = Store(clock), threading.Semaphore(0)
    guards = Guards(store, lambda _: posted.release())
    guards.start()

    def opens(_):
        guards.look([KEY], lambda: guards.change(guards.row(*KEY), "open", told.append))

    told = []
    seen = store._real.guards([KEY])[0]
    if begun:
        guards.change(seen, "closed", opens)
        assert posted.acquire(timeout=10)
    else:
        guards._thread.stop()
        guards.change(seen, "closed", opens)
    guards.count(replace(failed(2), generation=2))
    guards.stop()
    row = store._real.guards([KEY])[0]
    assert (told, row.state, row.generation, row.counts) == ([True], "open", 2, {"failed": 2})


def test_it_ends_though_the_database_is_away_or_no_end_is_in_sight(clock, caplog):
    store = Store(clock)
    guards = Guards(store, lambda _: None)
    store.failures += [StoreUnavailable("away")]
    guards.look([KEY], lambda: None)
    guards.stop()
    assert "away" in caplog.text

    def again():
        asked.append(1)
        guards.look([KEY], again)

    asked, guards = [], Guards(store, lambda _: None)
    guards.look([KEY], again)
    guards.stop()
    assert 1 < len(asked) < 1_001


# -- retry tokens ------------------------------------------------------------------------------------------------------


class Asked:
    def __init__(self):
        self.retries, self.earned = [], []

    def retry(self, asks, *, first_in_stage, answered):
        self.retries.append((asks, first_in_stage))

    def earn(self, asks):
        self.earned.append(asks)


def test_first_attempts_earn_in_memory_and_a_retry_takes_with_what_was_earned():
    desk = Asked()
    tokens = RetryTokens(desk)
    for _ in range(3):
        tokens.first_attempt("provider:a", size=10_000, earns=100)
    tokens.first_attempt("fabric:b", size=10_000, earns=100)
    tokens.retry({"provider:a": 10_000, "fabric:c": 5_000}, first_in_stage=True, answered=print)
    assert desk.retries == [([TokenAsk("fabric:c", 5_000, 0), TokenAsk("provider:a", 10_000, 300)], True)]
    tokens.tick()
    tokens.tick()
    assert desk.earned == [[TokenAsk("fabric:b", 10_000, 100)]]


def test_a_process_that_never_retried_reports_no_earned_tokens():
    desk = Asked()
    tokens = RetryTokens(desk)
    tokens.first_attempt("fabric:b", size=10_000, earns=100)
    tokens.tick()
    assert (desk.retries, desk.earned) == ([], [])


class Ledger(MemoryGuards):
    """Buckets that say what they were credited with."""

    def __init__(self, clock):
        super().__init__(clock)
        self.asked, self.asks = threading.Event(), []

    def retry(self, asks, *, first_in_stage):
        self.asks += asks
        self.asked.set()
        return super().retry(asks, first_in_stage=first_in_stage)


def test_what_the_saga_does_earns_no_retries():
    """+0.1 a first attempt (docs/specification/protections.md): a compensation, or a question what became of a call, is none."""
    clock, posted = Hand(), []
    grants, ledger = MemoryGrants(clock, lambda name: True), Ledger(clock)
    desk = GrantDesk(grants, ledger, lambda: "host-1", posted.append)
    shared = ProcessShare(desk, post=posted.append, clock=clock)
    owned = OwnedRun(RunDriver(compile_spec(lone(), prices=PRICES)), Shelf().claimed(fabric_id="fabric-1"))
    for command_id in ("fan_out.0.e0.r0.t1.c0", "fan_out.0.e0.r0.t1.c1", "fan_out.0.e0.r0.t1.c0.q1", "undo.1"):
        about = {"step_id": "fan_out.0.e0.r0", "agent": "worker", "tool": "look", "args_ref": "", "call_id": ""}
        call = CallTool(command_id=command_id, attempt=1, idempotency_key=command_id, deadline_at=0, **about)
        shared.performs(owned, call)
    shared.need(owned, TokenWant("k#2", (("fabric:fabric-1", 10),), True), posted.append)
    assert ledger.asked.wait(WAIT_S)
    shared.stop()
    assert ledger.asks == [TokenAsk("fabric:fabric-1", 10_000, 200)]


def streak(n, **changed):
    return failed(n, reset=True, **changed)


def test_what_it_counted_itself_is_seen_before_it_is_told(process):
    process.seen()
    process.guards.count(failed())
    process.guards.count(failed())
    assert process.guards.row(*KEY).counts == {"failed": 2}
    process.turn()
    assert process.guards.row(*KEY).counts == {"failed": 2}
    assert process.store.calls.count("guards") == 1


def test_a_streak_that_does_not_stand_is_not_broken_by_a_statement(process):
    process.seen()
    process.guards.count(streak(0))
    process.turn()
    assert "tell" not in process.store.calls
    process.guards.count(failed())
    process.guards.count(streak(0))
    assert process.guards.row(*KEY).counts == {"failed": 0}
    process.turn()
    assert process.store.calls.count("tell") == 1


def test_one_that_may_stand_is(process):
    process.guards.count(streak(0))
    process.turn()
    assert process.store.calls == ["tell"]
    process.pass_time(FLUSH_S)
    process.seen()
    process.pass_time(FRESH_S + 0.1)
    process.guards.count(streak(0))
    process.turn()
    assert process.store.calls.count("tell") == 2


def test_a_row_in_memory_is_as_old_as_it_is_now(process):
    looked_at = process.seen().asked_at
    process.pass_time(0.4)
    assert process.guards.row(*KEY).asked_at == looked_at + round(0.4 * SECOND)


def test_a_reader_who_looks_after_a_change_was_asked_for_sees_it(process):
    seen = process.seen()
    process.guards.change(seen, "open", process.answers.append)
    assert process.guards.row(*KEY) is None
    process.turn()
    assert process.answers == [True]
    assert process.seen().state == "open"
