"""Groups that can be of one form or another: which fields each has, and what it begins with. And values that take another one with them.

A button ``turn gates.oracle.0=critic`` gives a group another form: its own fields begin, those of the other forms go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from console.configure.fields import at, named_in
from console.configure.places import REFERS
from console.configure.shape import MISSING, place_of
from fabric.services.yaml_edit import Drop, Edit, Put
from fabric.services.yaml_tree import Path

JSON = Any


@dataclass(frozen=True, slots=True)
class Form:
    """One form of a group."""

    label: str
    mark: str
    """The field by which it is known."""
    fields: tuple[str, ...]
    """What may stand beside it; the fields of other forms may not."""
    begins: Callable[[JSON, JSON], dict[str, JSON]]
    """From the draft and the group: the fields that it begins with, where they are not there yet."""


def in_role(tree: JSON) -> Mapping[str, tuple[str, ...]]:
    """The places that name each agent, as paths with the position of lists: ``{"ana": ("topology.workers.0",)}``."""
    found: dict[str, list[str]] = {}
    for place, listed in REFERS.items():
        if listed == "agents" and place.startswith(("topology.", "gates.")) and ".plan." not in place:
            for path, name in _named(tree, place.split("."), ""):
                found.setdefault(name, []).append(path)
    return {name: tuple(paths) for name, paths in found.items()}


def _named(tree: JSON, place: list[str], path: str) -> Iterator[tuple[str, str]]:
    if not place:
        if isinstance(tree, list):
            yield from ((f"{path}.{n}", one) for n, one in enumerate(tree) if isinstance(one, str))
        elif isinstance(tree, str):
            yield path, tree
    elif place[0] == "*" and isinstance(tree, list):
        for n, item in enumerate(tree):
            yield from _named(item, place[1:], f"{path}.{n}")
    elif place[0] == "*" and isinstance(tree, dict):
        for key, item in tree.items():
            yield from _named(item, place[1:], f"{path}.{key}")
    elif isinstance(tree, dict) and place[0] in tree:
        yield from _named(tree[place[0]], place[1:], f"{path}.{place[0]}" if path else place[0])


def idle(tree: JSON) -> tuple[str, ...]:
    """The agents that have no role."""
    busy = in_role(tree)
    return tuple(name for name in dict.fromkeys(named_in(tree, "agents")) if name not in busy)


def _free_agent(tree: JSON) -> str:
    """An agent that has no role, else one that does not work, else any."""
    names = named_in(tree, "agents")
    workers = at(tree, "topology.workers")
    others = [one for one in names if not (isinstance(workers, list) and one in workers)]
    return next(iter((*idle(tree), *others, *names)), "")


def _planner(tree: JSON, group: JSON) -> dict[str, JSON]:
    return {"planner": _free_agent(tree)}


def _plan(tree: JSON, group: JSON) -> dict[str, JSON]:
    return {"plan": planned(group)}


def planned(group: JSON) -> dict[str, JSON]:
    """A fixed plan with a share for each worker of a topology."""
    workers = group.get("workers") if isinstance(group, dict) else None
    named = [one for one in workers if isinstance(one, str)] if isinstance(workers, list) else []
    briefs = [
        {"agent": one, "title": f"Share of {one}", "instructions": "Do your share of the request."} for one in named
    ]
    return {"goal": "Answer the request.", "briefs": briefs, "exit_criteria": ["It answers the request."]}


def _expression(tree: JSON, group: JSON) -> dict[str, JSON]:
    return {"expression": "size(outcome.text) > 0"}


def _tool(tree: JSON, group: JSON) -> dict[str, JSON]:
    tools = at(tree, "tools")
    reading = [
        one["name"]
        for one in (tools if isinstance(tools, list) else [])
        if isinstance(one, dict) and isinstance(one.get("name"), str) and one.get("effect") == "read_only"
    ]
    return {"tool": next(iter((*reading, *named_in(tree, "tools"))), "")}


def _http(tree: JSON, group: JSON) -> dict[str, JSON]:
    return {"http": {"url": "https://checks.example/outcomes/{run.id}"}}


def _critic(tree: JSON, group: JSON) -> dict[str, JSON]:
    return {"critic": _free_agent(tree)}


FORMS: Mapping[str, Mapping[str, Form]] = {
    "topology": {
        "planner": Form("An agent plans each run", "planner", ("planner", "plan_critic"), _planner),
        "plan": Form("One plan for all runs", "plan", ("plan",), _plan),
    },
    "gates.oracle.*": {
        "expression": Form("Expression", "expression", ("expression",), _expression),
        "tool": Form("Tool", "tool", ("tool", "arguments", "expression"), _tool),
        "http": Form("Address", "http", ("http", "expression"), _http),
        "critic": Form("Critic", "critic", ("critic",), _critic),
    },
}
"""By place, then by name."""


def form_at(tree: JSON, path: str) -> str:
    """The form that a group has: the last of its place's that it bears the mark of, else the first."""
    forms, group = FORMS[place_of(path)], at(tree, path)
    borne = [name for name, form in forms.items() if isinstance(group, dict) and group.get(form.mark) is not None]
    return borne[-1] if borne else next(iter(forms))


def turned(tree: JSON, path: Path, name: str) -> list[Edit]:
    """The edits that give a group another form. KeyError: its place has no such form."""
    dotted = ".".join(map(str, path))
    forms, group = FORMS[place_of(dotted)], at(tree, dotted)
    form, written = forms[name], group if isinstance(group, dict) else {}
    others = {field for other in forms.values() for field in (other.mark, *other.fields)} - set(form.fields)
    begun = form.begins(tree, group) if written.get(form.mark) is None else {}
    edits: list[Edit] = [Put((*path, field), value) for field, value in begun.items()]
    return [*edits, *(Drop((*path, field)) for field in sorted(others & set(written)))]


# -- values that take another one with them --------------------------------------------------------------------------


def _quorum(tree: JSON) -> list[Edit]:
    """A quorum says of how many; nothing else does."""
    workers, given = at(tree, "topology.workers"), at(tree, "policy.fan_in.k")
    if at(tree, "policy.fan_in.mode") == "quorum":
        most = len(workers) // 2 + 1 if isinstance(workers, list) and workers else 1
        return [Put(("policy", "fan_in", "k"), most)] if given in (MISSING, None) else []
    return [] if given is MISSING else [Drop(("policy", "fan_in", "k"))]


FOLLOWS: Mapping[str, Callable[[JSON], list[Edit]]] = {"policy.fan_in.mode": _quorum}
"""What else changes in a draft in which this path has just been changed."""
