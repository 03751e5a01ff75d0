"""Counts that stopped something, made again from the journal: turns, handovers, visits. Every other test's run is compared with them too (``deriving.py``)."""

from __future__ import annotations

import dataclasses

import pytest

from fabric.auditor.comparison import MECHANISM
from fabric.core import events as ev
from fabric.core.values.taxonomy import Tier
from tests.fabric.auditor.test_walk import derived
from tests.fabric.core.fabrics import lone, spec
from tests.fabric.core.harness import ran
from tests.fabric.core.scripts import asks, call, say, summary
from tests.fabric.core.topologies.fabrics import graph, rule
from tests.fabric.core.topologies.graph.test_nodes import visited
from tests.fabric.core.topologies.graph.test_turns import END, using

TURNS = {"worker": [asks(call(q="x")), asks(call(q="y")), summary("Late.")]}


def turned():
    return ran(lone(limits={"turns": 2}), TURNS)


def told_otherwise(world, **evidence):
    """The run's events, with other numbers beside the first decision about a count."""
    at = next(
        n
        for n, event in enumerate(world.events)
        if isinstance(event.fact, ev.ReactionDecided) and event.fact.cause.mechanism == MECHANISM
    )
    fact = world.events[at].fact
    cause = dataclasses.replace(fact.cause, evidence=dataclasses.replace(fact.cause.evidence, **evidence))
    wrong = dataclasses.replace(world.events[at], fact=dataclasses.replace(fact, cause=cause))
    return [*world.events[:at], wrong, *world.events[at + 1 :]]


def test_turns_are_counted_again():
    first = derived(turned())[0]
    assert (first.verdict, first.judged, first.fact.cause.evidence.observed) == ("equal", ("turns",), 3)


@pytest.mark.parametrize(
    ("evidence", "recorded"),
    [({"observed": 4}, "4, at most 2"), ({"limit": 3}, "3, at most 3"), ({"observed": 2}, "2, at most 2")],
)
def test_a_count_that_does_not_follow_from_the_journal_is_said(evidence, recorded):
    world = turned()
    first = derived(world, told_otherwise(world, **evidence))[0]
    assert first.verdict == "different"
    assert [dataclasses.astuple(one) for one in first.differences] == [("turns", recorded, "3, at most 2")]


def test_a_turn_that_is_missing_from_the_journal_is_missed():
    world = turned()
    last = max(
        n
        for n, event in enumerate(world.events)
        if isinstance(event.fact, ev.CallIssued) and event.fact.call == "model" and event.fact.turn == 2
    )
    [first, *_] = derived(world, [*world.events[:last], *world.events[last + 1 :]])
    assert ("turns", "3, at most 2", "2, at most 2") in [
        (one.field, one.recorded, one.derived) for one in first.differences
    ]


def entered_again():
    """A plan stage that may be entered once, and is planned anew."""
    rungs = {"rungs": [{"reaction": "replan", "times": 2}, {"reaction": "abort"}]}
    table = {row: dict.fromkeys(Tier, rungs) for row in ("unsafe_output", "infinite_tool_loop")}
    return ran(spec(table=table, limits={"max_visits": {"plan": 1}}), {"worker": say("", finish="content_filter")})


def handed_over():
    """Two who hand over to each other, as far as hops let them."""
    fabric = graph(rule("always", END), topology={"max_turns": 9}, agents=using("alice", "bob"), limits={"hops": 1})
    to_bob, to_alice = (asks(call("transfer", to=to, brief=f"It is yours, {to}.")) for to in ("bob", "alice"))
    return ran(fabric, {"alice": to_bob, "bob": [to_alice, summary("Then it is mine.")]})


@pytest.mark.parametrize(
    ("world", "unit", "derives"),
    [
        (handed_over, "hops", "2, at most 1"),
        (entered_again, "visits", "2, at most 1"),
        (lambda: visited(topology={"max_visits": {"bob": 2}}), "visits", "3, at most 2"),
        (lambda: visited(limits={"max_node_visits": 3, "visits_preset": "fabro"}), "visits", "3, at most 2"),
    ],
)
def test_hops_and_visits_are_counted_again(world, unit, derives):
    run = world()
    first = next(one for one in derived(run) if one.judged)
    assert (first.verdict, first.judged) == ("equal", (unit,))
    wrong = next(one for one in derived(run, told_otherwise(run, observed=7)) if one.judged)
    assert [(one.field, one.derived) for one in wrong.differences] == [(unit, derives)]
