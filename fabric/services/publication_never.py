"""Publication: what can be seen beforehand never to happen: conditions that never hold, workers to whom nobody gives anything.

They are no problem of a revision that was published before: it goes on running, and fails as it did.
"""

from __future__ import annotations

from collections.abc import Iterator

from fabric.core.spec import FabricSpec
from fabric.services.fabric_yaml import Problem

ASKING = ("args", "agent", "stage", "run")
"""What a rule of a tool may name."""
NEVER = "is false whatever it is asked about, so that every run would fail; say what has to hold"


def holding(spec: FabricSpec) -> Iterator[Problem]:
    """Invariants, checks of the oracle and rules of tools that are false without reading anything."""
    if not (spec.gates.invariants or spec.gates.oracle or spec.asking):
        return
    from fabric.adapters import invariants

    for n, one in enumerate(spec.gates.invariants or ()):
        if invariants.never_holds(one.expression, invariants.KNOWN):
            yield Problem(f"gates.invariants.{n}.expression", f"invariant {one.name!r} {NEVER}")
    for n, check in enumerate(spec.gates.oracle or ()):
        if check.expression is not None and invariants.never_holds(check.expression, invariants.named_by(check)):
            yield Problem(f"gates.oracle.{n}.expression", f"check {check.name!r} {NEVER}")
    for n, tool in enumerate(spec.tools):
        if tool.approve_when is not None and invariants.never_holds(tool.approve_when, ASKING):
            said = "is false whatever is called, so that nobody is ever asked; leave it out, or say when"
            yield Problem(f"tools.{n}.approve_when", f"the rule of tool {tool.name!r} {said}")


def briefed(spec: FabricSpec) -> Iterator[Problem]:
    """Workers of whom a fixed plan says nothing; who stands above the others may still make another plan."""
    plan = spec.topology.plan
    if plan is None or spec.topology.handover is not None:
        return
    named = {brief.agent for brief in plan.briefs}
    for n, name in enumerate(spec.topology.workers):
        if name not in named:
            yield Problem(
                f"topology.workers.{n}", f"no brief of the fixed plan is for {name!r}, so nobody can reach it"
            )
