"""The agents work together in roles: a list of them beside the picture that is drawn from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from console.editor.draft import Editing
from console.editor.parts import graph as part_graph
from console.editor.parts import handoff as part_handoff
from console.editor.parts.teams import teams
from console.editor.picture import drawn
from console.forms.controls.fields import MISSING, EditField, at
from console.forms.drafts.places import KIND_WORDS
from console.forms.drafts.variants import FORMS, form_at, idle
from console.templatetags.marks import EFFECTS
from fabric.core.schema.topology import DEFAULT_KIND
from fabric.core.values.units import JSON


@dataclass(frozen=True, slots=True)
class Role:
    """A role, with the agent that has it, or none."""

    field: EditField
    title: str
    trial: str = ""
    """The path that it can be tried by; empty: there is nothing to try."""


@dataclass(frozen=True, slots=True)
class Worker:
    """One worker, as a row."""

    path: str
    name: str
    about: str
    """Its model, and its tools."""
    findings: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class BriefForm:
    """One brief of a fixed plan."""

    path: str
    number: int
    agent: EditField
    title: EditField
    instructions: EditField


@dataclass(frozen=True, slots=True)
class Offer:
    """A role that an idle agent can be given: the button's value and its words."""

    value: str
    words: str


PLANNING = (("planner", "Planner", ""), ("plan_critic", "Plan critic", "topology.plan_critic"))
ROLES = (
    ("aggregator", "Aggregator", ""),
    ("critic", "Critic", "topology.critic"),
    ("finalizer", "Finalizer", ""),
    ("handover", "Handover", ""),
)
"""Field, title, and what it can be tried by. The workers have a list of their own."""


def build(editing: Editing) -> dict[str, Any]:
    """The roles, the plan where there is one, the fan-in, the goals, idle agents and the picture."""
    form = form_at(editing.tree, "topology")
    planned = editing.at("topology.plan") not in (MISSING, None)
    named = any(editing.at(f"topology.{field}") not in (MISSING, None) for field, *_ in PLANNING)
    kind = editing.field("topology.kind", **KIND_WORDS)
    written = kind.text or DEFAULT_KIND
    own = OWN.get(written)
    return {
        "form": form if planned or named or written == DEFAULT_KIND else "",
        "forms": [] if written in UNPLANNED else [(name, one.label) for name, one in FORMS["topology"].items()],
        "planning": _roles(editing, PLANNING) if written not in UNPLANNED and (named or not planned) else [],
        "plan": _plan(editing) if planned else None,
        "workers": editing.field("topology.workers"),
        "rows": _workers(editing),
        "roles": _roles(editing, ROLES),
        "kind": kind,
        "written": written,
        "own": own(editing) if own is not None else None,
        "about": editing.about("topology"),
        "fan_in": [] if written in WITHOUT_POLICY else _fan_in(editing),
        "goals": editing.fields("policy.goal_gates", "nodes", "retry"),
        "idle": [(name, _offers(editing, name)) for name in idle(editing.tree)],
        "drawn": drawn(editing.tree, editing.spec),
        "effects": EFFECTS.items(),
        "kept": {"tried": editing.trial.path if editing.trial else ""},
    }


def _roles(editing: Editing, which: tuple[tuple[str, str, str], ...]) -> list[Role]:
    found = []
    for name, title, trial in which:
        field = editing.field(f"topology.{name}")
        found.append(Role(field, title, trial if field.text else ""))
    return found


def _plan(editing: Editing) -> dict[str, Any]:
    briefs = [
        BriefForm(path, n + 1, *editing.fields(path, "agent", "title", "instructions"))
        for n in range(editing.count("topology.plan.briefs"))
        for path in (f"topology.plan.briefs.{n}",)
    ]
    return {
        "goal": editing.field("topology.plan.goal"),
        "exit_criteria": editing.field("topology.plan.exit_criteria"),
        "briefs": briefs,
        "about": (*editing.about("topology.plan"), *editing.about("topology.plan.briefs")),
    }


def _workers(editing: Editing) -> list[Worker]:
    picked = editing.field("topology.workers").picked
    return [
        Worker(path, name, _about(editing.tree, name), editing.about(path))
        for n, name in enumerate(picked)
        for path in (f"topology.workers.{n}",)
    ]


def _about(tree: JSON, name: str) -> str:
    agents = at(tree, "agents")
    listed = agents if isinstance(agents, list) else []
    agent = next((one for one in listed if isinstance(one, dict) and one.get("name") == name), None)
    if agent is None:
        return "no agent is called so"
    tools = agent.get("tools")
    named = ", ".join(str(one) for one in tools) if isinstance(tools, list) and tools else "no tools"
    return f"{agent.get('model') or 'no model'} · {named}"


@dataclass(frozen=True, slots=True)
class DutyForm:
    """One item of a procedure."""

    path: str
    number: int
    fields: tuple[EditField, ...]


def _procedure(editing: Editing) -> dict[str, Any]:
    place = "topology.procedure"
    items = [
        DutyForm(path, n + 1, tuple(editing.fields(path, "agent", "title", "reads", "instructions")))
        for n in range(editing.count(place))
        for path in (f"{place}.{n}",)
    ]
    return {"items": items, "about": editing.about(place)}


def _debate(editing: Editing) -> dict[str, Any]:
    return {"fields": editing.fields("topology", "rounds", "critics", "judge")}


OWN: Mapping[str, Callable[[Editing], dict[str, Any]]] = {
    "sop": _procedure,
    "graph": part_graph.build,
    "handoff": part_handoff.build,
    "hierarchical": teams,
    "debate": _debate,
}
"""The further parts of a kind of topology beside its roles; its template is named after it."""
OWN_ROLES: Mapping[str, tuple[tuple[str, str], ...]] = {"debate": (("judge", "Judge"),)}
"""Roles that a kind of topology alone has: field and title."""
WITHOUT_POLICY = frozenset({"sop"})
"""Kinds in which the fan-in policy has no say."""
UNPLANNED = frozenset({"sop", "debate"})
"""The kinds whose runs have no plan."""


def _fan_in(editing: Editing) -> list[EditField]:
    mode, k = editing.fields("policy.fan_in", "mode", "k")
    return [mode, k] if mode.text == "quorum" or k.given is not MISSING or k.findings else [mode]


def _offers(editing: Editing, name: str) -> list[Offer]:
    """Yield the roles that no agent has yet, and one more worker."""
    kind = editing.field("topology.kind").text or DEFAULT_KIND
    planning = PLANNING if kind not in UNPLANNED and form_at(editing.tree, "topology") == "planner" else ()
    free = [
        Offer(f"set topology.{field}={name}", title)
        for field, title, *_ in (*planning, *OWN_ROLES.get(kind, ()), *ROLES)
        if editing.at(f"topology.{field}") in (MISSING, None)
    ]
    return [Offer(f"append topology.workers={name}", "Worker"), *free]
