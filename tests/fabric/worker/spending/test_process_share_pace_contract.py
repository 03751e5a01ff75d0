"""The pace of runs that spend together, over each of the three stores: what several processes count, when the line is crossed, and by whom."""

from __future__ import annotations

import pytest

from fabric.core.budgets.spend_rate import KIND, Counting, TooFast, count_spending, list_shared, pace_call
from fabric.core.events.inputs import CallFailed, ModelReplied
from fabric.core.mechanisms import cost_velocity
from fabric.core.spec.policies.flow_policy import FlowPolicy
from fabric.core.values.frozen import replace
from fabric.core.values.taxonomy import Cause
from fabric.runtime.breakers import build_count
from tests.fabric.stores.grant_worlds import HOUR
from tests.fabric.stores.journal_worlds import WORKSPACE

CAP = 120_000
"""An hour's: its even pace is 2,000 a minute, three times that 6,000; what is left after 11,000 lasts just under ten minutes at that rate."""
POLICY = FlowPolicy.model_validate({"budget": {"run_usd_micros": CAP, "fabric_hour_usd_micros": CAP}})
(ONE,) = list_shared(POLICY, "one")


class Process:
    """One process's way to the rows: every step asks the store."""

    def __init__(self, shared):
        self.guards, self.grants = shared.another_guards(), shared.another()

    def passes(self, shared=(ONE,)):
        steps, answer = pace_call(shared), None
        while True:
            try:
                answer = self.does(steps.send(answer))
            except StopIteration as found:
                return found.value

    def does(self, step):
        where = (step.key.scope, step.key.kind)
        match step.do:
            case "look":
                return self.guards.guards([where])[0]
            case "left":
                found = self.grants.budgets([step.key.scope])
                return found[0].grantable if found else None
            case "change":
                return self.guards.change(*where, generation=step.row.generation, state=step.state)
            case "count":
                return self.guards.tell([build_count(step)])

    def calls(self, *costs):
        for cost in costs:
            past = self.passes()
            assert not isinstance(past, TooFast)
            counting = tuple(Counting(one, row, None, 0) for one, row in past)
            answer = ModelReplied(command_id="c", attempt=1, text="", cost_usd_micros=cost)
            for step in count_spending(counting, answer):
                self.does(step)


@pytest.fixture
def hour(shared):
    shared.grants.set_cap(ONE.scope, CAP, workspace_id=WORKSPACE, hourly=True)
    return shared


def test_its_rows_are_the_mechanisms():
    assert KIND == cost_velocity.NAME


@pytest.mark.parametrize(("calls", "fast"), [(4, False), (5, True), (6, True)])
def test_five_calls_of_all_processes_together_have_to_be_there(hour, calls, fast):
    processes = [Process(hour), Process(hour)]
    for n in range(calls - 1):
        processes[n % 2].calls(0)
    processes[0].calls(CAP)
    assert isinstance(processes[1].passes(), TooFast) is fast


@pytest.mark.parametrize(("minute", "fast"), [(11_999, False), (12_000, True)])
def test_what_is_left_must_last_ten_minutes(hour, minute, fast):
    """A cap of which nothing is taken yet: 120,000 is ten times 12,000."""
    Process(hour).calls(0, 0, 0, 0, minute)
    assert isinstance(Process(hour).passes(), TooFast) is fast


@pytest.mark.parametrize(("minute", "fast"), [(6_000, False), (6_001, True)])
def test_the_even_pace_is_passed_threefold(hour, minute, fast):
    hour.live("alice")
    hour.grants.take("alice", ONE.scope, grant_id="g", enough=CAP - 20_000, chunk=1)
    Process(hour).calls(0, 0, 0, 0, minute)
    assert isinstance(Process(hour).passes(), TooFast) is fast


def test_what_it_says_is_count_rate_and_ceiling(hour):
    Process(hour).calls(*[4_000] * 5)
    found = Process(hour).passes()
    pace = found.pace
    assert (pace.scope, pace.unit, pace.observed, pace.limit, pace.left, pace.cap, pace.calls) == (
        "fabric",
        "usd_micros",
        20_000,
        6_000,
        CAP,
        CAP,
        5,
    )
    assert (found.scope, found.generation) == ("fabric:one", 0)


def test_one_crosses_the_line_and_from_there_it_is_counted_anew_for_all(hour):
    Process(hour).calls(*[4_000] * 5)
    first, second = Process(hour), Process(hour)
    assert isinstance(first.passes(), TooFast)
    assert not isinstance(second.passes(), TooFast)
    second.calls(*[4_000] * 5)
    again = first.passes()
    assert (isinstance(again, TooFast), again.generation) == (True, 1)


def test_two_that_look_at_one_moment_are_not_both_refused(hour):
    Process(hour).calls(*[4_000] * 5)
    one, other = pace_call((ONE,)), pace_call((ONE,))
    process = Process(hour)
    looks = [one.send(None), other.send(None)]
    lefts = [steps.send(process.does(look)) for steps, look in zip((one, other), looks, strict=True)]
    changes = [steps.send(process.does(left)) for steps, left in zip((one, other), lefts, strict=True)]
    done = [process.does(step) for step in changes]
    assert done == [True, False]
    with pytest.raises(StopIteration) as ended:
        one.send(True)
    assert isinstance(ended.value.value, TooFast)
    look = other.send(False)
    with pytest.raises(StopIteration) as ended:
        other.send(process.does(look))
    assert not isinstance(ended.value.value, TooFast)


def test_a_call_of_before_the_decision_adds_nothing_to_the_new_count(hour):
    process = Process(hour)
    past = process.passes()
    process.calls(*[4_000] * 5)
    assert isinstance(process.passes(), TooFast)
    late = tuple(Counting(one, row, None, 0) for one, row in past)
    for step in count_spending(late, ModelReplied(command_id="c", attempt=1, text="", cost_usd_micros=CAP)):
        process.does(step)
    ((_, row),) = process.passes()
    assert dict(row.counts) == {}


def test_a_minute_later_the_burst_is_over(hour):
    Process(hour).calls(*[4_000] * 5)
    hour.pass_time(70)
    assert not isinstance(Process(hour).passes(), TooFast)


def test_an_hour_without_a_setting_is_judged_by_the_policys_cap(shared):
    Process(shared).calls(*[4_000] * 5)
    assert isinstance(Process(shared).passes(), TooFast)


@pytest.mark.parametrize(
    ("result", "amount"),
    [
        (ModelReplied(command_id="c", attempt=1, text="", cost_usd_micros=7), 7),
        (ModelReplied(command_id="c", attempt=1, text="", input_tokens=9), 50),
        (CallFailed(command_id="c", attempt=1, cause=Cause.TIMEOUT, message="", billed=True), 50),
        (CallFailed(command_id="c", attempt=1, cause=Cause.RATE_LIMIT, message=""), None),
        (None, None),
    ],
)
def test_what_the_end_of_a_call_adds(shared, result, amount):
    ((one, row),) = Process(shared).passes()
    found = {step.tally.key: step.tally.n for step in count_spending((Counting(one, row, None, 50),), result)}
    assert found == ({} if amount is None else {"calls": 1, "usd_micros": amount})


def test_a_fabric_is_measured_by_its_hour_and_a_session_by_nothing():
    budget = {"run_usd_micros": 1, "fabric_hour_usd_micros": 10, "session_usd_micros": 5}
    given = FlowPolicy.model_validate({"budget": budget})
    (one,) = list_shared(given, "one")
    assert (one.kind, one.scope, one.cap, one.seconds) == ("fabric", "fabric:one", 10, HOUR)
    calm = given.model_copy(update={"cost_velocity": replace_factor(given, 0.0)})
    assert list_shared(calm, "one") == ()
    assert (
        list_shared(FlowPolicy.model_validate({"budget": {"run_usd_micros": 1, "session_usd_micros": 5}}), "one") == ()
    )


def replace_factor(policy, factor):
    return policy.cost_velocity.model_copy(update={"factor": factor})


def test_a_session_counts_apart_from_its_fabric(shared):
    session = replace(ONE, kind="session", scope="session:one:s")
    Process(shared).calls(*[4_000] * 5)
    assert not isinstance(Process(shared).passes((session,)), TooFast)
