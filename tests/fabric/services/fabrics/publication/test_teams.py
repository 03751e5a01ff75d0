"""A fabric with teams must have certain parts before it is published, each said with its path in the team."""

from __future__ import annotations

from itertools import pairwise

import pytest
from pydantic import ValidationError

from fabric.services.fabrics.publication.rules import publication_warnings
from tests.fabric.services.fabrics.publication.test_rules import policy, small, told


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
    assert ("topology.teams.a.topology.workers.1", "no brief of the fixed plan is for 'c', so it never works") in [
        (one.path, one.sentence) for one in warned
    ]


def talking(topology, *, names="abcd", **tools):
    """The fabric's worker leads a team of that topology. ``tools``: those of some agents."""
    agents = [{"name": one, "model": "script", "instructions": "Go.", "tools": tools.get(one, [])} for one in names]
    outer = {"kind": "hierarchical", "workers": ["a"], "plan": one_brief("a"), "teams": {"a": {"topology": topology}}}
    return small(agents=agents, topology=outer, tools=[])


def ruled(*transitions, **fields):
    """Three who take turns, the first of them first."""
    given = {"kind": "graph", "workers": ["b", "c", "d"], "initial_speaker": "b", "max_turns": 9}
    return {**given, "transitions": list(transitions), **fields}


def speaks(who, then):
    return {"when": {"kind": "from_speaker", "agent": who}, "then": {"kind": "agent", "agent": then}}


def warned(spec):
    return [(one.path, one.sentence) for one in publication_warnings(spec)]


def test_a_team_that_takes_turns_or_passes_on_is_published():
    assert told(talking(ruled(speaks("b", "c"), speaks("c", "d")))) == []
    peers = {"kind": "handoff", "workers": ["b", "c", "d"]}
    assert told(talking(peers, b=["transfer"], c=["transfer", "context_read"])) == []


def test_a_name_in_a_rule_of_a_team_s_graph_is_told_by_its_path():
    ((path, sentence),) = told(talking(ruled(speaks("b", "c"), speaks("c", "d"), speaks("d", "x"))))
    assert path == "topology.teams.a.topology.transitions.2.then.agent"
    assert "'x'" in sentence


def test_a_rule_of_a_team_that_would_end_it_and_never_can_is_told_by_its_path():
    always = {"when": {"kind": "always"}, "then": {"kind": "round_robin"}}
    ends = {"when": {"kind": "from_speaker", "agent": "b"}, "then": {"kind": "terminate"}}
    ((path, sentence),) = told(talking(ruled(always, ends)))
    assert (path, sentence.partition(":")[0]) == (
        "topology.teams.a.topology.transitions.1",
        "can never end the conversation",
    )


def test_what_is_proved_of_a_team_s_graph_is_warned_of_by_its_path():
    found = warned(talking(ruled(speaks("b", "c"), max_turns=None, default_target={"kind": "stay"})))
    assert (
        "topology.teams.a.topology.workers.2",
        "nothing ever leads to 'd'; lead to it by a rule, or take it out",
    ) in (found)
    assert [path for path, _ in found if path.endswith("max_turns")] == ["topology.teams.a.topology.max_turns"]


def test_a_rule_of_a_team_names_a_tool_that_a_member_of_it_has():
    called = {"when": {"kind": "tool_called", "tool": "finish"}, "then": {"kind": "terminate"}}
    rules = (called, speaks("b", "c"), speaks("c", "d"))
    ((path, sentence),) = told(talking(ruled(*rules), b=["transfer"]))
    assert (path, sentence) == (
        "topology.teams.a.topology.transitions.0.when.tool",
        "no participant has a tool 'finish'; their tools are: transfer",
    )


def test_tools_of_a_team_s_conversation_are_its_members_alone():
    peers = {"kind": "handoff", "workers": ["b", "c"]}
    sentence = "takes no part in any team's conversation that has it, and only workers may call transfer; take it out"
    assert told(talking(peers, names="abc", a=["transfer"], b=["transfer"])) == [
        ("agents.0.tools.0", f"agent 'a' {sentence}")
    ]


def test_a_tool_that_no_team_s_conversation_has_is_of_no_agent():
    with pytest.raises(ValidationError, match="agents.1.tools: no tool is named 'finish'"):
        talking({"kind": "handoff", "workers": ["b", "c"]}, names="abc", b=["finish"])
