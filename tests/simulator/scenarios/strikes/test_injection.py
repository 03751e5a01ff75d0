"""Faults of the model and of its answers, injected into a virtual world: they strike the chosen calls and nothing else, and the engine reacts to each."""

from __future__ import annotations

from typing import Any

import pytest

from fabric.core.events.envelope import split_rows
from fabric.core.events.inputs import CallFailed, ModelReplied
from fabric.core.spec.fabric import FabricSpec
from fabric.core.values.taxonomy import FailureType, Tier
from fabric.runtime.ports.calls import ModelRequest
from simulator.cast.agents import Reply
from simulator.faults.catalogue import STRUCK, build_parameters, fault_named
from simulator.scenarios.baseline.work import observe_chain
from simulator.scenarios.spec.collection import find_shipped, library
from simulator.scenarios.spec.scenario import Disturbance
from simulator.scenarios.strikes.answers import EFFECTS, NEEDS
from simulator.scenarios.strikes.handovers import with_hub
from simulator.scenarios.strikes.injection import Injection
from simulator.scenarios.strikes.needs import STUCK
from simulator.scenarios.strikes.places import build_places
from simulator.scenarios.strikes.selection import StrikeTally
from simulator.world.world import World
from tests.simulator.drills.drilled import drilled
from tests.simulator.scenarios.peers import peers
from tests.simulator.world import quiet_worlds

FAST, BATCH, HIGH = Tier.INTERACTIVE, Tier.BATCH, Tier.HIGH_STAKES
SEAM = {name for name, fault in STRUCK.items() if fault.live}


def disturbance(name: str, **values: Any) -> Disturbance:
    return Disturbance(fault_named(name), build_parameters(STRUCK[name], values))


class Drilled:
    """One world with disturbances, at its end."""

    def __init__(self, *disturbances: Disturbance, tier: Tier = FAST, spec: FabricSpec | None = None) -> None:
        spec = spec or drilled()
        self.injection = Injection(disturbances, spec)
        self.asked: list[tuple[ModelRequest, Reply]] = []
        self.world: World = quiet_worlds.world(spec, tier=tier)
        struck = self.injection.strike_model(quiet_worlds.cooperative, self.world.clock.now)

        def noted(request: ModelRequest) -> Reply:
            reply = struck(request)
            self.asked.append((request, reply))
            return reply

        self.world.ask = noted
        self.world.run()
        assert self.world.watch.violations == []
        [run] = self.world.watch.runs()
        self.run = run
        self.chain = str(observe_chain(self.world))

    def failed(self) -> list[str]:
        """Calls that failed, by agent."""
        return [request.agent for request, reply in self.asked if isinstance(reply.result, CallFailed)]

    def met(self, cause: str) -> bool:
        return bool(self.world.sometimes[f"cause_{cause}"])


def test_every_fault_of_the_seam_has_an_effect():
    assert set(EFFECTS) == SEAM
    assert set(NEEDS) <= SEAM


CAUSES = {
    "rate_limit": "rate_limit",
    "retry_after": "rate_limit",
    "unavailable": "server_error",
    "outage": "server_error",
    "hang": "timeout",
    "hang_billed": "timeout",
    "trickle": "timeout",
    "dropped_stream": "dropped_stream",
    "html": "malformed_answer",
    "malformed": "plan_gate",
    "off_schema": "plan_gate",
    "empty": "plan_gate",
    "tool_loop": "loop_detected",
    "tool_loop_of_2": "loop_detected",
    "tool_loop_of_3": "loop_detected",
    "tool_loop_paraphrased": "loop_detected",
    "fruitless_search": "no_progress",
    "unknown_tool": "corrections_spent",
    "bad_arguments": "corrections_spent",
    "flood": "loop_detected",
    "twin_briefs": "brief_repeated",
    "handoff_cycle": "brief_repeated",
    "handoff_cycle_of_3": "brief_repeated",
    "supervisor_stuck": "supervisor_stuck",
    "spawning": "plan_gate",
    "bad_plan": "plan_gate",
    "cost_spike_price": "budget_gate",
    "cost_spike_tokens": "budget_gate",
    "ungrounded": "grounding",
    "unsure": "below_tau",
    "filtered": "content_filter",
    "filtered_answer": "content_filter",
    "partial_fan_in": "corrections_spent",
}
"""What the engine calls each fault that does not go away."""
HARMLESS = ("slow", "unfit_text")
VALUES: dict[str, dict[str, Any]] = {"outage": {"to_s": 100_000}}
SPECS = {"handoff_cycle": peers(), "handoff_cycle_of_3": peers(), STUCK: with_hub(drilled())[0]}
"""Where it takes another topology to meet a fault."""


def test_a_fault_without_a_row_here_strikes_and_breaks_no_rule():
    assert {*CAUSES, *HARMLESS} <= SEAM
    for name in SEAM - {*CAUSES, *HARMLESS}:
        assert Drilled(disturbance(name)).injection.struck[name] > 0, name


@pytest.mark.parametrize("tier", Tier)
@pytest.mark.parametrize("name", CAUSES)
def test_a_fault_that_does_not_go_away_is_met_by_its_cause(name, tier):
    found = Drilled(disturbance(name, **VALUES.get(name, {})), tier=tier, spec=SPECS.get(name))
    assert found.injection.struck[name] > 0
    assert found.met(CAUSES[name]), found.chain


@pytest.mark.parametrize("name", HARMLESS)
def test_a_fault_that_only_takes_time_or_is_mended_ends_well(name):
    found = Drilled(disturbance(name))
    assert found.chain == "nothing decided > completed"
    assert found.injection.struck[name] == len(found.asked) == 8


def test_an_unfit_answer_is_marked_and_still_an_answer():
    found = Drilled(disturbance("unfit_text", role="finalizer"))
    marked = [reply.result for _, reply in found.asked if getattr(reply.result, "sanitized", False)]
    assert [isinstance(one, ModelReplied) and "\ufffd" in one.text for one in marked] == [True]


@pytest.mark.parametrize(("name", "period"), [("tool_loop", 1), ("tool_loop_of_2", 2), ("tool_loop_of_3", 3)])
def test_a_loop_of_any_period_is_named(name, period):
    found = Drilled(disturbance(name), tier=HIGH)
    assert found.chain.startswith("escalate > ")
    assert found.met("loop_detected")
    words = [str(call.args) for _, reply in found.asked for call in getattr(reply.result, "calls", ())]
    assert len(set(words)) == period


@pytest.mark.parametrize("how", ["for_nobody", "no_json", "no_briefs"])
def test_a_plan_is_malformed_in_any_way(how):
    found = Drilled(disturbance("bad_plan", how=how, times=4))
    assert found.met("plan_gate")


@pytest.mark.parametrize("name", ["filtered", "filtered_answer"])
def test_an_unsafe_answer_is_withheld_in_any_way(name):
    assert Drilled(disturbance(name, role="finalizer")).met("content_filter")


# -- which calls are struck --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "struck"),
    [
        ({"role": "finalizer", "times": 1}, ["finalizer"]),
        ({"agent": "three", "times": 2}, ["three", "three"]),
        ({"stage": "fan_in", "times": 1}, ["aggregator"]),
        ({"role": "critic", "from_call": 2}, []),
        ({"times": 2}, ["planner", "planner"]),
        ({"from_call": 2, "times": 1}, ["one"]),
        ({"from_call": 2, "every": 2, "times": 2}, ["one", "three"]),
        ({"stage": "fan_out", "from_call": 4, "times": 1}, ["four"]),
        ({"agent": "one", "stage": "plan"}, []),
        ({"role": "armed", "times": 1}, ["one"]),
    ],
)
def test_the_chosen_calls_are_struck_and_no_others(values, struck):
    found = Drilled(disturbance("rate_limit", **values))
    assert found.failed() == struck
    assert found.chain.endswith("completed")
    assert found.injection.struck["rate_limit"] == len(struck)


def test_a_storm_that_ends_is_answered_after_it():
    found = Drilled(disturbance("retry_after", role="finalizer", times=2, retry_after_s=3), tier=BATCH)
    assert found.chain == "retry > retry > completed"
    waits = [reply.result.retry_after_s for _, reply in found.asked if isinstance(reply.result, CallFailed)]
    assert waits == [3.0, 3.0]


def test_an_outage_lasts_from_one_instant_to_another():
    spec = drilled()
    whole = Drilled(disturbance("outage", to_s=100_000), tier=BATCH, spec=spec)
    assert not whole.chain.endswith("completed")
    until = Drilled(disturbance("outage", to_s=4), tier=BATCH, spec=spec)
    assert until.chain.endswith("retry > completed")
    later = Drilled(disturbance("outage", from_s=90_000, to_s=100_000), spec=spec)
    assert later.chain == "nothing decided > completed"
    elsewhere = Drilled(disturbance("outage", to_s=100_000, provider="elsewhere"), spec=spec)
    assert elsewhere.injection.struck == {}


def test_so_many_branches_fail_and_the_others_do_not():
    found = Drilled(disturbance("partial_fan_in", branches=2), tier=FAST)
    failed = {request.agent for request, reply in found.asked if getattr(reply.result, "text", "") == '{"answer": 42}'}
    assert failed == {"one", "two"}
    assert found.met("partial_fan_in")


def test_where_two_disturbances_meet_the_first_strikes():
    both = (disturbance("unavailable", times=1), disturbance("rate_limit", times=2))
    found = Drilled(*both)
    assert found.injection.struck == {"unavailable": 1, "rate_limit": 1}
    causes = [str(reply.result.cause) for _, reply in found.asked if isinstance(reply.result, CallFailed)]
    assert causes == ["server_error", "rate_limit"]


def test_the_same_scenario_is_the_same_world_twice():
    one, other = (Drilled(disturbance("unavailable", every=3, times=3), tier=BATCH).world.digest() for _ in range(2))
    assert one == other


def test_each_run_is_counted_for_itself():
    tally = StrikeTally(first=2, every=2, times=2)
    assert [tally.takes("a") for _ in range(7)] == [False, True, False, True, False, False, False]
    assert [tally.takes("b") for _ in range(2)] == [False, True]


# -- what a fabric has not ---------------------------------------------------------------------------------------------


def test_an_agent_or_a_role_that_the_fabric_has_not_is_said():
    plain = drilled().model_dump(mode="json")
    plain["topology"]["critic"] = None
    plain["agents"] = [{**agent, "tools": []} for agent in plain["agents"]]
    spec = FabricSpec.model_validate(plain)
    named = [{"agent": "thre"}, {"role": "critic"}, {"role": "armed"}, {"role": "finalizer"}]
    found = Injection([disturbance("hang", **one) for one in named], spec).absent()
    assert [str(one) for one in found] == [
        "disturbance.0.agent: fabric whole has no agent 'thre'; did you mean 'three'?",
        "disturbance.1.role: fabric whole has no critic, so there is no such call to strike",
        "disturbance.2.role: fabric whole has no worker with tools, so there is no such call to strike",
    ]
    assert build_places(spec).armed == ""


def test_the_rows_of_the_table_can_all_be_entered():
    rows = {
        FailureType.TOOL_LOOP: "tool_loop",
        FailureType.DEADLOCK: "twin_briefs",
        FailureType.COST_OVERRUN: "cost_spike_price",
        FailureType.PROVIDER: "unavailable",
        FailureType.SCHEMA_GROUNDING: "ungrounded",
        FailureType.PLAN_MALFORMED: "bad_plan",
        FailureType.NO_PROGRESS: "fruitless_search",
        FailureType.UNSAFE_OUTPUT: "filtered",
    }
    assert set(rows) == set(FailureType)
    for failure, name in rows.items():
        found = Drilled(disturbance(name))
        types = {
            row.header
            for row in found.world.store.rows(found.run.id)
            if row.kind == "reaction_decided" and f'"failure_type":"{failure}"'.encode() in row.header
        }
        assert types, failure


SHIPPED = [name for name, scenario in library().items() if all(one.fault.live for one in scenario.disturbances())]


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_scenario_enters_the_row_that_it_names_first(name):
    scenario = find_shipped(name)
    for tier in scenario.tiers:
        spec = SPECS.get(scenario.disturbances()[0].fault.name)
        found = Drilled(*scenario.disturbances(), tier=tier, spec=spec)
        assert sum(found.injection.struck.values()) > 0
        decided = [
            row.header for row in split_rows(found.world.store.rows(found.run.id)) if row.kind == "reaction_decided"
        ]
        if scenario.failure is not None:
            assert f'"failure_type":"{scenario.failure}"'.encode() in decided[0], (tier, found.chain)
        elif name == "critic-is-unsure":
            assert b'"failure_type":null' in decided[0]
        else:
            assert found.chain.endswith("completed"), (tier, found.chain)
