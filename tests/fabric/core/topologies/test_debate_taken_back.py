"""Debates in which a gate takes back what a side proposed once all have voted (docs/specification/topologies.md)."""

from __future__ import annotations

import pytest

from fabric.core import events as ev
from fabric.core.values.flow import RunState
from fabric.core.values.taxonomy import Tier
from tests.fabric.core.engine.test_policy_runs import forbidding
from tests.fabric.core.harness import ran
from tests.fabric.core.scripts import summary
from tests.fabric.core.topologies.test_debate import GONE, debate, heard, speaks, verdict


def grudging(rungs, *sides, **fields):
    """A debate of one round in which no grudge may be passed on: those rungs for one that is, and a person for a debate that lacks a side."""
    table = {"unsafe_output": rungs, "schema_grounding_fail": ["escalate"]}
    denied = forbidding(
        "output", 'context has payload && context.payload has text && context.payload.text like "*grudge*"'
    )
    rows = {
        row: {str(tier): {"rungs": [{"reaction": one} for one in reactions]} for tier in Tier}
        for row, reactions in table.items()
    }
    return debate(*sides, rounds=1, table=rows, **denied, **fields)


def of_turns(given, *proposals):
    """A side that proposes those one after another, and votes so."""
    said, votes = iter(proposals), iter(given)
    return lambda command: next(votes) if command.output == "verdict" else next(said)


@pytest.mark.parametrize("second", [summary("A better one."), GONE])
def test_a_vote_waits_for_a_proposal_that_a_person_lets_be_tried_once_more(second):
    script = {
        "ann": of_turns([verdict("bob")], summary("An old grudge."), second),
        "bob": of_turns([GONE, verdict("bob")], summary("Bob's.")),
    }
    world = (
        ran(grudging(["safe_fallback"], "ann", "bob", fan_in={"mode": "best_effort"}), script).decide("approve").go()
    )
    ann, bob = (one.step_id for one in world.of(ev.StepOpened))
    first = [one.step_id for one in world.of(ev.CallIssued) if one.step_id in (ann, bob)]
    assert first == [ann, bob], "both were opened at once, one spoke after the other"
    if second is GONE:
        assert world.run.reviews, "without that proposal there is no debate: it is asked about anew"
        return
    assert "ann said:\nA better one." in heard(world, "bob")
    assert world.end.state is RunState.COMPLETED


def test_a_vote_is_given_nothing_of_a_proposal_that_was_taken_back():
    script = {
        "a": of_turns([verdict("c")], summary("An old grudge."), GONE),
        "b": of_turns([GONE, verdict("c")], summary("Another grudge."), summary("A better one.")),
        "c": of_turns([verdict("b")], summary("The best.")),
    }
    world = ran(grudging(["safe_fallback"], "a", "b", "c", fan_in={"mode": "best_effort"}), script)
    world.decide("approve").go()
    told = heard(world, "b")
    assert "b said:\nA better one." in told
    assert "c said:\nThe best." in told
    assert "a said:" not in told
    assert "The proposal of c won with 2 of 3 votes" in world.outcome["text"]


@pytest.mark.parametrize(
    ("votes", "told"), [("baa", "b won with 1 of 1 votes (b 1)"), ("cab", "b won with 1 of 2 votes")]
)
def test_votes_for_a_proposal_that_was_taken_back_do_not_count(votes, told):
    """A gate's findings in it come once all have voted."""
    given = dict(zip("abc", votes, strict=True))
    script = {name: of_turns([verdict(vote)], summary(f"{name}'s own.")) for name, vote in given.items()}
    script["a"] = of_turns([verdict(given["a"])], summary("An old grudge."))
    world = ran(grudging(["safe_fallback"], "a", "b", "c", fan_in={"mode": "best_effort"}), script)
    assert world.end.state is RunState.COMPLETED
    assert f"The proposal of {told}" in world.outcome["text"]


@pytest.mark.parametrize("judge", [None, "jo"])
def test_a_verdict_for_what_was_taken_back_decides_nothing(judge):
    script = {name: speaks(name, verdict("a")) for name in "bc"} | {"jo": verdict("a")}
    script["a"] = of_turns([verdict("b"), verdict("b")], summary("An old grudge."), summary("A better one."))
    fabric = grudging(
        ["safe_fallback"], "a", "b", "c", fan_in={"mode": "best_effort"}, **({"judge": judge} if judge else {})
    )
    world = ran(fabric, script)
    if judge is None:
        assert "The proposal of b won with 1 of 1 votes" in world.outcome["text"], "one of the three is left"
        return
    asked = world.of(ev.ReviewOpened)[0]
    assert "jo in turn 4: it is for a, whose proposal failed after it" in asked.reason
    world.decide("approve").go()
    assert world.outcome["text"].startswith("The verdict is for a."), "what it is for is there again"
