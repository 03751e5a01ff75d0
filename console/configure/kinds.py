"""Groups that may be of several kinds, told apart by their field ``kind``: what else changes in a draft once that is another.

Fields that the new kind does not have go, with what is written in them; those that it needs begin as ``BEGINS`` says, or as little as may stand there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any

from console.configure.fields import at, named_in
from console.configure.forms import idle, planned
from console.configure.fresh import empty
from console.configure.shape import kinds_at, place_of, shape_of
from fabric.services.yaml_edit import Drop, Edit, Put
from fabric.services.yaml_tree import Path

JSON = Any
TEAM = "topology.teams.*.topology"


def followed(tree: JSON, path: Path) -> list[Edit]:
    """The edits that follow in a draft in which the ``kind`` of the group at a path has just been changed. ``tree``: with the new kind."""
    dotted = ".".join(map(str, path))
    group, models = at(tree, dotted), kinds_at(dotted)
    model = models.get(str(group.get("kind"))) if isinstance(group, dict) else None
    if model is None:
        return []
    kind = str(group["kind"])
    fields = {field.alias or name: field for name, field in model.model_fields.items()}
    needed = [name for name, field in fields.items() if field.is_required() and name not in group]
    begun = BEGINS.get((_place(dotted), kind), _nothing)(tree, group)
    edits: list[Edit] = [
        Put((*path, name), value) for name, value in begun.items() if name in needed or name not in group
    ]
    edits += [Put((*path, name), _least(tree, f"{dotted}.{name}")) for name in needed if name not in begun]
    gone = [name for name in group if name not in fields or name in LEFT_OUT.get((place_of(dotted), kind), ())]
    return [*edits, *(Drop((*path, name)) for name in gone)]


def _place(dotted: str) -> str:
    """The place of a group; of a condition within others that of the outermost."""
    around, when, _ = place_of(dotted).partition(".when.")
    return f"{around}{when[:-1]}"


def _least(tree: JSON, path: str) -> JSON:
    """As little as may stand at a place: the first name that it may refer to, else nothing of its type."""
    shape = shape_of(path)
    if shape is None:
        return ""
    if shape.refers:
        names = named_in(tree, shape.refers)
        return list(names[:1]) if shape.kind in ("picks", "order") else next(iter(names), "")
    return shape.options[0] if shape.options and shape.kind == "choice" else empty(shape.kind)


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
    """What a team begins as: agents that have no role yet, else the others that there are, with a share of the brief each."""
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


_WHEN = ("topology.transitions.*.when", f"{TEAM}.transitions.*.when")
Begins = Callable[[JSON, JSON], dict[str, JSON]]
BEGINS: Mapping[tuple[str, str], Begins] = {
    ("topology", "supervisor"): _supervisor,
    ("topology", "sop"): _sop,
    ("topology", "hierarchical"): _hierarchical,
    (TEAM, "supervisor"): _supervisor,
    (TEAM, "sop"): _sop,
    (TEAM, "graph"): _graph,
    ("topology", "graph"): _graph,
    **{(place, kind): _conditions for place in _WHEN for kind in ("all_of", "any_of")},
    **{(place, "not"): _condition for place in _WHEN},
}
"""From the draft and the group as it was: the fields that a kind begins with, by place and kind."""
LEFT_OUT: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("topology", "sop"): ("planner", "plan", "plan_critic"),
    ("topology", "debate"): ("planner", "plan", "plan_critic"),
    (TEAM, "sop"): ("planner", "plan", "plan_critic"),
    (TEAM, "debate"): ("planner", "plan", "plan_critic"),
}
"""Fields that a kind has and may not use."""
