"""Goal gates: requires results of certain nodes before a run may exit (S1 "Goal gates";
docs/specification/protections.md).

Stops: a run that would be called completed although a goal node brought nothing, where the fan-in policy allows that.
A goal node is a stage, or a worker by its agent's name, in any run of the family. It is met when it ended in success
or partial success. So the stage was passed, or at least one of the worker's branches has a result, or a gap that its
fabric accepts (``allow_partial``). Off unless the policy names nodes.
Does not stop: a goal that was met badly (the gates and the critic do).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fabric.core.mechanisms.contract import Proposal, ProposalKind, Scope, View
from fabric.core.spec.policies.limits import GoalGates as Config
from fabric.core.values.flow import Stage
from fabric.core.values.frozen import value
from fabric.core.values.taxonomy import PASS, Cause, Evidence, FailureClass, Trip, Verdict

if TYPE_CHECKING:
    from fabric.core.events.envelope import Event
    from fabric.core.spec.policies.flow_policy import FlowPolicy

NAME = "goal_gate"
TITLE = "Goal gates"
STOPS = "a run that ends before its goals are met"
PAGE = "docs/specification/stages.md"
CLASSES = (FailureClass.SPECIFICATION, FailureClass.VERIFICATION)
SETTINGS: tuple[str, ...] = ("goal_gates",)
UNCOUNTED = "judged once, before the run may exit"
SCOPE = Scope.RUN
APPLIES_TO: frozenset[ProposalKind] = frozenset({"exit"})
OBSERVES: frozenset[str] = frozenset()


@value()
class State:
    """No state: the outcome of the nodes is in the fan-out's parts and the run's stages."""


def config(policy: FlowPolicy) -> Config:
    """Return this mechanism's part of the policy."""
    return policy.goal_gates


def observe(state: State, event: Event) -> State:
    """Return the state unchanged."""
    return state


def check(config: Config, state: State, proposal: Proposal, view: View) -> Verdict:
    """Trip when a node ended without any success. ``proposal.payload``: the parts of the fan-out."""
    here = [node for node in config.nodes if node in tuple(Stage) or node in view.spec.topology.workers]
    problems = [problem for node in here if (problem := _unmet(node, proposal, view))]
    if not problems:
        return PASS
    nodes = len(here)
    details: dict[str, Any] = {"problems": problems}
    evidence = Evidence(nodes, nodes - len(problems), "goals", "run", details=details)
    return Trip(NAME, Cause.GOAL_UNMET, evidence, f"a goal was not reached: {'; '.join(problems[:3])}")


def _unmet(node: str, proposal: Proposal, view: View) -> str:
    """Return why a goal node does not let the run exit; "" if it does."""
    if node in tuple(Stage):
        reached = view.run.stages.get(Stage(node))
        passed = node == proposal.stage or (reached is not None and reached.left)
        return "" if passed else f"stage {node} was not passed"
    parts = [part for part in proposal.payload or () if part["agent"] == node]
    if any(not part["gap"] or part.get("accepted") for part in parts):
        return ""
    return f"{node} brought no result ({parts[0]['gap']})" if parts else f"{node} was given no part of the plan"
