"""A person's words on a child run's try reach the next one: a team, or the branches of a slice that are still open."""

from __future__ import annotations

import pytest

from fabric.core import events as ev
from fabric.core.values.flow import RunState
from fabric.core.values.taxonomy import Cause, Tier
from tests.fabric.core.families import Household
from tests.fabric.core.family_scenes import ASKED, household, once_bad, whole
from tests.fabric.core.scripts import fails, summary
from tests.fabric.core.topologies.fabrics import hierarchy, under

WORDS = "Look into the ledger."
SURFACES = {tier: {"rungs": [{"reaction": "surface"}]} for tier in Tier}


def told(family, run_id, agent):
    asked = [one for at, one in family.requests if at == run_id and one.agent == agent]
    return "\n".join(message.text for message in asked[-1].messages)


def resting(family):
    return bool(family.root.run.reviews) and not family.root.run.family.alive


@pytest.mark.parametrize(("verb", "reads"), [("respond", WORDS), ("approve", "Approved for one more try.")])
def test_a_team_that_is_tried_once_more_is_told_what_a_person_said(verb, reads):
    fabric = hierarchy(under("lead", "solo"), {"lead": under("ann")}, table={"schema_grounding_fail": ASKED})
    gone = fails(Cause.AUTH, "the key was refused")
    family = Household(fabric, script := {"ann": gone, "solo": summary("Nothing.")}).start()
    family.go(until=lambda family: any(one.run.reviews for one in family.children))
    [team] = family.children
    family.decide(team.run_id, "reject", until=resting)
    script["ann"] = summary("At last.")
    family.decide("root", verb, message=WORDS if verb == "respond" else "")
    whole(family)
    assert family.end.state is RunState.COMPLETED
    first, second = (fact.child_id for fact in family.root.of(ev.ChildSpawned))
    assert reads in told(family, second, "ann")
    assert reads not in told(family, first, "ann")
    assert "Your part: Part 1" in told(family, second, "ann")


def test_a_team_whose_result_a_gate_took_back_is_told_why():
    rungs = {tier: {"rungs": [{"reaction": "retry", "times": 1}, {"reaction": "surface"}]} for tier in Tier}
    group = {"places": ["fan_out"], "patterns": [{"name": "grudge", "pattern": "grudge"}]}
    teams = {"lead": under("ann", aggregator="ed")}
    fabric = hierarchy(under("lead", "solo"), teams, table={"unsafe_output": rungs}, gates={"guardrails": [group]})
    answers = iter([summary("An old grudge."), summary("None.")])
    script = {"ann": summary("Fine."), "ed": lambda command: next(answers), "solo": summary("Nothing.")}
    family = Household(fabric, script).start().go()
    whole(family)
    assert family.end.state is RunState.COMPLETED
    second = family.root.of(ev.ChildSpawned)[-1].child_id
    assert "grudge" in told(family, second, "ann")


def test_what_a_note_quotes_is_nothing_to_rest_on():
    """It says which number stands in no source: said once more, it stands in none still."""
    fabric = hierarchy(under("lead", "solo"), {"lead": under("ann")}, gates={"grounding": "numbers"})
    family = Household(fabric, {"ann": summary("It was 4712."), "solo": summary("Nothing.")}).start().go()
    assert family.end.state is RunState.FAILED
    first, second = (fact.child_id for fact in family.root.of(ev.ChildSpawned))
    assert "4712 is in no source" in told(family, second, "ann")
    assert "4712 is in no source" in family.runs[second].of(ev.RunEnded)[0].reason


def test_the_branches_of_a_slice_that_are_still_open_are_told():
    bad = fails(Cause.BAD_REQUEST, "no").after(5.0)
    table = {"schema_grounding_fail": ASKED, "provider_failure": SURFACES}
    answers = once_bad(1, bad, summary("Found."))
    family = household(10, {"worker": answers}, table=table, fan_in={"mode": "quorum", "k": 10})
    family.go(until=resting)
    family.decide("root", "respond", message=WORDS)
    whole(family)
    assert family.end.state is RunState.COMPLETED
    last = family.root.of(ev.ChildSpawned)[-1]
    assert (last.briefs, WORDS in told(family, last.child_id, "worker")) == ((0,), True)
