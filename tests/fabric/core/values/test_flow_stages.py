"""S0 "Fabric Flow" makes claims of each stage, in any topology, and of two of its limits: whole runs show them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from fabric.core import events as ev
from fabric.core.values.flow import RunState, Stage
from fabric.core.values.taxonomy import Cause, Tier
from fabric.runtime.ports.journal import Document
from tests.fabric.core.fabrics import lone, spec
from tests.fabric.core.families import Household
from tests.fabric.core.harness import ran
from tests.fabric.core.scripts import fails, summary
from tests.fabric.core.topologies.fabrics import duty, graph, passes, peers, sop, talks
from tests.fabric.core.topologies.test_debate import TWO, debate
from tests.fabric.core.topologies.test_hierarchical import SAYS, research

PRE = ("schema", "policy", "budget", "artifacts")
POST = ("schema", "policy", "invariants", "grounding")


KINDS: dict[str, Callable[[], Any]] = {
    "supervisor": lambda: ran(spec()),
    "hierarchical": lambda: Household(research(), SAYS).start().go(),
    "handoff": lambda: ran(peers("triage", "network"), {"triage": passes("network"), "network": summary("Here.")}),
    "debate": lambda: ran(debate(), TWO),
    "sop": lambda: ran(sop(duty("clerk", "Read it")), {"clerk": summary("Read.")}),
    "graph": lambda: ran(graph(), talks("alice", "bob")),
}


@pytest.mark.parametrize("kind", KINDS)
def test_each_stage_is_entered_and_left_through_a_gate_in_each_topology(kind):
    run = KINDS[kind]()
    assert run.end.state is RunState.COMPLETED
    for world in run.runs.values() if isinstance(run, Household) else [run]:
        entered, left = world.of(ev.StageEntered), world.of(ev.StageLeft)
        assert [fact.stage for fact in entered] == [fact.stage for fact in left] == list(Stage)
        assert all(fact.gate is not None and fact.gate.cause is None for fact in (*entered, *left))
        assert {tuple(check.name for check in fact.gate.checks) for fact in entered} == {PRE}
        assert {tuple(check.name for check in fact.gate.checks)[:4] for fact in left} == {POST}
        assert all(fact.deadline_at for fact in entered)


def test_a_failed_post_gate_leaves_its_whole_result():
    fabric = spec(gates={"citations": "required"})
    world = ran(fabric, {"aggregator": summary("Nothing is cited.")}, documents=(Document("a.md", "x"),))
    assert world.end.state is RunState.FAILED
    for decision in world.of(ev.ReactionDecided):
        assert decision.gate is not None
        assert decision.gate.cause is Cause.GROUNDING
        results = {check.name: check.result for check in decision.gate.checks}
        assert results == {
            "schema": "passed",
            "policy": "not_configured",
            "invariants": "not_configured",
            "grounding": "failed",
            "confidence": "not_reached",
        }


def test_a_fabric_has_its_own_limit_of_hops():
    names = ("triage", "network", "database", "storage")
    script = {name: passes(to, f"Look at {to}.") for name, to in pairwise(names)}
    script |= {"storage": summary("The disk is full.")}
    assert ran(peers(*names), script).end.state is RunState.COMPLETED
    world = ran(peers(*names, limits={"hops": 2}), script)
    assert world.of(ev.ReactionDecided)[0].cause.cause is Cause.HOP_LIMIT
    assert len(world.of(ev.HandedOff)) == 2


def test_a_batch_run_without_a_cheaper_model_alerts_before_it_is_aborted():
    world = ran(lone(), {"worker": fails(Cause.QUOTA)}, tier=Tier.BATCH)
    assert world.end.state is RunState.ABORTED
    (alert,) = world.of(ev.AlertRaised)
    assert (alert.cause, alert.reaction) == (Cause.QUOTA, "abort")
