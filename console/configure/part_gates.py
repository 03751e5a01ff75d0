"""The five stages and what their gates ask, each check with a box that tries it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from console.configure.editing import Editing
from console.configure.fields import EditField, at
from console.configure.forms import FORMS, form_at
from console.configure.shape import MISSING
from console.views.fabric_words import PASSES_ON, stages_of
from fabric.core.flow import Stage
from fabric.core.mechanisms.validation_gate import STAGE_OUTPUT
from fabric.services.checking import Finding

JSON = Any


@dataclass(frozen=True, slots=True)
class SchemaField:
    """One field of what a stage passes on."""

    name: str
    words: str
    required: bool


@dataclass(frozen=True, slots=True)
class StageRow:
    """One of the five."""

    number: int
    stage: Stage
    word: str
    who: str
    passes_on: str
    several: bool
    """Whether it is a list of them, one for each branch."""
    schema: tuple[SchemaField, ...]
    checks: tuple[str, ...]
    """What its gate asks, in the gate's order; empty: the draft is no fabric yet."""

    @property
    def path(self) -> str:
        """What it is tried by."""
        return f"stages.{self.stage}"


@dataclass(frozen=True, slots=True)
class Item:
    """One check of a list."""

    path: str
    number: int
    title: str
    fields: tuple[EditField, ...]
    about: tuple[Finding, ...]
    form: str = ""
    inner: tuple[tuple[str, EditField, EditField], ...] = ()
    """Of a group of guardrails: its own patterns, each with its path, name and pattern."""

    @property
    def again(self) -> bool:
        """Whether what its fields mean was told at the first one."""
        return self.number > 1


@dataclass(frozen=True, slots=True)
class Listed:
    """A list of checks under one heading."""

    path: str
    anchor: str
    title: str
    sub: str
    noun: str
    """What one of it is called."""
    items: tuple[Item, ...]
    about: tuple[Finding, ...]
    readable: bool
    """Whether it is a list at all."""
    together: bool = False
    """Whether it can be tried as a whole too."""


LISTS: dict[str, tuple[str, str, str, tuple[str, ...], bool]] = {
    "guardrails": (
        "Guardrails",
        "what neither outputs nor arguments of tools may hold · every group looks at its places",
        "group",
        ("places", "rules"),
        True,
    ),
    "invariants": (
        "Invariants",
        "conditions on what a stage passes on · CEL over payload, run and stage",
        "invariant",
        ("name", "stage", "expression", "message"),
        False,
    ),
    "policies": (
        "Policies",
        "Cedar · with none, nothing is denied; with one, what no policy permits is denied",
        "policy",
        ("name", "text"),
        True,
    ),
    "oracle": (
        "Oracle",
        "asked last, of the finished outcome: what does not hold is no success",
        "check",
        ("name", "message"),
        False,
    ),
}
"""By field of ``gates``: title, what it is, what one is called, its fields, whether it is tried as a whole too. Those of a check of the oracle are its form's."""
ASKS = {
    "expression": ("expression",),
    "tool": ("tool", "arguments", "expression"),
    "http": ("http.url", "http.timeout_s", "expression"),
    "critic": ("critic",),
}
"""Fields of a check of the oracle, by its form."""


def build(editing: Editing) -> dict[str, Any]:
    """The stages, then the checks by heading."""
    return {
        "stages": list(_stages(editing)),
        "sources": editing.fields("gates", "citations", "grounding", "grounding_critic"),
        "judged": bool(editing.field("gates.grounding_critic").text),
        "length": editing.field("gates.max_outcome_chars"),
        "unguarded": editing.field("gates.unguarded"),
        "unscreened": editing.field("gates.unscreened"),
        "tau": editing.field("policy.tau"),
        "lists": [_listed(editing, name) for name in LISTS],
        "ways": [(name, form.label) for name, form in FORMS["gates.oracle.*"].items()],
        "about": editing.about("gates"),
        "kept": {"tried": editing.trial.path if editing.trial else ""},
    }


# -- stages ------------------------------------------------------------------------------------------------------------


def _stages(editing: Editing) -> Iterator[StageRow]:
    lines = {line.stage: line for line in stages_of(editing.spec)} if editing.spec is not None else {}
    for n, stage in enumerate(Stage, 1):
        line = lines.get(stage)
        several, fields = schema_of(stage)
        yield StageRow(
            number=n,
            stage=stage,
            word=stage.value.replace("_", "-").capitalize(),
            who=line.who if line is not None else _who(editing.tree, stage),
            passes_on=PASSES_ON[stage],
            several=several,
            schema=fields,
            checks=(*line.checks, *([line.confidence] if line.confidence else [])) if line is not None else (),
        )


_WHO = {
    Stage.PLAN: "planner",
    Stage.FAN_OUT: "workers",
    Stage.FAN_IN: "aggregator",
    Stage.VALIDATE: "critic",
    Stage.FINALIZE: "finalizer",
}


def _who(tree: JSON, stage: Stage) -> str:
    found = at(tree, f"topology.{_WHO[stage]}")
    named = found if isinstance(found, list) else [found]
    return ", ".join(one for one in named if isinstance(one, str)) or "no agent"


def schema_of(stage: Stage) -> tuple[bool, tuple[SchemaField, ...]]:
    """Whether a stage passes on a list, and the fields of what it passes on in words: from the schema that its gate asks."""
    whole = STAGE_OUTPUT[stage].json_schema()
    known = whole.get("$defs", {})
    several = whole.get("type") == "array"
    if several:
        whole = known[whole["items"]["$ref"].rpartition("/")[2]]
    required = whole.get("required", ())
    fields = (SchemaField(name, _words(one, known), name in required) for name, one in whole["properties"].items())
    return several, tuple(fields)


def _words(field: JSON, known: JSON) -> str:
    if "$ref" in field:
        inner = known[field["$ref"].rpartition("/")[2]]
        return "{" + ", ".join(inner["properties"]) + "}"
    if field.get("type") == "array":
        least, most = field.get("minItems", 0), field.get("maxItems")
        items = _words(field["items"], known)
        many = f"{least:,} to {most:,}" if most is not None else f"{least:,} or more" if least else "any number"
        return f"{many} of {items}"
    kind = {"string": "text", "integer": "whole number", "number": "number", "boolean": "yes or no"}[field["type"]]
    return f"{kind}, at most {field['maxLength']:,} characters" if "maxLength" in field else kind


# -- checks ------------------------------------------------------------------------------------------------------------


def _listed(editing: Editing, name: str) -> Listed:
    path, (title, sub, noun, fields, together) = f"gates.{name}", LISTS[name]
    given = editing.at(path)
    items = tuple(_item(editing, f"{path}.{n}", n + 1, noun, fields) for n in range(editing.count(path)))
    readable = given is MISSING or given is None or isinstance(given, list)
    return Listed(path, name, title, sub, noun, items, editing.about(path), readable, together and len(items) > 1)


def _item(editing: Editing, path: str, number: int, noun: str, fields: tuple[str, ...]) -> Item:
    kind = path.split(".")[1]
    form = form_at(editing.tree, path) if kind == "oracle" else ""
    named = editing.at(f"{path}.name")
    title = named if isinstance(named, str) and named else f"{noun.capitalize()} {number}"
    shown = [editing.field(f"{path}.{one}") for one in (*fields, *_asked(editing, path, form))]
    return Item(
        path,
        number,
        title,
        tuple(shown),
        editing.about(path),
        form,
        tuple(_patterns(editing, path)) if kind == "guardrails" else (),
    )


def _asked(editing: Editing, path: str, form: str) -> list[str]:
    """The fields of a check's form, and what else is written there, so that it can be taken out."""
    mine = list(ASKS.get(form, ()))
    others = dict.fromkeys(one for fields in ASKS.values() for one in fields if form)
    return mine + [one for one in others if one not in mine and editing.at(f"{path}.{one}") not in (MISSING, None)]


def _patterns(editing: Editing, path: str) -> Iterator[tuple[str, EditField, EditField]]:
    for n in range(editing.count(f"{path}.patterns")):
        inner = f"{path}.patterns.{n}"
        yield inner, editing.field(f"{inner}.name"), editing.field(f"{inner}.pattern")
