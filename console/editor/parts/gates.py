"""The five stages and what their gates ask, each check with a box that tries it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from console.editor.draft import Editing
from console.forms.controls.fields import MISSING, EditField, at
from console.forms.drafts.variants import FORMS, form_at
from console.words.fabrics import PASSES_ON, list_stages
from fabric.core.mechanisms.validation_gate import STAGE_OUTPUT
from fabric.core.values.flow import Stage
from fabric.core.values.units import JSON
from fabric.services.fabrics.checks import TextFinding


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
    """True for a list with one entry for each branch."""
    schema: tuple[SchemaField, ...]
    checks: tuple[str, ...]
    """Checks of its gate, in order; empty: the draft has errors."""

    @property
    def path(self) -> str:
        """Trial of the check."""
        return f"stages.{self.stage}"


@dataclass(frozen=True, slots=True)
class Item:
    """One check of a list."""

    path: str
    number: int
    title: str
    fields: tuple[EditField, ...]
    about: tuple[TextFinding, ...]
    form: str = ""
    inner: tuple[tuple[str, EditField, EditField], ...] = ()
    """Own patterns of a group of guardrails, each with its path, name and pattern."""

    @property
    def again(self) -> bool:
        """True if the first entry explained its fields."""
        return self.number > 1


@dataclass(frozen=True, slots=True)
class Listed:
    """A list of checks under one heading."""

    path: str
    anchor: str
    title: str
    sub: str
    noun: str
    """Noun of one entry."""
    items: tuple[Item, ...]
    about: tuple[TextFinding, ...]
    readable: bool
    """True for a list."""
    together: bool = False
    """True if the whole can be tried too."""


LISTS: dict[str, tuple[str, str, str, tuple[str, ...], bool]] = {
    "guardrails": (
        "Guardrails",
        "forbidden content of outputs and tool arguments · by group",
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
        "Cedar · without policies nothing is denied; with policies, only permitted calls pass",
        "policy",
        ("name", "text"),
        True,
    ),
    "oracle": (
        "Oracle",
        "final check: the result must pass this to count as success",
        "check",
        ("name", "message"),
        False,
    ),
}
"""By field of ``gates``: title, description, noun, fields, and whether it is tried as a whole too. Those of a check of
the oracle are its form's.
"""
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
    lines = {line.stage: line for line in list_stages(editing.spec)} if editing.spec is not None else {}
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
    """Return the fields of a stage's output in words, by the schema that its gate checks. True comes first if the
    output is a list.
    """
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
