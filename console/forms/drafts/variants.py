"""Turns groups into another form or another kind: the fields that each has, and its first values.

A button ``turn gates.oracle.0=critic`` gives a group another form: its own fields begin, those of the other forms go.
Of a group that becomes of another kind, by its field ``kind``, the fields that the new kind lacks go too. Those that it
needs begin as ``BEGINS`` says, or as small as possible. Other values take further ones with them, as ``FOLLOWS`` says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from console.forms.controls.fields import MISSING, at
from console.forms.controls.kinds import SEVERAL
from console.forms.controls.schemas import properties_of, required_of
from console.forms.drafts.beginnings import smallest
from console.forms.drafts.fields import named_in, names_at
from console.forms.drafts.places import REFERS
from console.forms.drafts.shape import kinds_at, place_of, shape_of
from fabric.core.values.units import JSON
from fabric.services.fabrics.yaml.edits import DropEdit, Edit, PutEdit
from fabric.services.fabrics.yaml.tree import Path


@dataclass(frozen=True, slots=True)
class Form:
    """One form of a group."""

    label: str
    mark: str
    """The field by which it is known."""
    fields: tuple[str, ...]
    """The fields that may stand beside it; fields of other forms may not."""
    begins: Callable[[JSON, JSON], dict[str, JSON]]
    """From the draft and the group: the fields that it begins with, where they are not there yet."""


def in_role(tree: JSON) -> Mapping[str, tuple[str, ...]]:
    """The places that name each agent, as paths with the position of lists: ``{"ana": ("topology.workers.0",)}``."""
    found: dict[str, list[str]] = {}
    for place, listed in REFERS.items():
        if (
            listed == "agents"
            and place.startswith(("topology.", "gates."))
            and not {"plan", "**"} & {*place.split(".")}
        ):
            for path, name in names_at(tree, place.split(".")):
                found.setdefault(name, []).append(".".join(map(str, path)))
    return {name: tuple(paths) for name, paths in found.items()}


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
    edits: list[Edit] = [PutEdit((*path, field), value) for field, value in begun.items()]
    return [*edits, *(DropEdit((*path, field)) for field in sorted(others & set(written)))]


# -- values that take another one with them --------------------------------------------------------------------------


def _quorum(tree: JSON) -> list[Edit]:
    """A quorum says of how many; nothing else does."""
    workers, given = at(tree, "topology.workers"), at(tree, "policy.fan_in.k")
    if at(tree, "policy.fan_in.mode") == "quorum":
        most = len(workers) // 2 + 1 if isinstance(workers, list) and workers else 1
        return [PutEdit(("policy", "fan_in", "k"), most)] if given in (MISSING, None) else []
    return [] if given is MISSING else [DropEdit(("policy", "fan_in", "k"))]


FOLLOWS: Mapping[str, Callable[[JSON], list[Edit]]] = {"policy.fan_in.mode": _quorum}
"""The further edits that follow when this path has changed."""


TEAMS = "topology.teams.*.topology"


def followed(tree: JSON, path: Path) -> list[Edit]:
    """Return the edits that follow after the ``kind`` of the group at a path has changed. ``tree``: with
    the new kind.
    """
    dotted = ".".join(map(str, path))
    group, schemas = at(tree, dotted), kinds_at(dotted)
    schema = schemas.get(str(group.get("kind"))) if isinstance(group, dict) else None
    if schema is None:
        return []
    kind = str(group["kind"])
    fields, required = properties_of(schema), required_of(schema)
    needed = [name for name in fields if name in required and name not in group]
    begun = BEGINS.get((_place(dotted), kind), _nothing)(tree, group)
    edits: list[Edit] = [
        PutEdit((*path, name), value) for name, value in begun.items() if name in needed or name not in group
    ]
    edits += [PutEdit((*path, name), _least(tree, f"{dotted}.{name}")) for name in needed if name not in begun]
    gone = [name for name in group if name not in fields or name in LEFT_OUT.get((place_of(dotted), kind), ())]
    return [*edits, *(DropEdit((*path, name)) for name in gone)]


def _place(dotted: str) -> str:
    """The place of a group; of a condition within others that of the outermost."""
    around, when, _ = place_of(dotted).partition(".when.")
    return f"{around}{when[:-1]}"


def _least(tree: JSON, path: str) -> JSON:
    """Return as little as a place may have: the first name that it may refer to, or an empty value."""
    shape = shape_of(path)
    if shape is None:
        return ""
    if shape.refers:
        names = named_in(tree, shape.refers)
        return list(names[:1]) if shape.kind in SEVERAL else next(iter(names), "")
    return smallest(shape)


def _nothing(tree: JSON, group: JSON) -> dict[str, JSON]:
    return {}


def _supervisor(tree: JSON, group: JSON) -> dict[str, JSON]:
    """A fixed plan, of the procedure that there was, else a share for each worker."""
    if group.get("planner") or group.get("plan"):
        return {}
    briefs = [
        {name: one[name] for name in ("agent", "title", "instructions") if name in one} for one in _procedure(group)
    ]
    plan = planned(group)
    return {"plan": {**plan, "briefs": briefs} if briefs else plan}


def _sop(tree: JSON, group: JSON) -> dict[str, JSON]:
    """The briefs of the plan that there was as items, else an item for each worker."""
    plan = group.get("plan")
    briefs = plan.get("briefs") if isinstance(plan, dict) else None
    listed = briefs if isinstance(briefs, list) and briefs else planned(group)["briefs"]
    items = [one for one in listed if isinstance(one, dict)]
    kept = ("agent", "title", "instructions")
    return {"procedure": [{name: one[name] for name in kept if name in one} for one in items]}


def _hierarchical(tree: JSON, group: JSON) -> dict[str, JSON]:
    """Planned as a supervisor; the first worker leads the others that there are."""
    workers = group.get("workers")
    first = next((one for one in (workers if isinstance(workers, list) else []) if isinstance(one, str)), None)
    return _supervisor(tree, group) | ({} if first is None else {"teams": {first: team_of(tree, first)}})


def team_of(tree: JSON, lead: str) -> JSON:
    """Return a new team: agents that have no role yet, else the others, with a share of the brief each."""
    others = [name for name in idle(tree) or named_in(tree, "agents") if name != lead]
    inner = {"workers": others[:1]}
    return {"topology": {**inner, "plan": planned(inner)}}


def _procedure(group: JSON) -> Iterator[dict[str, JSON]]:
    listed = group.get("procedure")
    yield from (one for one in (listed if isinstance(listed, list) else []) if isinstance(one, dict))


def _conditions(tree: JSON, group: JSON) -> dict[str, JSON]:
    return {"conditions": [{"kind": "always"}]}


def _condition(tree: JSON, group: JSON) -> dict[str, JSON]:
    return {"condition": {"kind": "always"}}


def _graph(tree: JSON, group: JSON) -> dict[str, JSON]:
    """The workers one after the other, once round."""
    workers = group.get("workers")
    named = [one for one in workers if isinstance(one, str)] if isinstance(workers, list) else []
    rules = [
        {"when": {"kind": "from_speaker", "agent": one}, "then": {"kind": "agent", "agent": other}}
        for one, other in pairwise(named)
    ]
    ends = (
        [{"when": {"kind": "from_speaker", "agent": named[-1]}, "then": {"kind": "terminate", "reason": "done"}}]
        if named
        else []
    )
    return {"initial_speaker": named[0] if named else "", "transitions": [*rules, *ends]}


_WHEN = ("topology.transitions.*.when", f"{TEAMS}.transitions.*.when")
Begins = Callable[[JSON, JSON], dict[str, JSON]]
BEGINS: Mapping[tuple[str, str], Begins] = {
    ("topology", "supervisor"): _supervisor,
    ("topology", "sop"): _sop,
    ("topology", "hierarchical"): _hierarchical,
    (TEAMS, "supervisor"): _supervisor,
    (TEAMS, "sop"): _sop,
    (TEAMS, "graph"): _graph,
    ("topology", "graph"): _graph,
    **{(place, kind): _conditions for place in _WHEN for kind in ("all_of", "any_of")},
    **{(place, "not"): _condition for place in _WHEN},
}
"""From the draft and the group as it was: the fields that a kind begins with, by place and kind."""
LEFT_OUT: Mapping[tuple[str, str], tuple[str, ...]] = {
    (place, kind): ("planner", "plan", "plan_critic") for place in ("topology", TEAMS) for kind in ("sop", "debate")
}
"""Fields that a kind has and may not use."""
