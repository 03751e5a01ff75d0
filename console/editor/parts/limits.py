"""Every budget and limit of a fabric with its unit, its default and where that comes from, found by words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from console.editor.draft import Editing
from console.editor.groups import node_of
from console.forms.controls.fields import EditField, Node
from console.forms.controls.kinds import HOLDING
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
class Asked:
    """The limits that an author wants to see."""

    words: tuple[str, ...] = ()
    """In lower case; each is in a limit's text."""
    changed: bool = False
    """True: only limits with a value of their own."""

    def __bool__(self) -> bool:
        return bool(self.words or self.changed)

    def fits(self, text: str, *, own: bool) -> bool:
        """Return True for a limit with that text, which is in lower case."""
        return all(word in text for word in self.words) and (own or not self.changed)


@dataclass(frozen=True, slots=True)
class Row:
    """One limit."""

    field: EditField
    text: str
    """Label, help and path in lower case, for the search."""
    hidden: bool


@dataclass(frozen=True, slots=True)
class Group:
    """Limits under one heading."""

    name: str
    title: str
    rows: tuple[Row, ...]
    open: bool
    tier: str = ""
    """The tier that it holds for; empty for all."""

    @property
    def own(self) -> int:
        """Return how many limits have another value than the default."""
        return sum(one.field.own for one in self.rows)

    @property
    def wrong(self) -> int:
        """Return how many limits have an error."""
        return sum(one.field.wrong for one in self.rows)

    @property
    def hidden(self) -> bool:
        """Return True where no limit is shown."""
        return all(one.hidden for one in self.rows)


@dataclass(frozen=True, slots=True)
class NestedGroup:
    """A group within groups."""

    node: Node
    title: str
    said: str
    text: str
    own: int
    wrong: int
    hidden: bool
    open: bool


def build(editing: Editing) -> dict[str, Any]:
    """The limits by heading; deadlines once for each tier."""
    found = editing.asked.get("find", "")
    asked = Asked(tuple(found.lower().split()), bool(editing.asked.get("changed")))
    groups: list[Group] = []
    policy = shape_of("policy")
    assert policy is not None
    for name in policy.fields:
        if name in ELSEWHERE:
            continue
        if name == "deadlines":
            title = _title("policy.deadlines")
            groups += [_group(editing, asked, f"deadlines.{tier}", title, TIERS[tier]) for tier in Tier]
        else:
            groups.append(_group(editing, asked, name, _title(f"policy.{name}")))
    nested = [_nested(editing, asked, path, said) for path, said in NESTED]
    return {
        "groups": groups,
        "nested": nested,
        "own": sum(group.own for group in groups),
        "count": sum(len(one.rows) for one in groups),
        "before": "editor/parts/limits_find.html",
        "find": found,
        "only_changed": asked.changed,
        "none_found": all(one.hidden for one in groups) and all(one.hidden for one in nested),
    }


def _title(path: str) -> str:
    shape = shape_of(path)
    assert shape is not None
    return shape.label


def _group(editing: Editing, asked: Asked, name: str, title: str, tier: str = "") -> Group:
    shape = shape_of(f"policy.{name}")
    assert shape is not None
    names = shape.fields if shape.kind != "table" else ()
    made = [editing.field(f"policy.{name}.{each}") for each in names]
    if shape.kind not in ("group", "table"):  # One value, and no group of them.
        made = [editing.field(f"policy.{name}")]
    rows = tuple(_row(asked, one, f"{title} {tier}") for one in made if one.shape.kind not in HOLDING)
    shown = bool(asked) and not all(one.hidden for one in rows)
    return Group(name, title, rows, shown or any(one.field.wrong for one in rows), tier)


def _row(asked: Asked, one: EditField, heading: str) -> Row:
    text = f"{heading} {one.shape.label} {one.shape.help} {one.path}".lower()
    return Row(one, text, not asked.fits(text, own=one.own))


def _nested(editing: Editing, asked: Asked, path: str, said: str) -> NestedGroup:
    node, title = node_of(editing, path), _title(path)
    fields = list(_leaves(node))
    words = {title, said, *(one.path for one in fields), *(one.shape.label for one in fields)}
    text = " ".join(sorted(words)).lower()
    own, wrong = sum(one.own for one in fields), sum(one.wrong for one in fields)
    hidden = not asked.fits(text, own=own > 0)
    return NestedGroup(node, title, said, text, own, wrong, hidden, bool(wrong) or (bool(asked) and not hidden))


def _leaves(node: Node) -> Iterator[EditField]:
    for one in node.parts:
        if isinstance(one, Node):
            yield from _leaves(one)
        else:
            yield one
