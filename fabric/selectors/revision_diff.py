"""What one version of a fabric changed against another: by path and by name, not by line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from fabric.core.actor import Actor
from fabric.core.decision_table import DEFAULT_TABLE, Reaction
from fabric.core.spec import FabricSpec
from fabric.core.three_way import by_name, dotted
from fabric.models import Revision
from fabric.selectors.reach import seen_by

JSON = Any
CHANGES_MAX = 200
VALUE_CHARS_MAX = 400


@dataclass(frozen=True, slots=True)
class Change:
    """One place that differs. Values are text as YAML would have it on one line; empty where there was none."""

    path: str
    """Dotted, things of a list by their name: ``agents.reader.max_output_tokens``."""
    kind: Literal["added", "removed", "changed", "moved"]
    before: str = ""
    after: str = ""


@dataclass(frozen=True, slots=True)
class Changes:
    """What a version changed against the one before it."""

    number: int
    against: int | None
    """None: it is the first one."""
    changes: tuple[Change, ...]
    more: int = 0
    """Changes that are not listed."""


def revision_changes(actor: Actor, fabric_id: str, numbers: list[int]) -> dict[int, Changes]:
    """What each of these versions of one fabric changed against the number before it."""
    wanted = set(numbers) | {number - 1 for number in numbers}
    rows = Revision.objects.filter(seen_by(actor, Revision), fabric_id=fabric_id, number__in=wanted)
    specs = {number: _in_force(json.loads(spec)) for number, spec in rows.values_list("number", "spec")}
    return {number: _changes(number, specs) for number in numbers if number in specs}


def _changes(number: int, specs: Mapping[int, JSON]) -> Changes:
    if number - 1 not in specs:
        return Changes(number, None, ())
    found = list(differences(specs[number - 1], specs[number]))
    return Changes(number, number - 1, tuple(found[:CHANGES_MAX]), max(0, len(found) - CHANGES_MAX))


def spec_changes(before: FabricSpec, after: FabricSpec) -> tuple[Change, ...]:
    """Every place where two specs differ, with the decision table that is in force; empty: they are the same content."""
    old, new = (_in_force(spec.model_dump(mode="json", by_alias=True)) for spec in (before, after))
    return tuple(differences(old, new))


def _in_force(spec: dict[str, JSON]) -> JSON:
    """A spec with its whole decision table, each cell as it is read: a cell that is given up again shows what holds instead."""
    own, stages = spec.get("decision_table", {}), spec.get("policy", {}).get("stages", {})
    table: dict[str, dict[str, JSON]] = {}
    for (failure, tier), default in DEFAULT_TABLE.items():
        cell = own.get(failure, {}).get(tier) or default.model_dump(mode="json", by_alias=True)
        table.setdefault(failure, {})[tier] = _in_words(cell)
    if not stages:
        return spec | {"decision_table": table}
    told = {
        stage: one | {"decision_table": _cells_in_words(one.get("decision_table", {}))} for stage, one in stages.items()
    }
    return spec | {"decision_table": table, "policy": spec["policy"] | {"stages": told}}


def _cells_in_words(table: Mapping[str, Mapping[str, JSON]]) -> JSON:
    return {failure: {tier: _in_words(cell) for tier, cell in row.items()} for failure, row in table.items()}


def _in_words(cell: Mapping[str, JSON]) -> JSON:
    return {"rungs": " → ".join(map(_rung, cell["rungs"])), "deviation": cell.get("deviation") or None}


def rung_words(rung: Mapping[str, JSON]) -> str:
    """A rung of a stored table in words, without how often: ``block + escalate to finance``."""
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


def differences(before: JSON, after: JSON, path: str = "") -> Iterator[Change]:
    """Every place where two JSON trees differ, in the order of the later one. Lists of named things are compared by name, others as a whole."""
    if before == after:
        return
    if isinstance(before, dict) and isinstance(after, dict):
        yield from _fields(before, after, path)
    elif (old := by_name(before)) is not None and (new := by_name(after)) is not None:
        kept = [name for name in old if name in new]
        if kept != [name for name in new if name in old]:
            yield Change(path, "moved", ", ".join(old), ", ".join(new))
        yield from _fields(old, new, path)
    elif before is None:
        yield Change(path, "added", "", _shown(after))
    elif after is None:
        yield Change(path, "removed", _shown(before), "")
    else:
        yield Change(path, "changed", _shown(before), _shown(after))


def _fields(before: Mapping[str, JSON], after: Mapping[str, JSON], path: str) -> Iterator[Change]:
    for name in [*after, *(name for name in before if name not in after)]:
        # What is not given is None in a spec, so the two are one.
        yield from differences(before.get(name), after.get(name), dotted(path, name))


def _shown(value: JSON) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= VALUE_CHARS_MAX else f"{text[: VALUE_CHARS_MAX - 1]}…"
