"""Every budget and limit of a fabric with its unit, its default and where that comes from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from console.configure.editing import Editing
from console.configure.fields import EditField
from console.configure.nested import node_of
from console.configure.shape import shape_of
from console.templatetags.marks import TIERS
from fabric.core.taxonomy import Tier
from fabric.selectors.limits import GROUPS

ELSEWHERE = frozenset({"humans", "tau", "breakers", "retry_layers", "fan_in", "goal_gates", "stages"})
"""Parts of the policy that are shown below the table, or in other parts of the editor."""


NESTED = (
    (
        "policy.breakers",
        "Circuit breakers",
        "in front of calls; shared by all workers; where none is named, one stands in front of each provider",
    ),
    ("policy.retry_layers", "Retry layers", "what a failure goes through before it is the run's"),
    (
        "policy.budget.stages",
        "Caps of single stages",
        "what plan, fan-out, fan-in, validate and finalize may each spend; they beat the caps of all stages",
    ),
    (
        "policy.stages",
        "Single stages",
        "what a stage has otherwise than the fabric; its cells are in the part Decision table",
    ),
    (
        "policy.limits.max_visits",
        "Visits of single stages",
        "how often a run may enter a stage; it beats the limit for all",
    ),
)
"""What is made of groups within groups: path, heading, and what it is."""


@dataclass(frozen=True, slots=True)
class Group:
    """Limits under one heading."""

    name: str
    title: str
    fields: tuple[EditField, ...]
    tier: str = ""
    """For which tier; empty: for all."""

    @property
    def own(self) -> int:
        """How many say something else than the default."""
        return sum(one.own for one in self.fields)

    @property
    def wrong(self) -> int:
        """How many an error is about."""
        return sum(one.wrong for one in self.fields)


def build(editing: Editing) -> dict[str, Any]:
    """The limits by heading; deadlines once for each tier."""
    groups: list[Group] = []
    policy = shape_of("policy")
    assert policy is not None
    for name in policy.fields:
        if name in ELSEWHERE:
            continue
        if name == "deadlines":
            groups += [_group(editing, f"deadlines.{tier}", GROUPS[name], TIERS[tier]) for tier in Tier]
        else:
            groups.append(_group(editing, name, GROUPS[name]))
    return {
        "groups": groups,
        "nested": [(node_of(editing, path), title, said) for path, title, said in NESTED],
        "own": sum(group.own for group in groups),
        "count": sum(len(one.fields) for one in groups),
    }


def _group(editing: Editing, name: str, title: str, tier: str = "") -> Group:
    shape = shape_of(f"policy.{name}")
    assert shape is not None
    names = shape.fields if shape.kind != "table" else ()
    made = [editing.field(f"policy.{name}.{each}") for each in names]
    if shape.kind not in ("group", "table"):  # One value, and no group of them.
        made = [editing.field(f"policy.{name}")]
    return Group(name, title, tuple(one for one in made if one.shape.kind not in ("items", "table", "group")), tier)
