"""Pace of turns: what takes long is told once, what takes too long closes the conversation, which lives no longer than it may (docs/specification/topologies.md; S4)."""

from __future__ import annotations

import pytest

from fabric.core import events as ev
from fabric.core.graph.state import SpeakerReason
from fabric.core.values.flow import RunState
from fabric.core.values.taxonomy import Tier
from tests.fabric.core.harness import ran
from tests.fabric.core.scripts import asks, summary
from tests.fabric.core.topologies.fabrics import graph, rule, talks
from tests.fabric.core.topologies.graph.test_failures import DOWN
from tests.fabric.core.topologies.graph.test_turns import SAYS, TWO, closed, equals, sets, spoken, using

LONG = {
    "deadlines": {"interactive": {"call_s": 900, "stage_s": 1_000, "run_s": 2_000}},
    "stall_watchdog": {"after_s": 1_500},
}


def overdue(world):
    return [(fact.place, fact.on_violation, fact.elapsed_us // 1_000_000) for fact in world.of(ev.TurnOverdue)]


@pytest.mark.parametrize(
    ("takes_s", "told"),
    [(119, []), (121, [(0, "warn", 120)]), (300, [(0, "warn", 120)])],
)
def test_a_turn_that_takes_long_is_told_once(takes_s, told):
    world = ran(graph(**LONG), {"alice": summary("At last.").after(takes_s)})
    assert overdue(world) == told
    assert closed(world) == "done"


def test_a_turn_that_takes_too_long_closes_the_conversation_and_is_taken_back():
    fabric = graph(rule(equals("half"), "bob"), topology={"max_turns": 4}, agents=using("bob"), **LONG)
    script = {"alice": SAYS["alice"], "bob": [asks(sets(half=True)), summary("Too late.").after(700)]}
    world = ran(fabric, script)
    assert overdue(world) == [(0, "warn", 120), (1, "auto_close", 600)]
    last = world.of(ev.SpeakerChosen)[-1]
    assert (last.why, last.close_reason, last.turn) == (
        SpeakerReason.EXPECTATION,
        "expectation_violated:turn_within",
        1,
    )
    assert "half" not in world.content_of(ev.SpeakerChosen)[-1]["context"]
    assert world.end.state is RunState.STOPPED
    assert world.outcome["text"] == "alice has looked at it."


def test_a_conversation_is_closed_when_it_has_lived_as_long_as_it_may():
    fabric = graph(rule("always", {"kind": "round_robin"}), topology={"ttl_s": 5, "expectations": []}, **LONG)
    slow = {name: [one.after(2) for one in answers] for name, answers in talks("alice", "bob").items()}
    world = ran(fabric, slow)
    assert world.of(ev.SpeakerChosen)[-1].why is SpeakerReason.TTL
    assert (closed(world), len(world.of(ev.SpeakerChosen))) == ("ttl", 3)
    assert world.elapsed_s == pytest.approx(5)


def test_nothing_is_left_of_a_conversation_that_is_closed_before_the_first_turn():
    world = ran(graph(topology={"ttl_s": 5}, **LONG), {"alice": summary("Too late.").after(10)})
    assert world.end.state is RunState.FAILED
    assert "its conversation was closed in this turn: ttl" in world.end.reason


def test_a_turn_that_waits_for_a_person_is_not_overdue():
    fabric = graph(
        rule("always", "bob"),
        topology=TWO,
        table={"provider_failure": {"high_stakes": {"rungs": [{"reaction": "escalate"}]}}},
    )
    world = ran(fabric, {**SAYS, "alice": [DOWN, SAYS["alice"]]}, tier=Tier.HIGH_STAKES)
    world.wait(3_000)
    assert overdue(world) == []
    world.decide("approve").go()
    assert (spoken(world), overdue(world)) == (["alice", "bob"], [])
