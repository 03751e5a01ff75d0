"""Budgets and limits: every one of the policy is shown, with its unit, its source and where its default comes from."""

from __future__ import annotations

import pytest

from fabric.core.spec.policies.flow_policy import FlowPolicy, policy_fields
from fabric.core.spec.policies.limits import DEADLINES
from fabric.core.spec.policies.loop_limits import LOOP_NAMES
from fabric.core.values.taxonomy import Tier
from fabric.selectors.fabrics.limits import breaker_said, list_limits
from fabric.services.fabrics.yaml.document import fabric_read
from tests.fabric.services.world import SAMPLE_NAMES, SMALL, sample


def limits(source: str):
    return {
        (limit.path, limit.tier): limit for group in list_limits(fabric_read(source).spec) for limit in group.limits
    }


PATHS = {path for path, _ in policy_fields()}


def test_every_group_of_the_policy_has_a_heading():
    assert [group.title for group in list_limits(fabric_read(SMALL).spec)] == [
        field.title for field in FlowPolicy.model_fields.values()
    ]
    assert all(field.title for field in FlowPolicy.model_fields.values())


@pytest.mark.parametrize("name", SAMPLE_NAMES)
def test_every_field_of_the_policy_is_shown(name):
    spec = fabric_read(sample(name)).spec
    shown = limits(sample(name))
    assert {path for path, _ in shown} == PATHS
    assert {tier for path, tier in shown if path == "deadlines.run_s"} == set(spec.tiers.allowed)
    assert all(limit.title and limit.meaning and limit.origin for limit in shown.values())


def test_values_are_those_in_force():
    shown = limits(SMALL)
    policy = fabric_read(SMALL).spec.policy
    for (path, tier), limit in shown.items():
        part, _, key = path.partition(".")
        if part == "deadlines":
            assert limit.value == getattr(policy.deadlines_of(tier), key)
        elif path == "humans.due_s":
            assert limit.value == policy.due_s(tier)
        elif path in ("retry_layers.edges", "retry_layers.stages", "retry_layers.workers"):
            assert limit.value == (), "they are told in words, and nothing is said of them"
        elif path in ("budget.agents", "budget.stages", "stages"):
            assert limit.value == limit.default == (), "they are told in words, and nothing is said of them"
        elif path == "loop_detector.detectors":
            assert limit.value == limit.default == tuple(LOOP_NAMES)
        elif path == "breakers":
            assert limit.value == limit.default == tuple(map(breaker_said, policy.breakers))
        else:
            assert limit.value == (getattr(getattr(policy, part), key) if key else getattr(policy, part))


def test_what_the_fabric_set_is_told_from_what_it_left():
    shown = limits(SMALL)
    assert [path for (path, _), limit in shown.items() if limit.own] == ["budget.run_usd_micros"]
    changed = limits(
        SMALL.replace(
            "  budget: {run_usd_micros: 1000000}",
            "  budget: {run_usd_micros: 1000000}\n  tau: 0.6\n  limits: {turns: 25, hops: 4}\n"
            "  humans: {due_s: 300}\n  deadlines:\n    batch: {call_s: 120, stage_s: 60, run_s: 86400}",
        )
    )
    assert {(path, tier) for (path, tier), limit in changed.items() if limit.own} == {
        ("budget.run_usd_micros", None),
        ("tau", None),
        ("limits.hops", None),
        ("deadlines.stage_s", Tier.BATCH),
        ("humans.due_s", Tier.BATCH),
        ("humans.due_s", Tier.HIGH_STAKES),
    }
    assert changed["deadlines.stage_s", Tier.BATCH].default == DEADLINES[Tier.BATCH].stage_s


def test_meaning_and_origin_are_the_policys_own_words():
    shown = limits(SMALL)
    turns = shown["limits.turns", None]
    assert (turns.title, turns.meaning, turns.origin) == (
        "Model turns of a step",
        "An agent may call its model at most this often in one step.",
        "S0: LangGraph's ceiling",
    )
    assert turns.stops == "the agent must answer with its results so far"
    assert shown["retry.bucket", None].origin == "S0: Retry Budget With Backoff"
    assert shown["loop_detector.answer_threshold", None].origin == "docs/specification/protections.md"
    assert "micro-dollars" not in shown["budget.run_usd_micros", None].meaning


def test_a_breaker_names_what_it_stands_in_front_of():
    said = "breakers: [{preset: endpoint}, {preset: endpoint, scope: agent, only: [planner, reader], max_trips: 0}]"
    told = limits(SMALL.replace("policy:\n", f"policy:\n  {said}\n"))["breakers", None].value
    opens = "5 timeout/server error in a row"
    assert told == (f"provider: {opens}, 60 s, 3 trips", f"agent planner, reader: {opens}, 60 s")


def test_retry_layers_are_told_in_words():
    said = "retry_layers: {preset: fabro, deviation: Cheap., edges: [{failure_class: deterministic, to: replan}], stages: {fan_out: {retry_policy: linear, allow_partial: true}, plan: {max_retries: 1, retry_target: replan}, validate: {}}}"
    shown = limits(SMALL.replace("policy:\n", f"policy:\n  {said}\n"))
    assert shown["retry_layers.preset", None].value == "fabro"
    assert shown["retry_layers.edges", None].value == ("deterministic to replan",)
    assert shown["retry_layers.stages", None].value == (
        "fan_out: linear; partial success allowed",
        "plan: 1 retries; retry target replan",
        "validate: as the fabric says",
    )


STAGES = """
  tau: 0.6
  stages:
    validate: {tau: 0.9, limits: {turns: 3}, deadlines: {batch: {call_s: 5}}, retry: {cap_s: 2}}
    plan:
      loop_detector: {detectors: [identical_calls, same_call_in_a_row]}
      decision_table: {cost_overrun: {batch: {rungs: [{reaction: abort}]}}}
"""


def test_values_of_single_stages_are_told_in_words():
    budget = "  budget: {run_usd_micros: 1000000}"
    told = limits(SMALL.replace(budget, budget + STAGES))["stages", None]
    assert told.own
    assert told.value == (
        "validate: Needed score 0.9",
        "validate: Call timeout 5 s, batch",
        "validate: Model turns of a step 3",
        "validate: Longest wait 2 s",
        "plan: Detectors identical calls, same call in a row",
        "plan: cell of cost_overrun, batch",
    )
