"""Limits that would not hold as they are written: refused at publication, or said (docs/specification/publication.md)."""

import pytest

from fabric.services.fabrics.publication.rules import publication_warnings
from tests.fabric.services.fabrics.publication.test_rules import policy, small, told


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("identical_window", 161),
        ("period_window", 161),
        ("consecutive_threshold", 161),
        ("ag2_threshold", 161),
        ("answer_threshold", 17),
    ],
)
def test_a_threshold_of_more_than_is_remembered_would_never_be_reached(field, value):
    ((path, sentence),) = told(small(policy=policy(loop_detector={field: value})))
    assert path == f"policy.loop_detector.{field}"
    assert f"{value} is more than the {value - 1}" in sentence
    assert told(small(policy=policy(loop_detector={field: value - 1}))) == []


@pytest.mark.parametrize(("deadlines", "watchdog", "asked"), [
    ({"call_s": 30, "stage_s": 60, "run_s": 90}, {}, False),
    ({"call_s": 31, "stage_s": 60, "run_s": 90}, {}, True),
    ({"call_s": 31, "stage_s": 60, "run_s": 90}, {"after_s": 40}, False),
    ({"call_s": 31, "stage_s": 60, "run_s": 90}, {"after_s": 0}, False),
    ({"call_s": 1_801, "stage_s": 9_000, "run_s": 9_000}, {}, True),
    ({"call_s": 1_800, "stage_s": 9_000, "run_s": 9_000}, {}, False),
])  # fmt: skip
def test_calls_that_may_take_longer_than_a_stall_have_to_be_said(deadlines, watchdog, asked):
    given = policy(deadlines={"interactive": deadlines}, stall_watchdog=watchdog)
    assert [path for path, _ in told(small(policy=given))] == ["policy.deadlines.interactive.call_s"] * asked
    unused = small(policy=given, tiers={"default": "batch", "allowed": ["batch"]})
    assert told(unused) == [], "no run can pick the tier"


def test_a_fabric_without_a_static_answer_says_that_it_will_surface():
    (warning,) = publication_warnings(small(safe_fallback=None))
    assert warning.path == "safe_fallback"
    assert "unsafe_output in tier interactive ends the run, or its branch, as failed" in warning.sentence
    assert publication_warnings(small(safe_fallback=None, tiers={"default": "batch", "allowed": ["batch"]})) == []


@pytest.mark.parametrize("field", ["stage_tokens", "agent_tokens"])
def test_a_token_budget_that_no_call_fits_into_would_stop_every_run(field):
    ((path, sentence),) = told(small(policy=policy(budget={"run_usd_micros": 1_000_000, field: 1_024})))
    assert path == f"policy.budget.{field}"
    assert "may answer with 1,024 tokens (max_output_tokens), so that no call of it fits into 1,024" in sentence
    assert told(small(policy=policy(budget={"run_usd_micros": 1_000_000, field: 1_025}))) == []


def test_an_agents_own_token_budget_is_judged_in_place_of_the_one_of_all():
    def budget(**own):
        return small(policy=policy(budget={"run_usd_micros": 1_000_000, **own}))

    ((path, sentence),) = told(budget(agents={"reader": {"tokens": 1_024}}))
    assert path == "policy.budget.agents.reader.tokens"
    assert (
        "agent reader may answer with 1,024 tokens (max_output_tokens), so that no call of it fits into 1,024"
        in sentence
    )
    assert told(budget(agents={"reader": {"tokens": 1_025}})) == []
    names = [agent.name for agent in small().agents]
    roomy = {name: {"tokens": 2_000} for name in names}
    assert told(budget(agent_tokens=1_024, agents=roomy)) == []
