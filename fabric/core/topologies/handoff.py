"""Peer handoff: one peer has the request, and passes it on with a brief or answers it
(docs/specification/topologies.md). It is a graph without a rule: handoffs alone decide.
"""

from __future__ import annotations

from fabric.core.conversations import turns as conversations
from fabric.core.decision.work import Work
from fabric.core.topologies.graph import begins, conclude_fan_out, join_outputs
from fabric.core.values.units import JSON

__all__ = ["begins", "conclude_fan_out", "join_outputs", "plan"]


def plan(work: Work) -> JSON:
    """Return the author's plan, or one with a brief for each peer."""
    topology = conversations.find_topology(work)
    if topology.plan is not None:
        return topology.plan.model_dump(mode="json")
    briefs = [{"agent": name, "title": name, "instructions": PASSES_ON} for name in topology.workers]
    return {
        "goal": work.compiled_fabric.spec.title,
        "briefs": briefs,
        "exit_criteria": ["One of the peers has answered."],
    }


PASSES_ON = "The request is yours now. Answer it if it is yours to answer; else hand it over by the tool transfer, with a brief."
