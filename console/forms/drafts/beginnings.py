"""A new thing of a list begins with as little as makes it one, under a name of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from console.forms.controls.fields import Shape, at
from console.forms.controls.kinds import CONTROLS
from console.forms.drafts.fields import named_in
from console.forms.drafts.places import TEAM
from console.forms.drafts.shape import place_of, shape_of
from fabric.core.values.units import JSON


def fresh(tree: JSON, path: str) -> JSON:
    """Return a new thing for the list at a path. It is as ``NEW`` has it, or has every required field with its first
    answer.
    """
    made = _always if path.endswith(".conditions") else NEW.get(place_of(path))
    if made is not None:
        new = made(tree)
        return {**new, "name": unused(tree, path, new["name"])} if "name" in new else new
    shape = shape_of(path)
    if shape is None or not shape.fields:
        return ""
    found: dict[str, JSON] = {}
    for name in shape.fields:
        inner = shape_of(f"{path}.0.{name}")
        if inner is not None and inner.required:
            found[name] = smallest(inner)
    return found


def smallest(shape: Shape) -> JSON:
    """Return the smallest value of a place: its first choice, else nothing of its type."""
    first = next(iter(shape.options.values()), "") if shape.kind == "choice" else ""
    return first or CONTROLS[shape.kind].empty()


BEFORE_LAST = frozenset({"decision_table.*.*.rungs", "policy.stages.*.decision_table.*.*.rungs"})
"""Lists whose last thing stays the last: a ladder's end."""


def unused(tree: JSON, listed: str, stem: str) -> str:
    """A name that nothing in a list has: ``agent``, ``agent-2``, ..."""
    items = at(tree, listed)
    names = [one.get("name") for one in items if isinstance(one, dict)] if isinstance(items, list) else []
    return next(name for n in range(1, len(names) + 2) if (name := stem if n == 1 else f"{stem}-{n}") not in names)


def _first(tree: JSON, listed: str) -> str:
    return next(iter(named_in(tree, listed)), "")


def _agent(tree: JSON) -> JSON:
    return {"name": unused(tree, "agents", "agent"), "model": _first(tree, "models"), "instructions": ""}


def _model(tree: JSON) -> JSON:
    return {"name": unused(tree, "models", "model"), "provider": "openai"}


def _tool(tree: JSON) -> JSON:
    return {"name": unused(tree, "tools", "tool"), "kind": "http", "target": "", "description": ""}


def _server(tree: JSON) -> JSON:
    return {"name": unused(tree, "mcp_servers", "server"), "transport": "http", "url": "https://example.org/mcp"}


def _memory(tree: JSON) -> JSON:
    return {"name": unused(tree, "memories", "notes"), "scope": "run"}


def _brief(tree: JSON) -> JSON:
    workers = at(tree, "topology.workers")
    first = workers[0] if isinstance(workers, list) and workers else ""
    return {"agent": first, "title": "Untitled", "instructions": ""}


def _duty(tree: JSON) -> JSON:
    return {**_brief(tree), "title": "A further item"}


def _invariant(tree: JSON) -> JSON:
    return {
        "stage": "finalize",
        "name": unused(tree, "gates.invariants", "invariant"),
        "expression": "size(payload.text) > 0",
        "message": "The answer is empty.",
    }


def _policy(tree: JSON) -> JSON:
    return {"name": unused(tree, "gates.policies", "policy"), "text": "permit (principal, action, resource);"}


def _oracle(tree: JSON) -> JSON:
    return {
        "name": unused(tree, "gates.oracle", "check"),
        "expression": "size(outcome.text) > 0",
        "message": "The answer is empty.",
    }


def _guardrail(tree: JSON) -> JSON:
    return {"rules": ["credentials"]}


def _pattern(tree: JSON) -> JSON:
    return {"name": "pattern", "pattern": "(?i)do not publish"}


def _rung(tree: JSON) -> JSON:
    return {"reaction": "retry", "times": 1}


def _breaker(tree: JSON) -> JSON:
    return {
        "scope": "provider",
        "signals": [{"names": ["server_error", "timeout"], "mode": "consecutive", "threshold": 5}],
    }


def _signal(tree: JSON) -> JSON:
    return {"names": ["rate_limit"], "mode": "consecutive", "threshold": 3}


def _transition(tree: JSON) -> JSON:
    # One that always held would take every turn from what stands behind it, the default target too, until its condition
    # is chosen.
    return {"when": {"kind": "outcome_is", "outcome": "fail"}, "then": {"kind": "terminate", "reason": "done"}}


def _always(tree: JSON) -> JSON:
    return {"kind": "always"}


def _expectation(tree: JSON) -> JSON:
    return {"kind": "turn_within", "seconds": 120, "on_violation": "warn"}


NEW: Mapping[str, Callable[[JSON], JSON]] = {
    "agents": _agent,
    "models": _model,
    "tools": _tool,
    "mcp_servers": _server,
    "memories": _memory,
    "topology.plan.briefs": _brief,
    "topology.procedure": _duty,
    "topology.transitions": _transition,
    "topology.expectations": _expectation,
    f"{TEAM}topology.transitions": _transition,
    f"{TEAM}topology.expectations": _expectation,
    "gates.invariants": _invariant,
    "gates.policies": _policy,
    "gates.oracle": _oracle,
    "gates.guardrails": _guardrail,
    "gates.guardrails.*.patterns": _pattern,
    "decision_table.*.*.rungs": _rung,
    "policy.stages.*.decision_table.*.*.rungs": _rung,
    "policy.breakers": _breaker,
    "policy.breakers.*.signals": _signal,
}
"""The makers of new things, by their list."""
