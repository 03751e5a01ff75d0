"""Imported workflows, played as whole runs: who has a turn after which end of the one before (S1)."""

from __future__ import annotations

from typing import Any

import pytest

from fabric.core import events as ev
from fabric.core.values.flow import RunState
from fabric.core.values.taxonomy import Cause
from fabric.services.importers.graphs.files import graph_read
from tests.fabric.core.harness import World, ran
from tests.fabric.core.scripts import Script, fails, summary
from tests.fabric.core.topologies.fabrics import TOPICS, team

FIX_LOOP = """digraph Fix {
  start [shape=Mdiamond]
  exit [shape=Msquare]
  implement [prompt="Do it."]
  fixup [max_visits=3]
  max_node_visits=9
  start -> implement -> verify
  verify -> exit [condition="outcome=succeeded"]
  verify -> fixup
  fixup -> verify
}"""
DOWN = fails(Cause.SERVER_ERROR, "the provider is down", status=503)


def wrong(what: str) -> Any:
    return fails(Cause.AUTH, f"the check of {what} fails")


def played(text: str, **scripts: Script) -> World:
    """A run of the imported file; an agent without a script says something new in each turn."""
    found = graph_read(text)
    talks = {name: [summary(f"{name} knows {one}.") for one in TOPICS] for name in found.topology["workers"]}
    return ran(team(found.topology, **found.policy), {**talks, **scripts})


def turns(world: World) -> list[str]:
    return [fact.agent for fact in world.of(ev.TurnOpened)]


def test_the_edge_without_a_condition_is_taken_after_a_failure():
    world = played(FIX_LOOP, verify=[wrong("lines"), wrong("names"), summary("All of it passes.")])
    assert turns(world) == ["implement", "verify", "fixup", "verify", "fixup", "verify"]
    assert world.end.state is RunState.COMPLETED


def test_a_gate_that_passes_ends_it_and_goes_round_no_more():
    text = """digraph Branch {
      start [shape=Mdiamond]; exit [shape=Msquare]; gate [shape=diamond]
      start -> plan -> implement -> validate -> gate
      gate -> exit [label="Pass", condition="outcome=succeeded"]
      gate -> implement [label="Fix"]
    }"""
    assert turns(played(text)) == ["plan", "implement", "validate"]
    failing = played(text, validate=[wrong("lines"), summary("It passes.")])
    assert turns(failing) == ["plan", "implement", "validate", "implement", "validate"]


@pytest.mark.parametrize(
    ("of_node", "tries"),
    [("max_retries=2", 3), ("retry_policy=linear", 3), ("retry_policy=none", 1), ("max_retries=0", 1)],
)
def test_a_single_node_is_tried_as_often_as_it_says_and_no_other_is(of_node, tries):
    text = f"""digraph Retries {{
      start [shape=Mdiamond]; exit [shape=Msquare]; default_max_retries=0
      first; mend [{of_node}]
      start -> first -> mend -> exit
    }}"""
    assert (turns(played(text, mend=DOWN)), tried(played(text, mend=DOWN), "mend")) == (["first", "mend"], tries)
    assert tried(played(text, first=DOWN), "first") == 1


def tried(world: World, node: str) -> int:
    """How often a node was begun: by its turn, and by each retry of the node."""
    return turns(world).count(node) + sum(fact.agent == node for fact in world.of(ev.StepOpened))


def test_a_node_that_may_be_partial_meets_its_goal():
    text = """digraph Partial {
      start [shape=Mdiamond]; exit [shape=Msquare]; default_max_retries=0
      draft; check [goal_gate=true, allow_partial=true]; tell
      start -> draft -> check -> tell -> exit
    }"""
    world = played(text, check=DOWN)
    assert [str(fact.outcome) for fact in world.of(ev.SpeakerChosen)] == ["success", "partial_success", "success"]
    assert (world.end.state, world.end.partial) == (RunState.COMPLETED, True)
    refused = played(text.replace(", allow_partial=true", ""), check=DOWN)
    assert refused.end.state is not RunState.COMPLETED


@pytest.mark.parametrize(
    ("failing", "then"), [(DOWN, "again"), (wrong("keys"), "escalate")], ids=["transient_infra", "deterministic"]
)
def test_a_failure_is_routed_by_its_class(failing, then):
    text = """digraph Classes {
      start [shape=Mdiamond]; exit [shape=Msquare]; default_max_retries=0
      start -> implement
      implement -> again    [condition="failure_class=transient_infra"]
      implement -> escalate [condition="context.failure_class=deterministic"]
      implement -> exit     [condition="outcome=succeeded"]
      again -> exit; escalate -> exit
    }"""
    assert turns(played(text, implement=failing)) == ["implement", then]
    assert turns(played(text)) == ["implement"]
