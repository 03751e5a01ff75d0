"""Caps that no call fits: warned of, or refused where a run could spend nothing at all."""

import pytest

from fabric.core.values.flow import Stage
from fabric.services.fabrics.publication.rules import publication_problems, publication_warnings
from tests.fabric.services.fabrics.publication.test_rules import model, policy, small, tool


def warned_of_budget(budget, **changed):
    priced = model(price={"input_usd_per_mtok": 1, "output_usd_per_mtok": 2})
    fabric = small(models=[priced], policy=policy(budget={"run_usd_micros": 10**6, **budget}), **changed)
    return [(one.path, one.sentence) for one in publication_warnings(fabric)]


def least(whose: str) -> int:
    """Micro-dollars that a call of an agent is reserved at, at the least."""
    agent = small().agent(whose)
    return len(agent.instructions.encode()) + 2 * agent.max_output_tokens


@pytest.mark.parametrize(
    ("field", "whose"),
    [
        ("run_usd_micros", "planner"),
        ("call_usd_micros", "planner"),
        ("agent_usd_micros", "planner"),
        ("fabric_hour_usd_micros", "planner"),
        ("agents.reader.usd_micros", "reader"),
        ("stages.fan_out.usd_micros", "reader"),
    ],
)
def test_a_cap_that_is_less_than_one_call_is_warned_of(field, whose):
    def capped(amount):
        budget: dict = {}
        *groups, last = field.split(".")
        inner = budget
        for name in groups:
            inner = inner.setdefault(name, {})
        inner[last] = amount
        return budget

    most = max(least("planner"), least("reader")) if whose == "planner" else least(whose)
    whose = whose if least(whose) == most else "reader"
    ((path, said),) = warned_of_budget(capped(most - 1))
    assert path == f"policy.budget.{field}"
    tokens = small().agent(whose).max_output_tokens
    assert said == (
        f"${(most - 1) / 1e6:f} is less than one call of agent {whose} may take: its instructions and {tokens:,} tokens of its answer are "
        f"${most / 1e6:f}, so that it is never asked; raise this, or lower max_output_tokens"
    )
    assert warned_of_budget(capped(most)) == []


def test_a_cap_that_is_less_than_one_call_of_a_tool_is_warned_of():
    dear = {"tools": [tool(usd_per_call="0.5")]}
    said = "$0.499999 is less than one call of tool read_document costs, $0.50, so that it is never called; raise this"
    assert warned_of_budget({"call_usd_micros": 499_999}, **dear) == [("policy.budget.call_usd_micros", said)]
    assert warned_of_budget({"call_usd_micros": 500_000}, **dear) == []


def test_a_tool_with_a_price_in_a_run_that_may_spend_nothing_is_refused():
    free = model(price={"input_usd_per_mtok": 0, "output_usd_per_mtok": 0})
    fabric = small(models=[free], tools=[tool(usd_per_call=1)], policy=policy(budget={"run_usd_micros": 0}))
    assert [(one.path, one.sentence) for one in publication_problems(fabric)] == [
        (
            "policy.budget.run_usd_micros",
            "is 0, but tool 'read_document' has a price, so each of its calls would be refused; give a cap in micro-dollars",
        )
    ]


def nested(field, amount):
    """A budget with one field of it, by its dotted path."""
    for name in reversed(field.split(".")):
        amount = {name: amount}
    return amount


@pytest.mark.parametrize(
    "field", ["run_tokens", "stage_tokens", "agent_tokens", "agents.reader.tokens", "stages.fan_out.tokens"]
)
def test_tokens_that_one_answer_uses_up_are_refused_and_one_more_is_room(field):
    def told(tokens):
        given = policy(budget={"run_usd_micros": 10**6, **nested(field, tokens)})
        return [one.path for one in publication_problems(small(policy=given))]

    most = small().agent("reader").max_output_tokens
    assert told(most) == [f"policy.budget.{field}"]
    assert told(most + 1) == []


def test_a_cap_of_all_is_nothing_to_whom_a_cap_of_its_own_beats_it():
    own = {"agents": {name: {"usd_micros": 10**6} for name in ("planner", "reader")}}
    assert [path for path, _ in warned_of_budget({"agent_usd_micros": 1})] == ["policy.budget.agent_usd_micros"]
    assert warned_of_budget({"agent_usd_micros": 1, **own}) == []
    stages = {str(stage): {"tokens": 10**6} for stage in Stage}
    for few in (stages, {**stages, "plan": {"usd_micros": 10**6}}):
        given = policy(budget={"run_usd_micros": 10**6, "stage_tokens": 1, "stages": few})
        found = [one.path for one in publication_problems(small(policy=given))]
        assert found == ([] if few == stages else ["policy.budget.stage_tokens"])


def test_an_agent_that_is_used_nowhere_fits_any_cap():
    dear = {"name": "nobody", "model": "script", "instructions": "x" * 9_000}
    agents = [*small().model_dump(mode="json", by_alias=True)["agents"], dear]
    most = max(least("planner"), least("reader"))
    found = warned_of_budget({"call_usd_micros": most}, agents=agents)
    assert found == [("agents.2", "agent 'nobody' is used nowhere")]
