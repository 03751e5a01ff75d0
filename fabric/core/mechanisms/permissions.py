"""The request that policies judge for a proposal: principal, action, resource, context
(docs/specification/stages.md; docs/specification/protections.md).

The principal is the agent, or the engine where no agent acts. The context has facts of the run, and the proposed
arguments or output as JSON. A retry of a call under its key is not judged again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from fabric.core.mechanisms.contract import Proposal, View
from fabric.core.state.evaluators import PolicyRequest, Ruling
from fabric.core.values.flow import Stage
from fabric.core.values.units import JSON

ENGINE = ("Engine", "engine")
CONTEXT = ("tier", "stage", "epoch", "depth", "workspace", "fabric")
"""Names that every context has."""


def _agent(name: str) -> tuple[str, str]:
    return ("Agent", name) if name else ENGINE


def _build_context(view: View, stage: Stage) -> dict[str, JSON]:
    run = view.run
    named = {"tier": str(run.tier), "stage": str(stage), "epoch": run.epoch, "depth": run.depth}
    return {**named, "workspace": view.workspace, "fabric": view.spec.name}


def _tool(proposal: Proposal, view: View) -> Iterator[PolicyRequest]:
    if proposal.args is not None:
        context = {**_build_context(view, proposal.stage), "args": proposal.args}
        yield PolicyRequest("tool", _agent(proposal.agent), ("Tool", proposal.target), context)


def _handoff(proposal: Proposal, view: View) -> Iterator[PolicyRequest]:
    yield PolicyRequest(
        "handoff", _agent(proposal.agent), ("Agent", proposal.target), _build_context(view, proposal.stage)
    )


def _spawn(proposal: Proposal, view: View) -> Iterator[PolicyRequest]:
    planner = _agent(view.spec.topology.planner or "")
    context = {**_build_context(view, proposal.stage), "branches": proposal.branches}
    for name in proposal.agents:
        yield PolicyRequest("spawn", planner, ("Agent", name), context)


def _output(proposal: Proposal, view: View) -> Iterator[PolicyRequest]:
    said = proposal.said if proposal.stage is Stage.FAN_OUT else (proposal.payload,)
    for one in said:
        context = {**_build_context(view, proposal.stage), "payload": one}
        yield PolicyRequest("output", _agent(proposal.agent), ("Stage", str(proposal.stage)), context)


ACTIONS: Mapping[str, Callable[[Proposal, View], Iterator[PolicyRequest]]] = {
    "tool": _tool,
    "handoff": _handoff,
    "spawn": _spawn,
    "output": _output,
}
"""Request builders by kind of proposal. Policies judge the answers of a fan-out branch by branch; the engine makes
the list of parts.
"""
ENTER = "enter"
NAMED: Mapping[str, tuple[str, ...]] = {
    "tool": ("args",),
    "handoff": (),
    "spawn": ("branches",),
    "output": ("payload",),
    ENTER: (),
}
"""Every action, with the names that its context has besides ``CONTEXT``."""


def judge_call(proposal: Proposal, view: View) -> Ruling | None:
    """Return the first denial, or the permission; None where no policy applies."""
    ask = ACTIONS.get(proposal.kind)
    if view.evaluators.rules is None or ask is None:
        return None
    return _rule_all(view, ask(proposal, view))


def judge_entry(stage: Stage, agents: Iterable[str], view: View) -> Ruling | None:
    """Return the policies' ruling on agents that enter a stage; on the engine for a stage without an agent. None: no
    policies.
    """
    if view.evaluators.rules is None:
        return None
    named = tuple(dict.fromkeys(agents)) or ("",)
    about = _build_context(view, stage)
    return _rule_all(view, (PolicyRequest(ENTER, _agent(name), ("Stage", str(stage)), about) for name in named))


def _rule_all(view: View, asked: Iterable[PolicyRequest]) -> Ruling | None:
    rules = view.evaluators.rules
    assert rules is not None  # both callers have looked
    policies: dict[str, None] = {}
    some = False
    for one in asked:
        some = True
        found = rules(one)
        if found.why:
            return found
        policies.update(dict.fromkeys(found.policies))
    return Ruling(policies=tuple(policies)) if some else None
