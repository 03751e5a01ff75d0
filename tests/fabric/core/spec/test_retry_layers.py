"""Preset ``fabro``: the layers laid into the table, and whole runs that go through each of them (docs/specification/retries.md; S1)."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from fabric.core import events as ev
from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.policies.decision_table import BOUNDED_ONLY
from fabric.core.spec.policies.retries import PRESETS, PresetName, delay_s, preset_of_count
from fabric.core.spec.retry_layers import CALL_LEVEL, NEVER_BY_EDGE, ROUTED, ROWS, Layer, LayerRung
from fabric.core.state.context import compile_spec
from fabric.core.values.command_ids import unit
from fabric.core.values.cost import Price
from fabric.core.values.flow import RunState, Stage
from fabric.core.values.taxonomy import CLASSIFY, Cause, Direct, FailureType, Tier
from fabric.core.values.units import JSON
from fabric.runtime.journal.snapshots import build_snapshot, restore_run
from tests.fabric.core.fabrics import lone, spec, tree
from tests.fabric.core.harness import World, ran
from tests.fabric.core.ladders.test_ladder import skips
from tests.fabric.core.scripts import asks, call, fails, gives, planned, summary

FREE = {"bucket": 100, "shared": False}
"""Tokens enough that no budget is in the way."""
PRICES = {"small": Price(1_000_000, 2_000_000), "other": Price(2_000_000, 4_000_000)}
OTHER = {"name": "other", "provider": "elsewhere"}
DOWN = fails(Cause.SERVER_ERROR, "the provider answered 503")


def layers(stages: JSON = None, **fields: JSON) -> JSON:
    return {"preset": "fabro", "stages": stages or {}, **fields}


def one(node: JSON = None, *, retry: JSON = None, **fields: JSON) -> FabricSpec:
    """One worker under the preset; its stage says ``node``."""
    said = layers({"fan_out": node or {}}, **fields.pop("fabric", {}))
    return lone(retry_layers=said, retry={**FREE, **(retry or {})}, **fields)


def two_models(node: JSON = None, **fields: JSON) -> FabricSpec:
    given = tree(roles=(), retry_layers=layers({"fan_out": node or {}}), retry=FREE, **fields)
    given["models"] = [{"name": "small", "provider": "scripted", "fallbacks": ["other"]}, OTHER]
    return FabricSpec.model_validate(given)


def acted(world: World) -> list[tuple[str, str]]:
    return [(fact.layer, fact.reaction) for fact in world.of(ev.ReactionDecided)]


CALLS = [("call_retries", "retry")] * 3
NODE = ("node_retries", "retry_node")


# -- the table of layers -----------------------------------------------------------------------------------------------


def test_every_row_says_which_layers_stand_in_it_in_the_source_s_order():
    assert set(ROWS) == set(FailureType)
    for row, found in ROWS.items():
        assert list(found) == [layer for layer in Layer if layer in found], row
        assert found[-1] is Layer.RUN_FAILURE, f"{row} has no end"
    assert list(Layer) == [
        "call_retries",
        "failover",
        "node_retries",
        "edge_routing",
        "retry_target",
        "run_failure",
    ]


def test_what_is_retried_or_fails_over_stands_in_a_row_that_has_the_layer():
    for cause, row in CLASSIFY.items():
        if isinstance(row.goes_to, Direct) or row.goes_to is FailureType.NO_PROGRESS:
            continue
        assert not row.retried or {Layer.CALL_RETRIES, Layer.NODE_RETRIES} <= set(ROWS[row.goes_to]), cause
        assert not row.failover or Layer.FAILOVER in ROWS[row.goes_to], cause


def test_the_classes_that_an_edge_may_name_are_those_of_rows_that_have_edges():
    found = {
        row.error_class
        for row in CLASSIFY.values()
        if isinstance(row.goes_to, FailureType) and Layer.EDGE_ROUTING in ROWS[row.goes_to]
    }
    assert found == ROUTED


def test_every_ladder_of_a_layered_fabric_ends_as_its_cell_does():
    full = spec(
        retry_layers=layers(
            {stage: {"retry_policy": "standard", "edges": [{"to": "replan"}]} for stage in Stage}, retry_target="replan"
        )
    )
    compiled = compile_spec(full, prices=PRICES)
    for row, tier, stage in product(FailureType, Tier, Stage):
        cell, found = compiled.table[row, tier], compiled.ladders.find_ladder(row, tier, stage)
        assert [rung.times is None for rung in found.rungs] == [False] * (len(found.rungs) - 1) + [True]
        assert (found.rungs[-1].reaction, found.rungs[-1].role) == (cell.rungs[-1].reaction, cell.rungs[-1].role)
        assert found.rungs[-1].reaction not in BOUNDED_ONLY
        standing = [rung.layer for rung in found.rungs if isinstance(rung, LayerRung)]
        assert len(standing) == len(found.rungs)
        assert standing == sorted(standing, key=list(Layer).index)
        assert set(standing) <= set(ROWS[row])
        kept = [rung.reaction for rung in found.rungs if rung.layer is Layer.RUN_FAILURE]
        assert kept == [rung.reaction for rung in cell.rungs if rung.reaction not in CALL_LEVEL]
        assert (row, tier) not in NEVER_BY_EDGE or Layer.EDGE_ROUTING not in standing


def test_a_wait_stands_in_front_of_the_failover_or_where_there_is_none_in_its_own_cell():
    """The ladder has each rung that an author wrote into a cell, once."""
    cell = {
        "rungs": [{"reaction": "wait_for_breaker", "times": 1}, {"reaction": "abort"}],
        "deviation": "It is waited.",
    }
    table = {str(row): {"batch": cell} for row in FailureType}
    compiled = compile_spec(spec(retry_layers=layers(), table=table), prices=PRICES)
    for row in FailureType:
        rungs = compiled.ladders.find_ladder(row, Tier.BATCH, Stage.FAN_OUT).rungs
        [layer] = [rung.layer for rung in rungs if rung.reaction == "wait_for_breaker"]
        assert layer is (Layer.FAILOVER if Layer.FAILOVER in ROWS[row] else Layer.RUN_FAILURE), row


def test_a_fabric_without_the_preset_has_another_table():
    plain, said = lone(), lone(retry_layers={"preset": "flow"})
    versions = [compile_spec(one, prices=PRICES).table_version for one in (plain, said)]
    assert versions[0] == versions[1]
    assert compile_spec(lone(retry_layers=layers()), prices=PRICES).table_version != versions[0]


def test_how_long_a_node_waits_is_part_of_the_version_that_a_decision_names():
    versions = {compile_spec(one({"retry_policy": name}), prices=PRICES).table_version for name in PresetName}
    assert len(versions) == len(PresetName)


@pytest.mark.parametrize(
    ("fabric", "node", "preset"),
    [
        ({}, {}, preset_of_count(3)),
        ({"max_retries": 1}, {}, preset_of_count(1)),
        ({"max_retries": 1}, {"max_retries": 0}, preset_of_count(0)),
        ({"max_retries": 1}, {"retry_policy": "patient", "max_retries": 7}, PRESETS[PresetName.PATIENT]),
    ],
)
def test_a_stage_s_preset_beats_its_count_which_beats_the_fabric_s(fabric, node, preset):
    told = one(node, fabric=fabric).policy.retry_layers
    assert told.retries_of(Stage.FAN_OUT) == preset
    assert told.retries_of(Stage.PLAN) == preset_of_count(fabric.get("max_retries", 3))


def test_a_fixed_plan_is_no_place_to_go_back_to():
    with pytest.raises(ValueError, match="retry_layers.retry_target: the plan is fixed"):
        one(fabric={"retry_target": "replan"})


# -- 1. call retries ---------------------------------------------------------------------------------------------------


def test_a_call_is_retried_three_times_and_recovers_with_the_last():
    world = ran(one({"retry_policy": "none"}), {"worker": [DOWN, DOWN, DOWN, summary()]})
    assert world.end.state is RunState.COMPLETED
    assert acted(world) == CALLS
    command = world.of(ev.CallIssued)[0].command_id
    waits = [2 ** (n - 1) * (0.5 + unit(7, "backoff", f"{command}#{n}")) for n in (1, 2, 3)]
    assert [fact.delay_s for fact in world.of(ev.RetryScheduled)] == waits
    assert all(0.5 * 2**n <= wait < 1.5 * 2**n for n, wait in enumerate(waits))


def test_a_fourth_failure_of_the_call_is_the_run_s_where_no_other_layer_is_left():
    world = ran(one({"retry_policy": "none"}), {"worker": DOWN})
    assert len(world.requests) == 4
    assert acted(world) == [*CALLS, ("run_failure", "surface"), ("run_failure", "surface")]
    assert world.end.state is RunState.FAILED


def test_what_is_not_transient_costs_no_attempt():
    world = ran(one(), {"worker": fails(Cause.AUTH)})
    assert (len(world.requests), world.of(ev.RetryScheduled), world.of(ev.NodeRetryScheduled)) == (1, [], [])


def test_a_retry_after_over_the_cap_is_waited_for_by_no_layer():
    world = ran(one(), {"worker": fails(Cause.RATE_LIMIT, retry_after_s=61.0)})
    assert len(world.requests) == 1
    assert skips(world)[:3] == [
        ("retry", "Retry-After of 61 s is over the cap of 60 s"),
        ("wait_for_breaker", "no circuit breaker refused the call"),
        ("retry_node", "Retry-After of 61 s is over the cap of 60 s"),
    ]
    at_the_cap = ran(one(), {"worker": [fails(Cause.RATE_LIMIT, retry_after_s=60.0), summary()]})
    assert at_the_cap.of(ev.RetryScheduled)[0].delay_s == 60.0


def test_a_tool_is_not_retried_within_its_node_but_its_node_runs_again():
    lost = [fails(Cause.TIMEOUT), gives("four")]
    world = ran(one({"retry_policy": "linear"}), {"worker": [asks(call()), asks(call()), summary()], "look": lost})
    assert world.end.state is RunState.COMPLETED
    assert acted(world) == [NODE]
    assert skips(world)[0] == ("retry", "a tool's call is not retried within its node")


# -- 2. failover -------------------------------------------------------------------------------------------------------


ASKS = fails(Cause.RETRY_ASKED, "the index is being built")


@pytest.mark.parametrize("retries", [1, 2])
def test_a_handler_that_answers_retry_is_retried_while_attempts_remain(retries):
    asking = [asks(call())] * (retries + 1)
    recovers = {"worker": [*asking, summary()], "look": [*[ASKS] * retries, gives("four")]}
    world = ran(one({"max_retries": retries}), recovers)
    assert (world.end.state, acted(world)) == (RunState.COMPLETED, [NODE] * retries)
    spent = ran(one({"max_retries": retries}), {"worker": [*asking, summary()], "look": [ASKS] * (retries + 1)})
    assert acted(spent)[: retries + 1] == [*[NODE] * retries, ("run_failure", "surface")]


def test_a_handler_that_says_when_is_not_retried_before():
    told = fails(Cause.RETRY_ASKED, "the index is being built", retry_after_s=40.0)
    world = ran(
        one({"max_retries": 1}), {"worker": [asks(call()), asks(call()), summary()], "look": [told, gives("four")]}
    )
    assert world.end.state is RunState.COMPLETED
    assert [fact.delay_s for fact in world.of(ev.NodeRetryScheduled)] == [40.0]


def test_without_layers_a_tool_s_call_that_answers_retry_is_its_cell_s_to_repeat():
    world = ran(lone(), {"worker": [asks(call()), summary()], "look": [ASKS, gives("four")]})
    assert world.end.state is RunState.COMPLETED
    assert [fact.source for fact in world.of(ev.RetryScheduled)] == ["backoff"]


def test_when_its_retries_are_spent_another_model_takes_the_call():
    world = ran(two_models(), {"worker": [*[DOWN] * 4, summary()]}, prices=PRICES)
    assert world.end.state is RunState.COMPLETED
    assert acted(world) == [*CALLS, ("failover", "fallback_model")]
    assert [fact.target for fact in world.of(ev.CallIssued)] == ["small"] * 4 + ["other"]


def test_a_quota_fails_over_without_a_retry():
    world = ran(two_models(), {"worker": [fails(Cause.QUOTA), summary()]}, prices=PRICES)
    assert acted(world) == [("failover", "fallback_model")]
    assert world.end.state is RunState.COMPLETED


def test_in_high_stakes_no_layer_falls_back():
    world = ran(two_models({"retry_policy": "none"}), {"worker": DOWN}, prices=PRICES, tier=Tier.HIGH_STAKES)
    assert acted(world) == [*CALLS, ("run_failure", "escalate")]
    assert [fact.target for fact in world.of(ev.CallIssued)] == ["small"] * 4
    assert any(name == "fallback_model" and "a person must approve" in why for name, why in skips(world))


# -- 3. node retries ---------------------------------------------------------------------------------------------------


def test_a_node_runs_again_with_calls_and_retries_of_its_own_and_recovers_with_its_last_attempt():
    world = ran(one({"retry_policy": "linear"}), {"worker": [*[DOWN] * 11, summary()]})
    assert world.end.state is RunState.COMPLETED
    assert acted(world) == [*CALLS, NODE, *CALLS, NODE, *CALLS]
    assert [fact.step_id for fact in world.of(ev.StepOpened)] == ["fan_out.0.e0.r1", "fan_out.0.e0.r2"]
    assert [(fact.attempt, fact.attempts) for fact in world.of(ev.NodeRetryScheduled)] == [(2, 3), (3, 3)]


def test_after_its_last_attempt_the_next_layer_acts():
    world = ran(one({"retry_policy": "linear"}), {"worker": DOWN})
    assert len(world.requests) == 12
    assert acted(world) == [*CALLS, NODE, *CALLS, NODE, *CALLS, *[("run_failure", "surface")] * 2]


def test_a_stage_that_says_nothing_has_four_attempts():
    world = ran(one(), {"worker": DOWN})
    assert (len(world.requests), len(world.of(ev.NodeRetryScheduled))) == (16, 3)


@pytest.mark.parametrize("name", [name for name in PresetName if name != "none"])
def test_a_node_waits_as_its_preset_says_and_nothing_goes_out_before(name):
    world = ran(one({"retry_policy": name}), {"worker": DOWN})
    told = world.of(ev.NodeRetryScheduled)
    draws = [unit(7, "node", fact.step_id) for fact in told]
    assert [fact.delay_s for fact in told] == [delay_s(PRESETS[name], n + 1, draw) for n, draw in enumerate(draws)]
    opened = [event.at for event in world.events if event.fact.kind == "step_opened"]
    assert opened == [fact.not_before for fact in told]


def test_a_node_waits_as_long_as_its_provider_asks():
    busy = fails(Cause.RATE_LIMIT, retry_after_s=50.0)
    world = ran(one({"retry_policy": "linear"}), {"worker": [busy] * 4 + [summary()]}, tier=Tier.BATCH)
    assert [fact.delay_s for fact in world.of(ev.NodeRetryScheduled)] == [50.0]


def test_the_next_attempt_is_told_nothing_of_the_one_before():
    world = ran(one({"retry_policy": "linear"}), {"worker": [DOWN] * 4 + [summary()]})
    assert world.requests[0].messages == world.requests[-1].messages


def test_a_node_retry_takes_a_token_of_the_one_budget_and_an_empty_one_ends_the_layers():
    world = ran(one(retry={"bucket": 4, "earn": 0.0}), {"worker": DOWN})
    # Three calls and one node; the stage has retried, so none is on credit.
    assert acted(world)[:4] == [*CALLS, NODE]
    assert world.of(ev.NodeRetryScheduled)[0].tokens_left == 0
    assert [skip for skip in skips(world) if skip[0] != "wait_for_breaker"][:2] == [
        ("retry", "retry_budget_empty: the run has no retry left (limit 4)"),
        ("retry_node", "retry_budget_empty: the run has no retry left (limit 4)"),
    ]
    assert (len(world.requests), world.end.state) == (5, RunState.FAILED)


def test_a_shared_budget_gives_a_node_retry_a_token_of_the_fabric_s_and_the_provider_s():
    world = ran(one({"retry_policy": "linear"}, retry={"shared": True}), {"worker": [DOWN] * 4 + [summary()]})
    assert {level.bucket.partition(":")[0] for level in world.of(ev.NodeRetryScheduled)[0].buckets} == {
        "fabric",
        "provider",
    }


def test_a_node_is_not_run_again_when_no_time_is_left_for_it():
    short = {tier: {"call_s": 5, "stage_s": 12, "run_s": 60} for tier in Tier}
    world = ran(one({"max_retries": 3}, deadlines=short), {"worker": DOWN})
    assert any(name == "retry_node" and why.startswith("deadline_near") for name, why in skips(world))
    assert world.end.state is RunState.FAILED


def test_a_run_that_is_taken_over_while_its_node_waits_runs_it_at_its_time():
    world = World(one({"retry_policy": "patient"}), {"worker": [DOWN] * 4 + [summary()]}).start()
    while not world.of(ev.NodeRetryScheduled):
        world.go(steps=1)
    told = world.of(ev.NodeRetryScheduled)[0]
    folded, _ = restore_run(build_snapshot(world.run, b"", _contents(world)))
    assert folded.timers == {told.step_id: told.not_before}
    world.crash().go()
    opened = next(event for event in world.events if event.fact.kind == "step_opened")
    assert (world.end.state, opened.at >= told.not_before) == (RunState.COMPLETED, True)


def test_a_run_that_is_cancelled_while_its_node_waits_ends_and_runs_nothing():
    world = World(one({"retry_policy": "patient"}), {"worker": DOWN}).start()
    while not world.of(ev.NodeRetryScheduled):
        world.go(steps=1)
    asked = len(world.requests)
    world.cancel().go()
    assert (world.end.state, len(world.requests), world.run.timers) == (RunState.CANCELLED, asked, {})


def test_a_replan_gives_nodes_their_attempts_back():
    """Retries are what a replan gives back (docs/specification/decision-table.md)."""
    world = ran(
        spec(
            roles=("planner",),
            retry=FREE,
            retry_layers=layers({"fan_out": {"max_retries": 1, "retry_target": "replan"}}),
        ),
        {"planner": planned(), "worker": DOWN},
    )
    once = [*CALLS, NODE, *CALLS]
    assert acted(world)[:14] == [*once, ("retry_target", "replan"), *once][:14]
    assert [reaction for _, reaction in acted(world)].count("replan") == 2


def test_a_branch_whose_siblings_go_on_waits_alone():
    world = World(
        one({"retry_policy": "patient"}, workers=2), {"worker": [DOWN, summary(), DOWN, DOWN, DOWN, summary()]}
    )
    world.start().go()
    assert world.end.state is RunState.COMPLETED
    assert [fact.step_id for fact in world.of(ev.StepOpened)] == ["fan_out.0.e0.r1"]


def _contents(world: World) -> Any:
    assert world.driver is not None
    return world.driver.contents
