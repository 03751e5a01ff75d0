"""Hierarchical: a supervisor whose workers may lead teams. Of each level it is the supervisor's; a team is a run of its own (``children.py``, semantics.md 5)."""

from __future__ import annotations

from fabric.core.topologies.supervisor import begins, concluded, joined, plan

__all__ = ["begins", "concluded", "joined", "plan"]
