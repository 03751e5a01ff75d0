"""Teams that take turns by a graph or pass the request on: each a run of its own with all of it, under its lead (docs/specification/topologies.md)."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from fabric.core import events as ev
from fabric.core.events.inputs import ForkRequested, PersonSpoke
from fabric.core.graph.state import SpeakerReason
from fabric.core.state.run import Run
from fabric.core.values.flow import RunState
from fabric.core.values.taxonomy import Cause, FailureType, Tier
from tests.fabric.core.families import Household
from tests.fabric.core.family_member import Member
from tests.fabric.core.family_scenes import whole
from tests.fabric.core.scripts import asks, call, fails, planned, summary
from tests.fabric.core.topologies.fabrics import TOPICS, hierarchy, passes, rule, talks, under

SAYS = {
    **{name: summary(f"{name} has looked at it.") for name in ("alice", "bob", "carol", "dan")},
    "reader": summary("A reader's work."),
    "chief": summary("All of it."),
}
FAILED = {"kind": "outcome_is", "outcome": "fail"}
END = {"kind": "terminate", "reason": "enough"}
PASS = ("transfer",)
ALL = ("transfer", "finish", "context_write", "context_read")


def graph(*rules, workers=("alice", "bob"), **fields):
    """The topology of a team that takes turns; what no rule says ends it."""
    given = {"initial_speaker": workers[0], "default_target": {"kind": "terminate", "reason": "done"}}
    return {"kind": "graph", "workers": list(workers), "transitions": list(rules), **given, **fields}


def peers(*workers, **fields):
    """The topology of a team that passes its brief on."""
    return {"kind": "handoff", "workers": list(workers), **fields}


def using(*names, tools=ALL):
    return {name: {"tools": tools} for name in names}


def led(team, *, script=None, teams=None, **fields):
    """A chief over the lead of that team and a reader who works alone; ``teams``: further ones by their lead."""
    family = Household(company(team, teams, **fields), {**SAYS, **(script or {})}).start().go()
    whole(family)
    return family


def company(team, teams=None, **fields):
    outer = under("desk", *(teams or {}), "reader", aggregator="chief")
    return hierarchy(outer, {"desk": team, **(teams or {})}, **fields)


def of_team(family, lead="desk"):
    return next(member for member in family.children if member.run.topology == lead)


def spoken(member):
    return [fact.agent for fact in member.of(ev.TurnOpened)]


def moves(member):
    return [(fact.from_agent, fact.to_agent) for fact in member.of(ev.HandedOff)]


def asked_of(family, agent):
    return [request for _, request in family.requests if request.agent == agent]


# -- it is a conversation like any other -------------------------------------------------------------------------------


def test_a_team_takes_turns_by_its_own_graph_and_its_answer_is_its_lead_s():
    family = led(graph(rule({"kind": "from_speaker", "agent": "alice"}, "bob")))
    assert family.end.state is RunState.COMPLETED
    assert spoken(of_team(family)) == ["alice", "bob"]
    assert spoken(family.root) == []
    assert "## Part 1 (desk)\nbob has looked at it." in asked_of(family, "chief")[0].messages[1].text
    assert "What is it?\n\nYour part: Part 1\nDo part 1." in asked_of(family, "alice")[0].messages[1].text


def test_a_team_passes_its_brief_on_until_one_of_it_answers():
    family = led(
        peers("alice", "bob", "carol"),
        script={"alice": passes("carol", "It leaks.")},
        agents=using("alice", tools=PASS),
    )
    team = of_team(family)
    assert (moves(team), spoken(team)) == ([("alice", "carol")], ["alice", "carol"])
    assert "alice said:\nIt leaks." in "\n".join(one.text for one in asked_of(family, "carol")[0].messages)
    assert moves(family.root) == []


def test_two_teams_talk_beside_each_other_each_with_its_own_members_and_context():
    inner = {"lab": peers("carol", "dan")}
    rules = rule({"kind": "context_equals", "key": "topic", "value": "bills"}, "bob")
    script = {"alice": [asks(call("context_read")), SAYS["alice"]], "carol": [passes("dan")]}
    tools = {**using("alice", "bob"), **using("carol", "dan", tools=("transfer", "context_read"))}
    team = graph(rules, context={"topic": "bills"}, max_turns=2)
    family = led(team, teams=inner, script=script, agents=tools)
    assert (spoken(of_team(family)), spoken(of_team(family, "lab"))) == (["alice", "bob"], ["carol", "dan"])
    offered = {request.agent: {tool.name: tool for tool in request.tools} for _, request in family.requests}
    assert offered["alice"]["transfer"].parameters["properties"]["to"]["enum"] == ["alice", "bob"]
    assert offered["carol"]["transfer"].parameters["properties"]["to"]["enum"] == ["carol", "dan"]
    assert "finish" in offered["alice"]
    read = json.dumps([json.loads(row.payload) for row in of_team(family).rows if row.kind == "tool_answered"])
    assert '"bills"' in read


def test_no_agent_is_passed_anything_from_another_team():
    script = {"alice": [asks(call("transfer", to="dan", brief="Yours.")), SAYS["alice"]]}
    tools = using("alice", "dan", tools=PASS)
    family = led(peers("alice", "bob"), teams={"lab": peers("carol", "dan")}, script=script, agents=tools)
    told = [json.loads(row.payload) for row in of_team(family).rows if row.kind == "tool_answered"]
    assert [one["error"]["message"] for one in told] == ["alice may not hand over to 'dan'; it may to bob"]


def test_tools_of_a_conversation_are_offered_to_its_members_and_in_its_runs_alone():
    # The reader works in the team and beside it; the chief merges and takes no part.
    script = {"reader": [asks(call("transfer", to="alice", brief="Yours.")), SAYS["reader"]]}
    family = led(peers("alice", "reader", first="reader"), script=script, agents=using("reader", tools=PASS))
    by_run = {family.runs[run_id].run.topology: one for run_id, one in family.requests if one.agent == "reader"}
    assert [tool.name for tool in by_run["desk"].tools] == ["transfer"]
    assert by_run[""].tools == ()
    assert moves(of_team(family)) == [("reader", "alice")]
    assert not family.root.of(ev.ToolAnswered)


def test_a_lead_may_plan_for_its_team_and_write_its_answer():
    briefs = [{"agent": name, "title": f"For {name}", "instructions": "Look."} for name in ("alice", "bob")]

    def desk(command):
        if command.output != "plan":
            return summary("It leaked, says the desk.")
        return planned(briefs=briefs, exit_criteria=["It is found."])

    team = peers("alice", "bob", planner="desk", aggregator="desk")
    family = led(team, script={"desk": desk})
    assert "They take turns: brief each of them once." in asked_of(family, "desk")[0].messages[1].text
    assert "It leaked, says the desk." in asked_of(family, "chief")[0].messages[1].text


# -- its own limits, clocks and goals ----------------------------------------------------------------------------------


def to_and_fro(times):
    briefs = [f"There is more to say of {topic}." for topic in TOPICS]
    return {
        "alice": [passes("bob", briefs[n]) for n in range(0, times, 2)] + [SAYS["alice"]],
        "bob": [passes("alice", briefs[n]) for n in range(1, times, 2)] + [SAYS["bob"]],
    }


def test_each_team_s_chain_has_the_fabric_s_hops_and_the_sixth_trips():
    script = {**to_and_fro(5), "carol": passes("dan"), "dan": SAYS["dan"]}
    tools = using("alice", "bob", "carol", tools=PASS)
    family = led(peers("alice", "bob"), teams={"lab": peers("carol", "dan")}, script=script, agents=tools)
    assert family.end.state is RunState.COMPLETED
    assert (len(moves(of_team(family))), len(moves(of_team(family, "lab")))) == (5, 1)

    family = led(peers("alice", "bob"), script=to_and_fro(6), agents=tools | {"carol": {}})
    tripped = of_team(family).of(ev.ReactionDecided)[0].cause
    assert (len(moves(of_team(family))), tripped.cause) == (5, Cause.HOP_LIMIT)


def test_a_worker_of_a_team_s_graph_has_as_many_turns_as_its_graph_lets_it():
    team = graph(rule("always", {"kind": "round_robin"}), max_turns=9, max_visits={"bob": 1})
    family = led(team, script=talks("alice", "bob"))
    assert spoken(of_team(family)) == ["alice", "bob", "alice"]
    tripped = of_team(family).of(ev.ReactionDecided)[0].cause
    assert (tripped.cause, tripped.evidence.scope) == (Cause.VISIT_LIMIT, "agent:bob")


def test_a_turn_of_a_team_that_fails_goes_on_by_its_own_rule():
    team = graph(rule(FAILED, "bob"))
    family = led(team, script={"alice": fails(Cause.AUTH, "the key was refused")})
    assert family.end.state is RunState.COMPLETED
    assert [str(fact.reaction) for fact in of_team(family).of(ev.ReactionDecided)] == ["route"]
    assert not family.root.of(ev.ReactionDecided)


def test_a_team_that_fails_meets_the_table_above_it():
    family = led(graph(), script={"alice": fails(Cause.AUTH, "the key was refused")})
    assert family.end.state is RunState.FAILED
    above = family.root.of(ev.ReactionDecided)[0]
    assert above.failure_type is FailureType.SCHEMA_GROUNDING
    assert "the key was refused" in above.cause.message


def test_a_goal_among_a_team_s_workers_is_gone_back_to_in_that_team():
    team = graph(rule("always", END), goal_target="bob", max_turns=5)
    family = led(team, goal_gates={"nodes": ["bob"]})
    assert family.end.state is RunState.COMPLETED
    assert spoken(of_team(family)) == ["alice", "bob"]
    assert of_team(family).of(ev.SpeakerChosen)[0].why is SpeakerReason.GOAL


LONG = {
    "deadlines": {"interactive": {"call_s": 900, "stage_s": 1_000, "run_s": 2_000}},
    "stall_watchdog": {"after_s": 1_500},
}


def test_a_team_s_pace_is_its_own():
    team = graph(rule("always", {"kind": "round_robin"}), max_turns=4, expectations=[], ttl_s=5)
    slow = {name: [one.after(3) for one in answers] for name, answers in talks("alice", "bob").items()}
    family = led(team, script={**slow, "reader": SAYS["reader"].after(60)}, **LONG)
    last = of_team(family).of(ev.SpeakerChosen)[-1]
    assert (last.why, last.close_reason) == (SpeakerReason.TTL, "ttl")
    assert family.end.state is RunState.STOPPED
    assert "the conversation's time ended" in family.end.reason


def test_turns_of_a_team_that_take_long_are_told_there():
    team = graph(expectations=[{"seconds": 20}])
    family = led(team, script={"alice": SAYS["alice"].after(30)}, **LONG)
    assert [fact.place for fact in of_team(family).of(ev.TurnOverdue)] == [0]
    assert not family.root.of(ev.TurnOverdue)


def test_a_person_speaks_to_a_team_in_its_own_run():
    spec = company(graph(rule({"kind": "from_speaker", "agent": "alice"}, "bob")))
    family = Household(spec, {**SAYS, "alice": SAYS["alice"].after(5)}).start()
    family.go(until=lambda one: any(child.of(ev.CallIssued) for child in one.children))
    team = of_team(family)
    for run_id in (team.run_id, "root"):
        family.put(run_id, PersonSpoke(input_id="say:1", actor="ana", text="Mind the archive."))
    family.go()
    whole(family)
    heard = "\n".join(one.text for one in asked_of(family, "bob")[0].messages)
    assert "ana, a person, says: Mind the archive." in heard
    others = [one for _, one in family.requests if one.agent != "bob"]
    assert not any("archive" in message.text for one in others for message in one.messages)


def test_what_a_team_was_about_to_do_stops_with_its_parent():
    spec = company(peers("alice", "bob"), agents=using("alice", tools=PASS))
    family = Household(spec, {**SAYS, "alice": passes("bob"), "bob": SAYS["bob"].after(50)}).start()
    family.go(until=lambda one: any(child.of(ev.HandedOff) for child in one.children))
    family.cancel()
    whole(family)
    assert {member.run.state for member in family.runs.values()} == {RunState.CANCELLED}
    assert len(of_team(family).of(ev.TurnOpened)) <= 2


def test_a_run_of_a_team_goes_on_after_its_process_died_with_what_was_said():
    spec = company(peers("alice", "bob"), agents=using("alice", tools=PASS))
    family = Household(spec, {**SAYS, "alice": passes("bob", "It leaks."), "bob": SAYS["bob"].after(5)}).start()
    family.go(until=lambda one: any(child.of(ev.HandedOff) for child in one.children))
    family.crash(of_team(family).run_id)
    family.go()
    whole(family)
    assert spoken(of_team(family)) == ["alice", "bob"]
    assert family.end.state is RunState.COMPLETED


def test_a_fork_of_a_team_s_run_is_derived_by_that_team_s_rules():
    family = Household(company(graph(rule(FAILED, "bob"))), {**SAYS, "alice": fails(Cause.AUTH, "no")})
    deadline = family.now + 300_000_000
    family.runs["root"] = Member("root", Tier.INTERACTIVE, 7, run=Run("root", tier=Tier.INTERACTIVE, seed=7))
    asked = {"input_id": "fork", "request": {"text": "What is it?"}, "deadline_at": deadline}
    family.put("root", ForkRequested(**asked, origin_run_id="r", origin_seq=1, origin_hash="00", topology="desk"))
    family.go()
    assert family.end.state is RunState.COMPLETED
    assert (spoken(family.root), family.root.of(ev.ChildSpawned)) == (["alice", "bob"], [])
    assert [str(fact.reaction) for fact in family.root.of(ev.ReactionDecided)] == ["route"]


# -- a plan that leads to them -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("team", [graph(), peers("alice", "bob")])
def test_a_plan_is_not_handed_out_where_a_team_could_not_let_in_all_who_take_part(team):
    # Of seven, two are the plan's; three quarters of the other five are for two briefs, one each: the team needs two.
    stopped = led(team, limits={"sub_agents_spawned": 7})
    assert (stopped.end.state, stopped.requests) == (RunState.ABORTED, [])
    assert "the team of desk starts at least 2 agents" in stopped.end.reason
    assert led(team, limits={"sub_agents_spawned": 8}).end.state is RunState.COMPLETED


# -- refused -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("team", "sentence"),
    [
        (peers("alice", "bob", first="carl"), "topology.teams.desk.topology.first: 'carl' is not one of the workers"),
        (
            graph(max_visits={"carl": 2}),
            "topology.teams.desk.topology.max_visits.carl: 'carl' is not one of the workers",
        ),
        (
            graph(workers=("alice", "lab")),
            "topology.teams.desk.topology.workers.1: 'lab' leads a team, and a team hears nothing of the turns before it",
        ),
        (
            peers("lab", "alice"),
            "topology.teams.desk.topology.workers.0: 'lab' leads a team, and a team hears nothing of the turns before it",
        ),
    ],
)
def test_what_such_a_team_cannot_be_is_told_with_its_path(team, sentence):
    from fabric.services.fabrics.yaml.document import find_spec

    tree = company(graph(), {"lab": under("carol")}).model_dump(mode="json", by_alias=True)
    tree["topology"]["teams"]["desk"]["topology"] = team
    found = [f"{one.path}: {one.sentence}" for one in find_spec(tree)[1]]
    assert any(one.startswith(sentence) for one in found), found


def test_a_declared_tool_has_no_name_that_a_team_s_conversation_has():
    with pytest.raises(ValidationError, match="'finish' is a tool that topology graph has"):
        company(graph(), tools=("finish",))
    assert company(peers("alice", "bob"), tools=("finish",)).tool("finish").kind == "builtin"
