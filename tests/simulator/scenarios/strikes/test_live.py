"""Disturbances at the drills' provider: each that can be live strikes a real call in real time as it does in a virtual world."""

from __future__ import annotations

import asyncio
import json
from collections import Counter

import pytest

from fabric.core.events.inputs import CallFailed, ModelReplied
from fabric.core.spec.tree import ModelSpec
from fabric.core.values.taxonomy import Cause
from fabric.runtime.ports.calls import ToolOffer
from simulator.faults.catalogue import STRUCK, FaultRefused, build_parameters
from simulator.scenarios.spec.scenario import Disturbance
from simulator.scenarios.strikes.live import Striking, map_options
from simulator.swarm.fabrics import QUERY
from tests.fabric.providers.asking import request
from tests.simulator.drills.drilled import drilled
from tests.simulator.scenarios.peers import peers

LIVE = {name: fault for name, fault in STRUCK.items() if fault.live}
GIVEN = {"outage": {"to_s": 60.0}, "slow": {"delay_s": 0.01}, "dropped_stream": {"after_s": 0.01}}
"""Parameters of those that need some, or would take long."""
PLANNED = {"twin_briefs", "spawning", "bad_plan"}
JUDGED = {"unsure"}
NO_ANSWER = {
    "rate_limit": Cause.RATE_LIMIT,
    "retry_after": Cause.RATE_LIMIT,
    "unavailable": Cause.SERVER_ERROR,
    "outage": Cause.SERVER_ERROR,
    "hang": Cause.TIMEOUT,
    "hang_billed": Cause.TIMEOUT,
    "trickle": Cause.TIMEOUT,
    "dropped_stream": Cause.DROPPED_STREAM,
    "html": Cause.MALFORMED_ANSWER,
    "filtered": Cause.CONTENT_FILTER,
}
SPEC = drilled()


class Asking:
    """A provider that is told disturbances, and what it said had struck."""

    def __init__(self, *disturbances, within_s=1.0, spec=SPEC):
        told = json.loads(json.dumps(map_options(spec, disturbances)))  # As a revision keeps them.
        options = {**told, "instead_of": "scripted", "drill": "d"}
        self.model = ModelSpec(name="model", provider="drill", options=options)
        self.struck, self.within_s = Counter(), within_s
        self.port = Striking(self.strike)

    async def strike(self, asked, fault):
        self.struck[fault] += 1

    def ask(self, **changed):
        return asyncio.run(self.port.ask(request(self.within_s, model=self.model, **changed)))


def one(name, **values):
    return Disturbance(STRUCK[name], build_parameters(STRUCK[name], {**GIVEN.get(name, {}), **values}))


def met(name):
    """A request that the fault can strike."""
    output = "plan" if name in PLANNED else "critique" if name in JUDGED else "summary"
    return {
        "output": output,
        "tools": tuple(ToolOffer(name=name, description="", parameters=QUERY) for name in ("lookup", "transfer")),
        "command_id": "fan_out.0.one.1",
    }


@pytest.mark.parametrize("name", LIVE)
def test_every_fault_that_can_be_live_strikes_a_call(name):
    asking = Asking(one(name))
    said = asking.ask(**met(name))
    assert asking.struck == {name: 1}
    if name in NO_ANSWER:
        assert isinstance(said, CallFailed)
        assert said.cause is NO_ANSWER[name]
    else:
        assert isinstance(said, ModelReplied)


def test_who_is_in_a_circle_hands_on_to_whom_the_fabric_s_rules_lead_it_and_no_one_else_does():
    asking = Asking(one("handoff_cycle_of_3"), spec=peers(4))
    hands = [asking.ask(**met("handoff_cycle_of_3"), agent=name).calls for name in "abcd"]
    assert [[call.args["to"] for call in calls] for calls in hands] == [["b"], ["c"], ["a"], []]


def test_the_calls_of_each_run_are_counted_for_themselves():
    asking = Asking(one("rate_limit", from_call=2, times=1))
    kinds = [asking.ask(run_id=run).kind for run in ("r1", "r1", "r1", "r2", "r2")]
    assert kinds == ["model_replied", "call_failed", "model_replied", "model_replied", "call_failed"]
    assert asking.struck == {"rate_limit": 2}


def test_a_role_is_the_agent_that_has_it():
    asking = Asking(one("rate_limit", role="finalizer"))
    finalizer = SPEC.topology.finalizer
    assert asking.ask(agent="somebody").kind == "model_replied"
    assert asking.ask(agent=finalizer).kind == "call_failed"


def test_an_outage_is_of_the_provider_whose_place_is_taken():
    assert Asking(one("outage", provider="scripted")).ask().kind == "call_failed"
    assert Asking(one("outage", provider="openai")).ask().kind == "model_replied"


def test_what_comes_later_than_the_deadline_is_a_timeout_at_the_deadline():
    said = Asking(one("slow", delay_s=60.0), within_s=0.2).ask()
    assert (said.cause, said.billed) == (Cause.TIMEOUT, True)
    assert Asking(one("hang"), within_s=0.2).ask().billed is False


@pytest.mark.parametrize("name", ["tool_error", "crash"])
def test_a_fault_that_cannot_be_live_is_refused_by_its_name(name):
    values = {"at_effect": 1} if name == "crash" else {}
    with pytest.raises(FaultRefused, match=f"{name} cannot be injected live"):
        map_options(SPEC, [one(name, **values)])
