"""Every budget and limit of a fabric with its unit, its default and where that comes from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from console.editor.draft import Editing
from console.editor.groups import node_of
from console.forms.controls.fields import EditField
from console.forms.drafts.shape import shape_of
from console.templatetags.marks import TIERS
from fabric.core.values.taxonomy import Tier

ELSEWHERE = frozenset({"humans", "tau", "breakers", "retry_layers", "fan_in", "goal_gates", "stages"})
"""Parts of the policy that are shown below the table, or in other parts of the editor."""


NESTED = (
    (
        "policy.breakers",
        "they protect calls and are shared by all workers; default: one for each provider",
    ),
    ("policy.retry_layers", "retries of a provider failure before the run's table applies"),
    (
        "policy.budget.stages",
        "spending of plan, fan-out, fan-in, validate and finalize; these caps override those of all stages",
    ),
    (
        "policy.stages",
        "differences of a stage from the fabric; its cells are under Decision table",
    ),
    ("policy.limits.max_visits", "how often a run may enter a stage; it beats the limit for all"),
)
"""The places of groups within groups, each with a line beside its heading."""


@dataclass(frozen=True, slots=True)
class Group:
    """Limits under one heading."""

    name: str
    title: str
    fields: tuple[EditField, ...]
    tier: str = ""
    """The tier that it holds for; empty for all."""

    @property
    def own(self) -> int:
        """Return how many limits have another value than the default."""
        return sum(one.own for one in self.fields)

    @property
    def wrong(self) -> int:
        """Return how many limits have an error."""
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
            groups += [_group(editing, f"deadlines.{tier}", _title("policy.deadlines"), TIERS[tier]) for tier in Tier]
        else:
            groups.append(_group(editing, name, _title(f"policy.{name}")))
    return {
        "groups": groups,
        "nested": [(node_of(editing, path), _title(path), said) for path, said in NESTED],
        "own": sum(group.own for group in groups),
        "count": sum(len(one.fields) for one in groups),
    }


def _title(path: str) -> str:
    shape = shape_of(path)
    assert shape is not None
    return shape.label


def _group(editing: Editing, name: str, title: str, tier: str = "") -> Group:
    shape = shape_of(f"policy.{name}")
    assert shape is not None
    names = shape.fields if shape.kind != "table" else ()
    made = [editing.field(f"policy.{name}.{each}") for each in names]
    if shape.kind not in ("group", "table"):  # One value, and no group of them.
        made = [editing.field(f"policy.{name}")]
    return Group(name, title, tuple(one for one in made if one.shape.kind not in ("items", "table", "group")), tier)
