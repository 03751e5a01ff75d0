"""Publication rules for paths that a run never reaches, or not in time. Conditions never hold or loop too often;
workers have no work.

They are no problem of a revision that is already published: it goes on running, and fails as before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from fabric.core.spec.fabric import FabricSpec
from fabric.services.fabrics.yaml.document import FabricProblem

LONG_MAX = 10
"""Largest number of conditions of one stage, or of the oracle, that may last until their deadline
(``policies/expressions/evaluation.py``).
"""
MOST = f"at most {LONG_MAX}, so join some with &&"
ASKING = ("args", "agent", "stage", "run")
"""Names that a rule of a tool may use."""
NEVER = "is always false, so every run would fail; write the condition that must be true"
NEVER_ASKED = "is always false, so no call would need a review; leave it out, or write the condition"


class _Expression(NamedTuple):
    path: str
    named: str
    text: str
    known: tuple[str, ...]
    never: str
    together: str
    """Group that is evaluated in one go with this expression: a stage, the oracle, or the expression alone."""


def find_false_conditions(spec: FabricSpec) -> Iterator[FabricProblem]:
    """Yield a problem for each condition of a fabric that is always false, or may take too long."""
    if not (spec.gates.invariants or spec.gates.oracle or spec.asking_rules):
        return
    from fabric.policies.expressions import evaluation as expression_costs
    from fabric.policies.expressions import invariants

    long = Counter[str]()
    for one in _expressions(spec):
        long[one.together] += expression_costs.may_take_long(one.text)
        if long[one.together] == LONG_MAX + 1:
            yield FabricProblem(
                one.path, f"{one.named} is one too many of those that go through lists for {one.together}; {MOST}"
            )
        if costly := expression_costs.too_costly(one.text):
            yield FabricProblem(one.path, f"{one.named} {costly}")
        elif invariants.never_holds(one.text, one.known):
            yield FabricProblem(one.path, f"{one.named} {one.never}")


def _expressions(spec: FabricSpec) -> Iterator[_Expression]:
    from fabric.policies.expressions import invariants

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


def find_missing_briefs(spec: FabricSpec) -> Iterator[FabricProblem]:
    """Yield a problem for each worker without a brief in a fixed plan. An agent that takes over the run may still make
    another plan.
    """
    plan = spec.topology.plan
    if plan is None or spec.topology.handover is not None:
        return
    named = {brief.agent for brief in plan.briefs}
    for n, name in enumerate(spec.topology.workers):
        if name not in named:
            yield FabricProblem(
                f"topology.workers.{n}", f"no brief of the fixed plan is for {name!r}, so it never works"
            )
