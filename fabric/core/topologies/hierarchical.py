"""Hierarchical: a supervisor whose workers may lead teams. Each level works like a supervisor; a team is a child run
(``core/child_runs/children.py``, docs/specification/topologies.md).
"""

from __future__ import annotations

from fabric.core.topologies.supervisor import begins, conclude_fan_out, join_outputs, plan

__all__ = ["begins", "conclude_fan_out", "join_outputs", "plan"]
