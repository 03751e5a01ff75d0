"""Differences between two versions of a fabric, by path and by name, not by line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from fabric.core.people.actor import Actor
from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.policies.decision_table import DEFAULT_TABLE, Reaction
from fabric.core.texts.three_way import dotted_path, index_by_name
from fabric.core.values.units import JSON
from fabric.models import Revision
from fabric.selectors.reach import match_visible

CHANGES_MAX = 200
VALUE_CHARS_MAX = 400


@dataclass(frozen=True, slots=True)
class SpecChange:
    """One difference. Values are text as YAML would have it on one line; empty where there was none."""

    path: str
    """Dotted path with names for items of a list: ``agents.reader.max_output_tokens``."""
    kind: Literal["added", "removed", "changed", "moved"]
    before: str = ""
    after: str = ""


@dataclass(frozen=True, slots=True)
class RevisionChanges:
    """Changes of a version against the one before it."""

    number: int
    against: int | None
    """Number of the version before; None: it is the first one."""
    changes: tuple[SpecChange, ...]
    more: int = 0
    """Number of unlisted changes."""


def revision_changes(actor: Actor, fabric_id: str, numbers: list[int]) -> dict[int, RevisionChanges]:
    """Return the changes of each of these versions of one fabric against the number before it."""
    wanted = set(numbers) | {number - 1 for number in numbers}
    rows = Revision.objects.filter(match_visible(actor, Revision), fabric_id=fabric_id, number__in=wanted)
    specs = {number: _fill_table(json.loads(spec)) for number, spec in rows.values_list("number", "spec")}
    return {number: _changes(number, specs) for number in numbers if number in specs}


def _changes(number: int, specs: Mapping[int, JSON]) -> RevisionChanges:
    if number - 1 not in specs:
        return RevisionChanges(number, None, ())
    found = list(differences(specs[number - 1], specs[number]))
    return RevisionChanges(number, number - 1, tuple(found[:CHANGES_MAX]), max(0, len(found) - CHANGES_MAX))


def spec_changes(before: FabricSpec, after: FabricSpec) -> tuple[SpecChange, ...]:
    """Return every difference of two specs, with the decision table in force; empty for equal content."""
    old, new = (_fill_table(spec.model_dump(mode="json", by_alias=True)) for spec in (before, after))
    return tuple(differences(old, new))


def _fill_table(spec: dict[str, JSON]) -> JSON:
    """Return a spec with its whole decision table. A cell without a row of its own shows the default in force."""
    own, stages = spec.get("decision_table", {}), spec.get("policy", {}).get("stages", {})
    table: dict[str, dict[str, JSON]] = {}
    for (failure, tier), default in DEFAULT_TABLE.items():
        cell = own.get(failure, {}).get(tier) or default.model_dump(mode="json", by_alias=True)
        table.setdefault(failure, {})[tier] = _describe_cell(cell)
    if not stages:
        return spec | {"decision_table": table}
    told = {
        stage: one | {"decision_table": _cells_in_words(one.get("decision_table", {}))} for stage, one in stages.items()
    }
    return spec | {"decision_table": table, "policy": spec["policy"] | {"stages": told}}


def _cells_in_words(table: Mapping[str, Mapping[str, JSON]]) -> JSON:
    return {failure: {tier: _describe_cell(cell) for tier, cell in row.items()} for failure, row in table.items()}


def _describe_cell(cell: Mapping[str, JSON]) -> JSON:
    return {"rungs": " → ".join(map(_rung, cell["rungs"])), "deviation": cell.get("deviation") or None}


def rung_words(rung: Mapping[str, JSON]) -> str:
    """Return a rung of a stored table in words, without its number of times: ``block + escalate to finance``."""
    words = [*rung.get("with", ()), rung["reaction"]]
    text = " + ".join(words).replace("_", " ")
    if rung["reaction"] == Reaction.ESCALATE and rung.get("role", "reviewer") != "reviewer":
        text += f" to {rung['role']}"
    if rung.get("poll"):
        text += " where it may be a poll"
    return f"{text} with critic" if rung.get("critic") else text


def _rung(rung: Mapping[str, JSON]) -> str:
    text = rung_words(rung)
    return f"{text} ×{rung['times']}" if rung.get("times") else text


def differences(before: JSON, after: JSON, path: str = "") -> Iterator[SpecChange]:
    """Yield the differences of two JSON trees, in the order of the later one. Lists of named items are compared by
    name, others as a whole.
    """
    if before == after:
        return
    if isinstance(before, dict) and isinstance(after, dict):
        yield from _fields(before, after, path)
    elif (old := index_by_name(before)) is not None and (new := index_by_name(after)) is not None:
        kept = [name for name in old if name in new]
        if kept != [name for name in new if name in old]:
            yield SpecChange(path, "moved", ", ".join(old), ", ".join(new))
        yield from _fields(old, new, path)
    elif before is None:
        yield SpecChange(path, "added", "", _value_text(after))
    elif after is None:
        yield SpecChange(path, "removed", _value_text(before), "")
    else:
        yield SpecChange(path, "changed", _value_text(before), _value_text(after))


def _fields(before: Mapping[str, JSON], after: Mapping[str, JSON], path: str) -> Iterator[SpecChange]:
    for name in [*after, *(name for name in before if name not in after)]:
        # An absent value is None in a spec, so the two are one.
        yield from differences(before.get(name), after.get(name), dotted_path(path, name))


def _value_text(value: JSON) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= VALUE_CHARS_MAX else f"{text[: VALUE_CHARS_MAX - 1]}…"
