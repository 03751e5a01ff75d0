"""What policies are asked about a proposed thing: principal, action, resource, context (semantics.md 1, 9; docs/semantics.md 10).

The principal is the agent, or the engine where no agent does it; the context is facts of the run, and what is to be done or said as JSON. What was asked
before (a retry of the same call under the same key) is not asked again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from fabric.core.evaluators import Asked, Ruling
from fabric.core.flow import Stage
from fabric.core.mechanisms.contract import Proposal, View

JSON = Any
ENGINE = ("Engine", "engine")
CONTEXT = ("tier", "stage", "epoch", "depth", "workspace", "fabric")
"""What every context holds."""


def _agent(name: str) -> tuple[str, str]:
    return ("Agent", name) if name else ENGINE


def _about(view: View, stage: Stage) -> dict[str, JSON]:
    run = view.run
    named = {"tier": str(run.tier), "stage": str(stage), "epoch": run.epoch, "depth": run.depth}
    return {**named, "workspace": view.workspace, "fabric": view.spec.name}


def _tool(proposal: Proposal, view: View) -> Iterator[Asked]:
    if proposal.args is not None:
        context = {**_about(view, proposal.stage), "args": proposal.args}
        yield Asked("tool", _agent(proposal.agent), ("Tool", proposal.target), context)


def _handoff(proposal: Proposal, view: View) -> Iterator[Asked]:
    yield Asked("handoff", _agent(proposal.agent), ("Agent", proposal.target), _about(view, proposal.stage))


def _spawn(proposal: Proposal, view: View) -> Iterator[Asked]:
    planner = _agent(view.spec.topology.planner or "")
    context = {**_about(view, proposal.stage), "branches": proposal.branches}
    for name in proposal.agents:
        yield Asked("spawn", planner, ("Agent", name), context)


def _output(proposal: Proposal, view: View) -> Iterator[Asked]:
    said = proposal.said if proposal.stage is Stage.FAN_OUT else (proposal.payload,)
    for one in said:
        context = {**_about(view, proposal.stage), "payload": one}
        yield Asked("output", _agent(proposal.agent), ("Stage", str(proposal.stage)), context)


ACTIONS: Mapping[str, Callable[[Proposal, View], Iterator[Asked]]] = {
    "tool": _tool,
    "handoff": _handoff,
    "spawn": _spawn,
    "output": _output,
}
"""By kind of proposal. What an agent of a fan-out said is put before policies branch by branch; its list of parts is the engine's own."""
ENTER = "enter"
NAMED: Mapping[str, tuple[str, ...]] = {
    "tool": ("args",),
    "handoff": (),
    "spawn": ("branches",),
    "output": ("payload",),
    ENTER: (),
}
"""Every action, and what its context holds beside ``CONTEXT``."""


def ruling(proposal: Proposal, view: View) -> Ruling | None:
    """The first denial, or who permits it; None where nothing is asked."""
    ask = ACTIONS.get(proposal.kind)
    if view.evaluators.rules is None or ask is None:
        return None
    return _ruled(view, ask(proposal, view))


def entering(stage: Stage, agents: Iterable[str], view: View) -> Ruling | None:
    """Whether those agents may work in a stage; of one without an agent, whether the engine may."""
    if view.evaluators.rules is None:
        return None
    named = tuple(dict.fromkeys(agents)) or ("",)
    about = _about(view, stage)
    return _ruled(view, (Asked(ENTER, _agent(name), ("Stage", str(stage)), about) for name in named))


def _ruled(view: View, asked: Iterable[Asked]) -> Ruling | None:
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
