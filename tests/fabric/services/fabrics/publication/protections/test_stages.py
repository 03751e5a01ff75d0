"""Publication judges single stages: bounds, deviations, people who are asked, and what no run can reach."""

from __future__ import annotations

import pytest

from fabric.core.spec.fabric import FabricSpec
from fabric.core.values.flow import Stage
from fabric.core.values.units import JSON
from fabric.services.errors import Refused
from fabric.services.fabrics.publication.rules import deviations, publication_problems, publication_warnings
from fabric.services.fabrics.yaml.document import fabric_dump, fabric_read
from tests.fabric.core.fabrics import agent, tree


def fabric(stages: JSON, **fields: JSON) -> FabricSpec:
    found = tree(**{"stages": stages, **fields.pop("given", {})})
    found["models"][0]["price"] = {"input_usd_per_mtok": 1, "output_usd_per_mtok": 2}
    found["tools"] = [{"name": "look", "target": "read_document"}]
    return FabricSpec.model_validate({**found, "reviewers": ["owner", "finance", "safety"], **fields})


def problems(spec: FabricSpec) -> list[tuple[str, str]]:
    return [(one.path, one.sentence) for one in publication_problems(spec)]


def notes(spec: FabricSpec) -> list[tuple[str, str]]:
    return [(one.path, one.sentence) for one in publication_warnings(spec) if one.path.startswith("policy.")]


def cell(failure: str, tier: str, *rungs: JSON, **more: JSON) -> JSON:
    return {"decision_table": {failure: {tier: {"rungs": list(rungs), **more}}}}


SOUND = {
    "validate": {"tau": 0.9, "limits": {"turns": 3}, "deadlines": {"batch": {"call_s": 5}}},
    "fan_out": {"limits": {"hops": 2}, "loop_detector": {"identical_threshold": 2}, "retry": {"stage_retries": 1}},
    "plan": cell("plan_malformed", "batch", {"reaction": "abort"}),
}


def test_sound_values_of_stages_are_published_without_a_word():
    assert problems(fabric(SOUND)) == problems(fabric({})) == []
    assert notes(fabric(SOUND)) == notes(fabric({})) == []


@pytest.mark.parametrize(
    ("stages", "path", "said"),
    [
        (
            {"plan": {"loop_detector": {"identical_threshold": 9}}},
            "policy.stages.plan.loop_detector.identical_threshold",
            "9 equal calls among the last 5 can never be",
        ),
        (
            {"plan": {"loop_detector": {"identical_window": 2}}},
            "policy.stages.plan",
            "3 equal calls among the last 2 can never be",
        ),
        (
            {"plan": {"deadlines": {"batch": {"call_s": 5_000}}}},
            "policy.stages.plan.deadlines.batch.call_s",
            "5000 s is longer than stage_s (3600 s)",
        ),
        (
            {"plan": {"deadlines": {"interactive": {"stage_s": 40}}}},
            "policy.stages.plan",
            "20 s without an event are taken for a stall",
        ),
        (
            {"validate": cell("provider_failure", "high_stakes", {"reaction": "surface"})},
            "policy.stages.validate.decision_table.provider_failure.high_stakes",
            "give the cell a `deviation` with the reason",
        ),
        (
            {"plan": cell("provider_failure", "batch", {"reaction": "safe_fallback"})},
            "policy.stages.plan.decision_table.provider_failure.batch",
            "the fabric has no static answer",
        ),
    ],
)
def test_a_stages_values_have_to_hold_as_the_fabrics_do(stages, path, said):
    found = problems(fabric(stages))
    assert [(one, told) for one, told in found if one == path and said in told], found


def test_a_laxer_cell_of_a_stage_is_published_with_its_reason_and_listed():
    lax = cell("provider_failure", "high_stakes", {"reaction": "surface"}, deviation="Nobody is there at night.")
    spec = fabric({"validate": lax})
    assert problems(spec) == []
    told = [(one.path, one.reason) for one in deviations(spec)]
    assert ("policy.stages.validate.decision_table.provider_failure.high_stakes", "Nobody is there at night.") in told


def test_a_stages_cell_that_asks_a_person_needs_a_reviewer():
    quiet = {"infinite_tool_loop": {"interactive": {"rungs": [{"reaction": "abort"}]}}}
    alone = {"tiers": {"default": "interactive", "allowed": ["interactive"]}, "reviewers": [], "decision_table": quiet}
    given = {"roles": ("planner",)}
    assert problems(fabric({}, **alone, given=given)) == []
    asks = cell("cost_overrun", "interactive", {"reaction": "escalate"})
    assert [path for path, _ in problems(fabric({"plan": asks}, **alone, given=given))] == ["reviewers"]


@pytest.mark.parametrize(
    ("stages", "path", "said"),
    [
        ({"fan_out": {"tau": 0.9}}, "policy.stages.fan_out.tau", "no critic scores this stage"),
        ({"validate": {"tau": 0.0}}, "policy.stages.validate.tau", "however unsure its judge is"),
        (
            {"fan_out": {"progress": {"agent_turns": 90}}},
            "policy.stages.fan_out.progress.agent_turns",
            "no standstill stops it",
        ),
        (
            {"fan_in": {"loop_detector": {"consecutive_threshold": 90}}},
            "policy.stages.fan_in.loop_detector.consecutive_threshold",
            "above the 25 turns",
        ),
        (
            {"fan_out": {"deadlock_monitor": {"similarity": 1.0}}},
            "policy.stages.fan_out.deadlock_monitor.similarity",
            "exactly the same words",
        ),
    ],
)
def test_a_protection_that_is_off_in_one_stage_is_noted_once(stages, path, said):
    ((found, sentence),) = notes(fabric(stages))
    assert (found, said in sentence) == (path, True)


def test_what_is_said_of_the_whole_fabric_is_not_said_of_a_stage_again():
    given = {"progress": {"agent_turns": 90}}
    (whole,) = notes(fabric({}, given=given))
    assert notes(fabric({"plan": {"limits": {"turns": 9}}}, given=given)) == [whole]


def test_a_tier_that_no_run_can_pick_is_noted_in_a_stage_too():
    only = {"tiers": {"default": "interactive", "allowed": ["interactive"]}}
    stages = {"plan": {"deadlines": {"batch": {"call_s": 5}}, **cell("cost_overrun", "batch", {"reaction": "abort"})}}
    assert notes(fabric(stages, **only)) == [
        ("policy.stages.plan.decision_table.cost_overrun.batch", "no run can pick tier batch"),
        ("policy.stages.plan.deadlines.batch", "no run can pick tier batch"),
    ]


def test_tau_of_a_stage_with_a_judge_is_no_note():
    spec = fabric({"plan": {"tau": 0.9}})
    judged = spec.model_dump(mode="json", by_alias=True)
    judged["agents"].append(agent("judge"))
    judged["topology"]["plan_critic"] = "judge"
    assert notes(FabricSpec.model_validate(judged)) == []
    assert Stage.PLAN in FabricSpec.model_validate(judged).policy.stages


def test_stages_come_back_from_yaml_as_they_were_written():
    spec = fabric(SOUND)
    assert fabric_read(fabric_dump(spec)).spec == spec
    assert (
        "    validate:\n      tau: 0.9\n      deadlines:\n        batch:\n          call_s: 5.0\n      limits:\n        turns: 3\n"
        in fabric_dump(spec)
    )


def test_a_field_that_no_stage_has_is_told_at_its_line():
    broken = fabric_dump(fabric({})).replace(
        "\n  stages: {}\n", "\n  stages:\n    plan:\n      limits:\n        recursion: 3\n"
    )
    with pytest.raises(Refused) as found:
        fabric_read(broken)
    (problem,) = found.value.placed
    assert problem.path == "policy.stages.plan.limits"
    assert (
        "recursion is nothing that one stage has: it holds for the whole run; set policy.limits.recursion"
        in problem.sentence
    )
