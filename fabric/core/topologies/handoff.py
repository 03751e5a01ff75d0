"""Peer handoff: one peer has the request, and passes it on with a brief or answers it (semantics.md 5). It is a graph without a rule: handoffs alone decide."""

from __future__ import annotations

from typing import Any

from fabric.core import conversations
from fabric.core.topologies.graph import begins, concluded, joined
from fabric.core.work import Work

JSON = Any
__all__ = ["begins", "concluded", "joined", "plan"]


def plan(work: Work) -> JSON:
    """The author's, or a brief for each peer."""
    topology = conversations.topology_of(work)
    if topology.plan is not None:
        return topology.plan.model_dump(mode="json")
    briefs = [{"agent": name, "title": name, "instructions": PASSES_ON} for name in topology.workers]
    return {"goal": work.compiled.spec.title, "briefs": briefs, "exit_criteria": ["One of the peers has answered."]}


PASSES_ON = "The request is yours now. Answer it if it is yours to answer; else hand it over by the tool transfer, with a brief."
