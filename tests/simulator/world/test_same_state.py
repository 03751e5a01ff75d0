"""Two states are the same when they are equal in everything a decision can see; and policies say the same again."""

from __future__ import annotations

from itertools import product

from fabric.core.mechanisms import budget, stall_watchdog
from fabric.core.state.evaluators import Evaluators, PolicyRequest, Ruling
from fabric.core.state.run import Run
from fabric.core.values.flow import RunState, Stage
from simulator.rules.facts.journals import same_state, state_bytes
from simulator.swarm.fabrics import remembering_rules

STATES = {
    "a run": Run("r"),
    "another state": Run("r", state=RunState.RUNNING),
    "mappings in one order": Run("r", replans={Stage.PLAN: 1, Stage.FAN_OUT: 2}),
    "and in the other": Run("r", replans={Stage.FAN_OUT: 2, Stage.PLAN: 1}),
    "a whole number": Run("r", guards={"budget": 1}),
    "the same with a fraction": Run("r", guards={"budget": 1.0}),
    "true": Run("r", guards={"budget": True}),
    "a state of one type": Run("r", guards={"budget": budget.State()}),
    "a state of another": Run("r", guards={"budget": stall_watchdog.State()}),
}


def test_states_are_told_apart_as_their_bytes_tell_them():
    for one, other in product(STATES, repeat=2):
        same = same_state(STATES[one], STATES[other])
        assert same is (state_bytes(STATES[one]) == state_bytes(STATES[other])), (one, other)
        assert same is (one == other), (one, other)


def test_policies_are_asked_once_about_the_same():
    asked: list[PolicyRequest] = []

    def rules(one: PolicyRequest) -> Ruling:
        asked.append(one)
        return Ruling(policies=(str(len(asked)),))

    told = remembering_rules(Evaluators(rules=rules, digest="d"))
    assert told.digest == "d"
    assert told.rules is not None
    context = {"args": {"n": 1, "at": ["x", None]}, "epoch": 0}
    first = PolicyRequest("tool", ("Agent", "a"), ("Tool", "t"), context)
    others = [
        PolicyRequest("tool", ("Agent", "b"), ("Tool", "t"), context),
        PolicyRequest("tool", ("Agent", "a"), ("Tool", "t"), context | {"epoch": 1}),
        PolicyRequest("tool", ("Agent", "a"), ("Tool", "t"), context | {"args": {"n": 1.5}}),
    ]
    said = [told.rules(one).policies for one in (first, *others, first, *others)]
    assert said == [("1",), ("2",), ("3",), ("4",)] * 2
    assert asked == [first, *others]
