"""Every budget and limit of a fabric with its unit, its default and where that comes from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from console.configure.editing import Editing
from console.configure.fields import EditField
from console.configure.shape import shape_of
from console.templatetags.marks import TIERS
from fabric.core.taxonomy import Tier
from fabric.selectors.limits import GROUPS

ELSEWHERE = frozenset({"humans", "tau", "breakers", "fan_in", "goal_gates"})
"""Parts of the policy that other parts of the editor show."""


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
        "own": sum(group.own for group in groups),
        "count": sum(len(one.fields) for one in groups),
    }


def _group(editing: Editing, name: str, title: str, tier: str = "") -> Group:
    shape = shape_of(f"policy.{name}")
    assert shape is not None
    names = shape.fields if shape.kind != "table" else ()
    made = [editing.field(f"policy.{name}.{each}") for each in names]
    return Group(name, title, tuple(one for one in made if one.shape.kind not in ("items", "table", "group")), tier)
