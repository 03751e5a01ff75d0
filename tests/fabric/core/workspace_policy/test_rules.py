"""The rules of a workspace's policy: each is refused at publication in one sentence that names path, value, rule and who may change it."""

import pytest
from pydantic import ValidationError

from fabric.core.spec.policies.limits import Limits
from fabric.core.values.taxonomy import Tier
from fabric.core.workspace_policy.numbers import LEAST, MOST, list_bounded_numbers
from fabric.core.workspace_policy.policy import NOTHING, KeyCapGiven, LimitName, WorkspacePolicy
from fabric.core.workspace_policy.rules import GATES, RULES, list_broken_rules
from fabric.core.workspace_policy.under import tighten_fabric
from tests.fabric.core.fabrics import lone, spec
from tests.fabric.core.workspace_policy.broken import CASES, UNDONE, WAIVED, undoing

OF_MONEY = {"keys"}
"""Fields that are no rule over fabrics: caps that a budget holds (tests/fabric/core/budgets/test_key_caps.py)."""


def test_each_field_of_the_policy_has_one_rule_and_each_rule_its_cases():
    fields = set(WorkspacePolicy.model_fields) - OF_MONEY
    assert [rule.field for rule in RULES] == list(dict.fromkeys(rule.field for rule in RULES))
    assert {rule.field for rule in RULES} == fields == set(CASES)
    assert all(rule.tighten or rule.deny for rule in RULES), "a rule that holds nothing at the call"


@pytest.mark.parametrize("field", CASES)
def test_what_breaks_a_rule_is_refused_with_its_path_and_what_keeps_it_is_not(field):
    case = CASES[field]
    assert (case.path, case.says) in list(list_broken_rules(case.breaks, case.read))
    assert list(list_broken_rules(case.keeps, case.read)) == []
    assert list(list_broken_rules(case.breaks, NOTHING)) == []
    for other in case.more:
        assert list(list_broken_rules(other, case.read))


@pytest.mark.parametrize("field", CASES)
@pytest.mark.parametrize("tier", Tier)
def test_a_fabric_drawn_tighter_keeps_every_rule_that_draws(field, tier):
    case = CASES[field]
    for fabric in (case.breaks, *case.more):
        held, under = tighten_fabric(fabric, case.read, tier)
        left = [path for path, _ in list_broken_rules(held, case.read)]
        assert not left or under.denied, f"{left} is neither drawn tighter nor denied"
        assert held.digest() != fabric.digest() or under.denied


def test_a_policy_that_says_nothing_draws_nothing():
    held, under = tighten_fabric(spec(), NOTHING, Tier.BATCH)
    assert (held, under.denied, under.declared, under.run_usd_micros) == (spec(), {}, {}, None)


def test_what_undoes_by_what_cannot_be_undone_is_asked_about_itself():
    held, _ = tighten_fabric(undoing(compensation="pay"), CASES["irreversible"].read, Tier.BATCH)
    assert [(tool.name, tool.effect, tool.compensation) for tool in held.tools] == [
        ("look", "irreversible", None),
        ("pay", "irreversible", None),
    ]


def test_what_may_not_be_called_takes_with_it_what_it_would_undo():
    _, under = tighten_fabric(undoing(compensation="pay"), WorkspacePolicy(hosts=("a.example.com",)), Tier.BATCH)
    assert set(under.denied) == {"tool:pay", "tool:look"}


def test_a_waiver_stands_where_all_tiers_have_four_eyes_and_nowhere_else():
    policy, every = WorkspacePolicy(waivers="four_eyes"), list(Tier)
    by_two = lone(tool=WAIVED, humans={"four_eyes": every}).model_copy(update={"tiers": spec().tiers})
    assert list(list_broken_rules(by_two, policy)) == []
    some = lone(tool=WAIVED, humans={"four_eyes": ["batch"]})
    assert [path for path, _ in list_broken_rules(some, policy)] == ["tools.0.approval"]
    # The policy's own four eyes do not make a waiver of before one that two people agreed to.
    both = WorkspacePolicy(waivers="four_eyes", four_eyes=tuple(Tier))
    assert tighten_fabric(some, both, Tier.BATCH)[0].tool("look").approval == "required"


def test_caps_of_tiers_and_sessions_are_held_too():
    policy = WorkspacePolicy.model_validate({"caps": {"session_usd_micros": 900, "tiers": {"batch": 300}}})
    assert [path for path, _ in list_broken_rules(lone(), policy)].count("policy.budget.run_usd_micros") == 3
    batch, interactive = (
        tighten_fabric(lone(), policy, tier)[0].policy.budget for tier in (Tier.BATCH, Tier.INTERACTIVE)
    )
    assert (batch.run_usd_micros, batch.session_usd_micros) == (300, 900)
    assert (interactive.run_usd_micros, interactive.session_usd_micros) == (900, 900)


def test_stages_go_no_further_than_their_fabric():
    loose = lone(stages={"fan_out": {"limits": {"turns": 90}, "loop_detector": {"identical_threshold": 50}}})
    policy = WorkspacePolicy.model_validate({"limits": {"turns": 30}, "protections": ["loop_detector"]})
    assert [path for path, _ in list_broken_rules(loose, policy)] == [
        "policy.stages.fan_out.limits.turns",
        "policy.stages.fan_out.loop_detector.identical_threshold",
    ]
    seen = tighten_fabric(loose, policy, Tier.BATCH)[0].policy.of_stage("fan_out")
    assert (seen.limits.turns, seen.loop_detector.identical_threshold) == (30, 3)


def test_the_held_numbers_are_fields_of_their_groups():
    policy = WorkspacePolicy.model_validate(
        {"limits": dict.fromkeys(LimitName.__args__, 5), "protections": [*MOST, *GATES]}
    )
    flow = lone().policy
    assert all(
        isinstance(getattr(getattr(flow, one.group), one.name), int | float) for one in list_bounded_numbers(policy)
    )
    assert set(MOST) == set(LEAST)
    assert set(LimitName.__args__) <= set(Limits.model_fields)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"irreversible": ["pay.example.com"]}, "is no pattern of a tool"),
        ({"tools": ["shell:*"]}, "is no pattern of a tool"),
        ({"hosts": ["https://pay.example.com"]}, "is no host"),
        ({"hosts": ["a.*.com"]}, "is no host"),
        ({"keys": {"api.openai.com": {}}}, "is no endpoint"),
        ({"limits": {"hopps": 1}}, "limits"),
        ({"caps": {"run_usd_micros": -1}}, "greater than or equal to 0"),
        ({"approval": "waived"}, "Extra inputs"),
    ],
)
def test_a_policy_that_means_nothing_is_refused(given, said):
    with pytest.raises(ValidationError, match=said):
        WorkspacePolicy.model_validate(given)


def test_an_endpoint_is_one_however_it_is_spelt():
    policy = WorkspacePolicy.model_validate({"keys": {"https://API.openai.com/": {"day_usd_micros": 5}}})
    assert policy.keys == {"https://api.openai.com:443": KeyCapGiven(day_usd_micros=5)}


def test_an_irreversible_tool_may_stand_as_it_is():
    assert list(list_broken_rules(lone(tool=UNDONE), CASES["irreversible"].read)) == []
