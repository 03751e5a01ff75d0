"""Publication: what can be seen beforehand never to happen, or not in time: conditions that never hold or loop too often, workers to whom nobody gives anything.

They are no problem of a revision that was published before: it goes on running, and fails as it did.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from fabric.core.spec import FabricSpec
from fabric.services.fabric_yaml import Problem

LONG_MAX = 10
"""Conditions of one stage, or of the oracle, that may take as long as their deadline (``adapters/expressions.py``)."""
MOST = f"at most {LONG_MAX}, so join some with &&"
ASKING = ("args", "agent", "stage", "run")
"""What a rule of a tool may name."""
NEVER = "is false whatever it is asked about, so that every run would fail; say what has to hold"
NEVER_ASKED = "is false whatever is called, so that nobody is ever asked; leave it out, or say when"


class _Expression(NamedTuple):
    path: str
    named: str
    text: str
    known: tuple[str, ...]
    never: str
    together: str
    """What it is asked together with, in one go: a stage, the oracle, or nothing but itself."""


def holding(spec: FabricSpec) -> Iterator[Problem]:
    """Invariants, checks of the oracle and rules of tools that are false without reading anything, or may take too long."""
    if not (spec.gates.invariants or spec.gates.oracle or spec.asking):
        return
    from fabric.adapters import expression_costs, invariants

    long = Counter[str]()
    for one in _expressions(spec):
        long[one.together] += expression_costs.may_take_long(one.text)
        if long[one.together] == LONG_MAX + 1:
            yield Problem(
                one.path, f"{one.named} is one too many of those that go through lists for {one.together}; {MOST}"
            )
        if costly := expression_costs.too_costly(one.text):
            yield Problem(one.path, f"{one.named} {costly}")
        elif invariants.never_holds(one.text, one.known):
            yield Problem(one.path, f"{one.named} {one.never}")


def _expressions(spec: FabricSpec) -> Iterator[_Expression]:
    from fabric.adapters import invariants

    for n, one in enumerate(spec.gates.invariants or ()):
        path, named = f"gates.invariants.{n}.expression", f"invariant {one.name!r}"
        yield _Expression(path, named, one.expression, invariants.KNOWN, NEVER, one.stage)
    for n, check in enumerate(spec.gates.oracle or ()):
        if check.expression is not None:
            path, named = f"gates.oracle.{n}.expression", f"check {check.name!r}"
            yield _Expression(path, named, check.expression, invariants.named_by(check), NEVER, "the oracle")
    for n, tool in enumerate(spec.tools):
        if tool.approve_when is not None:
            path, named = f"tools.{n}.approve_when", f"the rule of tool {tool.name!r}"
            yield _Expression(path, named, tool.approve_when, ASKING, NEVER_ASKED, path)


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
