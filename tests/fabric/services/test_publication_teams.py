"""What a fabric with teams must have before it is published, each said with its path in the team."""

from __future__ import annotations

from itertools import pairwise

from fabric.services.publication import publication_warnings
from tests.fabric.services.test_publication import policy, small, told


def led(teams, **fields):
    """Four agents; the fabric's worker is the first of them."""
    agents = [{"name": name, "model": "script", "instructions": "Go."} for name in ("a", "b", "c", "d")]
    outer = {"kind": "hierarchical", "workers": ["a"], "plan": one_brief("a"), "teams": teams}
    return told(small(agents=fields.pop("agents", agents), topology=outer, tools=[], **fields))


def one_brief(who):
    return {"briefs": [{"agent": who, "instructions": "Do it."}], "exit_criteria": ["Done."]}


def chain(*names):
    return {lead: {"topology": {"workers": [below], "plan": one_brief(below)}} for lead, below in pairwise(names)}


def test_a_fabric_with_teams_in_order_is_published():
    assert led(chain("a", "b", "c", "d")) == []


def test_a_team_that_works_too_deep_is_named_with_its_level():
    assert led(chain("a", "b", "c", "d"), policy=policy(limits={"recursion": 3})) == [
        ("topology.teams.c", "works on level 4, and policy.limits.recursion allows 3; lead it from further up")
    ]


def test_a_team_s_cap_above_the_whole_run_s_is_no_cap():
    given = chain("a", "b")
    given["a"] |= {"run_usd_micros": 2_000_000, "run_tokens": 5}
    ((path, sentence),) = led(given)
    assert path == "topology.teams.a.run_usd_micros"
    assert sentence.startswith("2,000,000 is more than the whole run may use (policy.budget.run_usd_micros, ")


def test_a_lead_s_schema_is_promised_by_who_writes_its_team_s_answer():
    agents = [{"name": name, "model": "script", "instructions": "Go."} for name in ("a", "b")]
    agents[0]["output_schema"] = {"type": "object"}
    given = chain("a", "b")
    assert led(given, agents=agents) == [
        (
            "agents.0.output_schema",
            "agent 'a' leads a team, and does not write its answer; name it there as finalizer or aggregator, or leave the schema out",
        )
    ]
    given["a"]["topology"]["aggregator"] = "a"
    assert led(given, agents=agents) == []


def test_a_plan_of_a_team_that_is_too_large_is_told_by_its_path():
    many = {**one_brief("b"), "briefs": one_brief("b")["briefs"] * 17}
    found = led({"a": {"topology": {"workers": ["b"], "plan": many}}})
    assert {path for path, _ in found} == {"topology.teams.a.topology.plan.briefs"}


def test_whom_a_team_s_plan_never_reaches_is_warned_of_by_its_path():
    agents = [{"name": name, "model": "script", "instructions": "Go."} for name in ("a", "b", "c")]
    team = {"topology": {"workers": ["b", "c"], "plan": one_brief("b")}}
    outer = {"kind": "hierarchical", "workers": ["a"], "plan": one_brief("a"), "teams": {"a": team}}
    warned = publication_warnings(small(agents=agents, topology=outer, tools=[]))
    assert ("topology.teams.a.topology.workers.1", "no brief of the fixed plan is for 'c', so nobody can reach it") in [
        (one.path, one.sentence) for one in warned
    ]
