"""Debate: rounds of proposals and criticism, then a verdict or a vote (docs/specification/topologies.md)."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from fabric.core import events as ev
from fabric.core.values.flow import RunState
from fabric.core.values.taxonomy import Cause, FailureType, Tier
from tests.fabric.core.engine.test_policy_runs import forbidding
from tests.fabric.core.harness import World, ran
from tests.fabric.core.scripts import HANGS, fails, say, summary
from tests.fabric.core.topologies.fabrics import hierarchy, team, under

TEXT = "\n"


def debate(*sides, rounds=2, fan_in=None, **fields):
    """A debate of those sides, ``rounds`` long, between the agents that ``fields`` name."""
    topology = {"kind": "debate", "workers": list(sides or ("ann", "bob")), "rounds": rounds}
    for name in ("judge", "critics", "aggregator", "handover"):
        if name in fields:
            topology[name] = fields.pop(name)
    policy = {} if fan_in is None else {"fan_in": fan_in}
    return team(topology, **policy, **fields)


def verdict(winner, why="It holds.", **fields):
    return say(json.dumps({"winner": winner, "text": why, "citations": []}), **fields)


def speaks(name, *votes):
    """A side: a proposal of its own in each round, then what it votes for."""
    return lambda command: (
        votes[0] if command.output == "verdict" else summary(f"{name} in round {rounds_of(command)}.")
    )


def rounds_of(command):
    """1 for a proposal of the first round, 2 for one of a later one, which has heard something."""
    return 2 if any(message.template == "said@1" for message in command.messages) else 1


def turns(world):
    return [(fact.branch, fact.agent, fact.hears) for fact in world.of(ev.TurnOpened)]


def heard(world, agent, nth=-1):
    return TEXT.join(message.text for message in [one for one in world.requests if one.agent == agent][nth].messages)


TWO = {"ann": speaks("ann", verdict("ann")), "bob": speaks("bob", verdict("ann"))}


# -- rounds ----------------------------------------------------------------------------------------------------------


def test_sides_propose_at_once_and_hear_the_round_before():
    world = ran(debate(judge="jo"), {**TWO, "jo": verdict("bob", "It weighs more.")})
    assert world.end.state is RunState.COMPLETED
    assert turns(world) == [
        (0, "ann", ()),
        (1, "bob", ()),
        (2, "ann", (0, 1)),
        (3, "bob", (0, 1)),
        (4, "jo", (0, 1, 2, 3)),
    ]
    assert world.elapsed_s == pytest.approx(3), "two at a time"
    second = heard(world, "ann", 1)
    assert "ann said:\nann in round 1." in second
    assert "bob said:\nbob in round 1." in second
    assert "Round 2 of 2." in second
    assert "said:" not in heard(world, "ann", 0)
    assert "The winner is one of: ann, bob." in heard(world, "jo")


def test_critics_hear_the_proposals_of_their_round_and_are_heard_in_the_next():
    script = {**TWO, "eve": summary("Neither counts."), "jo": verdict("ann")}
    world = ran(debate(judge="jo", critics=["eve"]), script)
    assert turns(world) == [
        (0, "ann", ()),
        (1, "bob", ()),
        (2, "eve", (0, 1)),
        (3, "ann", (0, 1, 2)),
        (4, "bob", (0, 1, 2)),
        (5, "eve", (3, 4)),
        (6, "jo", (0, 1, 2, 3, 4, 5)),
    ]
    assert "eve said:\nNeither counts." in heard(world, "bob", 1)


@pytest.mark.parametrize("rounds", [1, 2, 3, 10])
def test_there_are_as_many_rounds_as_it_says(rounds):
    world = ran(debate(rounds=rounds, judge="jo"), {**TWO, "jo": verdict("ann")})
    assert [fact.agent for fact in world.of(ev.TurnOpened)].count("ann") == rounds
    assert world.run.guards["hop_limit"].spawned == 3


def test_the_judge_s_verdict_is_the_answer_with_its_winner():
    world = ran(debate(judge="jo"), {**TWO, "jo": verdict("bob", "It weighs more.")})
    assert world.outcome["text"] == "The verdict is for bob.\n\nIt weighs more."


def test_an_aggregator_is_shown_all_that_was_said_with_the_winner():
    world = ran(debate(judge="jo", aggregator="ed"), {**TWO, "jo": verdict("bob"), "ed": summary("In sum.")})
    assert world.outcome["text"] == "In sum."
    merged = heard(world, "ed")
    assert merged.count("## Proposal of ann (ann)") == 2
    assert "## Verdict (jo)\nFor bob. It holds." in merged


# -- verdicts that do not fit ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (verdict("nobody"), "winner: it is for none of ann, bob; name one of them"),
        (summary("Bob, I think."), "winner is missing"),
        (say(json.dumps({"winner": "ann"})), "text is missing"),
    ],
)
def test_a_verdict_of_another_shape_costs_a_correction(wrong, told):
    world = ran(debate(judge="jo", rounds=1), {**TWO, "jo": [wrong, verdict("ann")]})
    assert world.end.state is RunState.COMPLETED
    assert world.asked("jo") == 2
    assert told in heard(world, "jo")


def test_a_judge_who_never_names_a_side_is_the_schemas_row():
    wrong = [verdict(f"nobody-{n}", f"Because of {why}.") for n, why in enumerate(("this", "that", "both", "all"))]
    world = ran(debate(judge="jo", rounds=1), {**TWO, "jo": wrong}, tier=Tier.HIGH_STAKES)
    assert world.asked("jo") == 4
    assert world.of(ev.ReactionDecided)[0].failure_type is FailureType.SCHEMA_GROUNDING
    assert world.of(ev.ReactionDecided)[0].cause.cause is Cause.CORRECTIONS_SPENT
    assert "winner: it is for none of ann, bob" in world.of(ev.ReactionDecided)[0].cause.message


def test_a_verdict_has_no_data_from_any_judge():
    schema = {"type": "object", "required": ["sum"]}
    given = {"ann": {"output_schema": schema}}
    proposal = say(json.dumps({"text": "Mine.", "citations": [], "data": {"sum": 1}}))

    def ann(command):
        return verdict("ann") if command.output == "verdict" else proposal

    world = ran(debate(rounds=1, agents=given), {**TWO, "ann": ann})
    assert world.end.state is RunState.COMPLETED


def asked_about(vote):
    """A debate one of whose votes a policy denies, so that a person is asked about it."""
    asks = {str(tier): {"rungs": [{"reaction": "escalate"}]} for tier in Tier}
    denied = forbidding(
        "output", 'context has payload && context.payload has text && context.payload.text like "*grudge*"'
    )
    fabric = debate(rounds=1, table={"unsafe_output": asks}, **denied)
    return ran(fabric, {**TWO, "bob": speaks("bob", vote)})


def test_what_a_person_writes_in_place_of_a_vote_is_a_vote():
    world = asked_about(verdict("bob", "An old grudge."))
    shown = world.content_of(ev.ReviewOpened)[0]
    assert shown["edit_schema"]["properties"]["winner"]["enum"] == ["ann", "bob"]
    assert shown["edit_initial"]["winner"] == "bob"
    world.decide("edit", edited={"text": "Mine.", "citations": []}).go()
    world.decide("edit", edited={"text": "Mine.", "citations": [], "winner": "carl"}, input_id="second").go()
    assert [one.reason for one in world.of(ev.InputIgnored)] == [
        "the edited content does not fit: winner is missing",
        "the edited content does not fit: winner: it is for none of ann, bob; name one of them",
    ]
    world.decide("edit", edited={"text": "Mine.", "citations": [], "winner": "bob"}, input_id="third").go()
    assert world.end.state is RunState.COMPLETED
    assert world.outcome["text"].startswith("The proposal of ann won with 1 of 2 votes")


def test_a_proposal_whose_brief_a_person_calls_like_a_vote_is_a_proposal():
    asks = {str(tier): {"rungs": [{"reaction": "escalate"}]} for tier in Tier}
    said = iter([fails(Cause.AUTH), summary("Ann's."), verdict("ann")])
    world = ran(debate(rounds=1, table={"provider_failure": asks}), {**TWO, "ann": lambda command: next(said)})
    brief = {"agent": "ann", "title": "Vote of ann", "instructions": "Take your side."}
    world.decide("edit", edited=brief).go()
    assert world.outcome["text"] == "The proposal of ann won with 2 of 2 votes (ann 2).\n\nAnn's."


# -- votes -----------------------------------------------------------------------------------------------------------


def voting(*votes, **fields):
    """Sides named a, b, c... of one round, each of whom votes so."""
    names = "abcdef"[: len(votes)]
    script = {name: speaks(name, verdict(vote)) for name, vote in zip(names, votes, strict=True)}
    return ran(debate(*names, rounds=1, **fields), script)


def test_most_votes_win_and_are_counted_in_the_answer():
    world = voting("b", "c", "b", "b")
    assert world.outcome["text"] == "The proposal of b won with 3 of 4 votes (b 3, c 1).\n\nb in round 1."


def test_each_votes_once_at_the_same_time_having_heard_the_last_round():
    world = voting("b", "c", "b")
    assert turns(world)[3:] == [(3, "a", (0, 1, 2)), (4, "b", (0, 1, 2)), (5, "c", (0, 1, 2))]
    assert [fact.choices for fact in world.of(ev.TurnOpened)] == [(), (), (), ("b", "c"), ("a", "c"), ("a", "b")]


def test_a_vote_for_itself_is_none_where_there_are_more_than_two():
    script = {name: speaks(name, verdict("a")) for name in "bc"}
    own = iter([verdict("a"), verdict("b")])
    script["a"] = lambda command: next(own) if command.output == "verdict" else summary("Mine.")
    world = ran(debate("a", "b", "c", rounds=1), script)
    assert "won with 2 of 3 votes (a 2, b 1)" in world.outcome["text"]
    assert "winner: it is for none of b, c; name one of them" in heard(world, "a")


def test_of_two_each_may_vote_for_itself_and_a_tie_is_told():
    world = voting("a", "b")
    assert world.outcome["text"].startswith(
        "The proposal of a won with 1 of 2 votes (a 1, b 1). It was a tie of a and b, which goes to who stands first among the sides."
    )


def test_a_tie_goes_to_who_stands_first_whatever_the_order_of_the_votes():
    world = voting("c", "c", "b", "b")
    assert world.outcome["text"].startswith(
        "The proposal of b won with 2 of 4 votes (b 2, c 2). It was a tie of b and c,"
    )


# -- sides that fail -------------------------------------------------------------------------------------------------

GONE = fails(Cause.AUTH, "the key was refused")


@pytest.mark.parametrize("judge", [None, "jo"])
def test_a_side_that_fails_is_the_fan_ins_row_where_all_are_needed(judge):
    script = {name: speaks(name, verdict("a")) for name in "abc"} | {"b": GONE, "jo": verdict("a")}
    world = ran(debate("a", "b", "c", **({"judge": judge} if judge else {})), script)
    assert world.end.state is RunState.FAILED
    partial = world.of(ev.ReactionDecided)[-1]
    assert (partial.failure_type, partial.cause.cause) == (FailureType.SCHEMA_GROUNDING, Cause.PARTIAL_FAN_IN)
    assert "b in turn 2: the key was refused" in world.end.reason
    assert len(world.of(ev.TurnOpened)) == 3, "no second round"


def test_the_others_are_let_go_of_once_it_cannot_go_on():
    world = World(debate(judge="jo"), {"ann": GONE, "bob": HANGS, "jo": verdict("bob")}).start().go()
    assert world.end.state is RunState.FAILED
    assert world.elapsed_s < 5


@pytest.mark.parametrize("fan_in", [{"mode": "best_effort"}, {"mode": "quorum", "k": 2}])
def test_the_debate_goes_on_without_it_where_the_policy_has_room(fan_in):
    script = {name: speaks(name, verdict("c")) for name in "ac"} | {"b": GONE}
    world = ran(debate("a", "b", "c", fan_in=fan_in), script)
    assert world.end.state is RunState.COMPLETED
    assert [(fact.agent, fact.choices) for fact in world.of(ev.TurnOpened)][3:] == [
        ("a", ()),
        ("c", ()),
        ("a", ("a", "c")),
        ("c", ("a", "c")),
    ]
    assert "The proposal of c won with 2 of 2 votes" in world.outcome["text"]
    assert "Proposal of b (b): " in world.outcome["gaps"][0]


@pytest.mark.parametrize(
    ("sides", "fan_in", "left"),
    [("ab", {"mode": "best_effort"}, 1), ("abc", {"mode": "quorum", "k": 3}, 2), ("ab", {"mode": "quorum", "k": 1}, 1)],
)
def test_two_sides_are_left_at_the_least_and_as_many_as_the_quorum(sides, fan_in, left):
    script = {name: speaks(name, verdict("a")) for name in sides} | {"b": GONE, "jo": verdict("a")}
    world = ran(debate(*sides, judge="jo", fan_in=fan_in), script)
    assert world.end.state is RunState.FAILED
    assert world.asked("jo") == 0
    assert world.of(ev.ReactionDecided)[-1].cause.cause is Cause.PARTIAL_FAN_IN


def test_a_critic_that_fails_is_missed_or_not_as_the_policy_says():
    script = {**TWO, "eve": GONE, "jo": verdict("ann")}
    strict = ran(debate(judge="jo", critics=["eve"]), script)
    assert strict.end.state is RunState.FAILED
    lax = ran(debate(judge="jo", critics=["eve"], fan_in={"mode": "best_effort"}), script)
    assert lax.end.state is RunState.COMPLETED
    assert [fact.agent for fact in lax.of(ev.TurnOpened)] == ["ann", "bob", "eve", "ann", "bob", "jo"]


@pytest.mark.parametrize("fan_in", [{"mode": "all"}, {"mode": "best_effort"}])
def test_no_person_decides_in_the_judges_place(fan_in):
    world = ran(debate(judge="jo", rounds=1, fan_in=fan_in), {**TWO, "jo": GONE})
    assert world.end.state is RunState.FAILED
    assert "jo in turn 3" in world.end.reason


def test_votes_that_came_count_where_the_policy_has_room():
    def silent(command):
        return GONE if command.output == "verdict" else summary("Mine.")

    script = {name: speaks(name, verdict("c")) for name in "bc"} | {"a": silent, "c": speaks("c", verdict("b"))}
    world = ran(debate("a", "b", "c", rounds=1, fan_in={"mode": "best_effort"}), script)
    assert world.end.state is RunState.COMPLETED
    assert "with 1 of 2 votes (b 1, c 1). It was a tie of b and c" in world.outcome["text"]


def test_a_turn_that_is_run_again_is_given_the_same_and_may_choose_the_same():
    again = [fails(Cause.TIMEOUT, "slow"), verdict("ann")]
    world = ran(debate(judge="jo", rounds=1), {**TWO, "jo": again}, tier=Tier.BATCH)
    assert world.end.state is RunState.COMPLETED
    asked = [one for one in world.requests if one.agent == "jo"]
    assert asked[0].messages == asked[1].messages


@pytest.mark.parametrize(("spawned", "ends"), [(4, RunState.COMPLETED), (3, RunState.ABORTED)])
def test_one_agent_too_many_gets_no_turn(spawned, ends):
    # Both sides, and the agent that takes over from one of them: of three there is no place left for the judge.
    rungs = {"rungs": [{"reaction": "handover", "times": 1}, {"reaction": "surface"}]}
    table = {"schema_grounding_fail": {"interactive": rungs}}
    bad = [say(f"No JSON, for {why}.") for why in ("one reason", "another", "a third", "none at all")]
    script = {**TWO, "bob": bad, "max": summary("Taken over."), "jo": verdict("ann")}
    fabric = debate(judge="jo", rounds=1, handover="max", limits={"sub_agents_spawned": spawned}, table=table)
    world = ran(fabric, script)
    assert [fact.agent for fact in world.of(ev.StepOpened)] == ["max"]
    assert world.end.state is ends
    assert world.asked("jo") == spawned - 3
    assert world.run.guards["hop_limit"].spawned == spawned
    refused = [fact for fact in world.of(ev.ReactionDecided) if fact.cause.cause is Cause.SUB_AGENT_CAP]
    assert bool(refused) is (ends is RunState.ABORTED)


def test_it_goes_on_where_it_was_after_a_crash():
    whole = ran(debate(judge="jo", critics=["eve"]), {**TWO, "eve": summary("No."), "jo": verdict("ann")})
    for at in range(1, 40, 3):
        world = World(debate(judge="jo", critics=["eve"]), {**TWO, "eve": summary("No."), "jo": verdict("ann")})
        world.start().go(steps=at)
        if not world.run.terminal:
            world.crash()
        assert world.go().outcome == whole.outcome


def test_a_team_may_be_a_debate():
    from tests.fabric.core.families import Household

    inner = {"kind": "debate", "workers": ["ann", "bob"], "rounds": 1, "judge": "jo"}
    spec = hierarchy(under("panel"), {"panel": inner})
    family = Household(spec, {**TWO, "jo": verdict("ann")}).start().go()
    assert family.end.state is RunState.COMPLETED
    assert family.root.outcome["text"] == "The verdict is for ann.\n\nIt holds."


# -- refused ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"judge": "ann"}, "topology.judge: 'ann' is one of the sides; name another agent"),
        ({"critics": ["eve", "bob"]}, "topology.critics.1: 'bob' is one of the sides; name another agent"),
        ({"critics": ["eve", "eve"]}, "topology.critics.1: 'eve' is there twice"),
        ({"rounds": 0}, "topology.debate.rounds"),
        ({"rounds": 11}, "topology.debate.rounds"),
    ],
)
def test_a_debate_that_cannot_be_held_is_refused(fields, sentence):
    with pytest.raises(ValidationError, match=sentence):
        debate(**fields)


@pytest.mark.parametrize("sides", [("ann",), ("ann", "ann")])
def test_a_side_alone_is_no_debate(sides):
    with pytest.raises(ValidationError, match="topology.workers: a debate has two sides at the least"):
        debate(*sides)


def test_no_agent_plans_a_debate():
    with pytest.raises(ValidationError, match="topology: the sides are the plan; leave planner and plan out"):
        team({"kind": "debate", "workers": ["ann", "bob"], "planner": "pat"})


@pytest.mark.parametrize(
    ("agents", "judge", "sentence"),
    [
        ({"jo": {"answers": "text"}}, "jo", "topology.judge: 'jo' answers in text, but a judge must answer in json"),
        ({"bob": {"answers": "text"}}, None, "topology.workers.1: 'bob' answers in text, but a side that votes must"),
    ],
)
def test_who_decides_answers_in_json(agents, judge, sentence):
    with pytest.raises(ValidationError, match=sentence):
        debate(agents=agents, **({"judge": judge} if judge else {}))
    assert debate(agents={"bob": {"answers": "text"}}, judge="jo")
