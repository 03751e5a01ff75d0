"""Graphs as files of other programs, read and written: which form a text has, and what of it became a fabric's topology (semantics.md 5)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from fabric.core.graph.spec import TransitionGraph
from fabric.services.errors import Refused
from fabric.services.graph_import.ag2 import ag2_read, ag2_written
from fabric.services.graph_import.fabro import fabro_read
from fabric.services.yaml_render import block_lines
from fabric.services.yaml_tree import YamlProblem, read_yaml

JSON = Any
Form = Literal["ag2", "fabro"]
FORMS: tuple[Form, ...] = ("ag2", "fabro")
BYTES_MAX = 1_000_000


@dataclass(frozen=True, slots=True)
class Imported:
    """A graph that was read, as parts of a fabric, and what became of the rest."""

    form: Form
    topology: dict[str, JSON]
    """The group ``topology`` of a fabric, kind graph."""
    policy: dict[str, JSON] = field(default_factory=dict)
    """Parts of its ``policy``."""
    parts: dict[str, JSON] = field(default_factory=dict)
    """Models, tools and agents of a fabric for those who take part and that no model speaks for."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Names here by those there, where they differ."""
    taken: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    """A sentence for each thing that was not taken over, or had to be assumed."""


def graph_read(
    text: str,
    *,
    form: Form | None = None,
    origin: str = "",
    partial: bool = False,
    names: Mapping[str, str] | None = None,
) -> Imported:
    """The graph of a file. ``form``: None, as it looks. ``names``: names here by those there, of AG2's ids.

    Refused with one sentence where it is of no form that is read, and with its place where it is none; and with every part whose loss makes another graph,
    unless ``partial``.
    """
    found = form or _looks(text)
    if found is None:
        message = f"{origin or 'the text'} is neither AG2's JSON nor a DOT digraph; name its form: {', '.join(FORMS)}"
        raise Refused(message, code="invalid", field="source")
    if found == "fabro":
        return _fabro(text, origin, partial)
    return _ag2(text, origin, partial, names or {})


def graph_written(graph: TransitionGraph, *, form: Form) -> str:
    """A graph as a file of that form. Refused where the form has no counterpart for something in it, or is read only."""
    if form != "ag2":
        raise Refused(f"graphs are not written as {form}; there is: ag2", code="invalid", field="form")
    return json.dumps(ag2_written(graph), ensure_ascii=False, indent=2) + "\n"


def yaml_text(found: Imported) -> str:
    """The parts of a fabric, ready to be pasted into one; what was not taken over stands above them."""
    lines = [f"# not taken over: {' '.join(one.split())}" for one in found.left]
    lines += [f"# {name!r} is called {here} here" for name, here in found.renamed.items() if name != here]
    for name, value in found.parts.items():
        lines += [f"{name}:", *block_lines(value, 2)]
    lines += ["topology:", *block_lines(found.topology, 2)]
    if found.policy:
        lines += ["policy:", *block_lines(found.policy, 2)]
    return "\n".join(lines) + "\n"


def _looks(text: str) -> Form | None:
    begins = text.lstrip("\ufeff \t\r\n")[:4_000]
    if begins.startswith("{"):
        return "ag2"
    return "fabro" if "digraph" in begins or "graph" in begins else None


def _ag2(text: str, origin: str, partial: bool, names: Mapping[str, str]) -> Imported:
    try:
        tree = read_yaml(text).value  # JSON is YAML, and this one says the line.
    except YamlProblem as problem:
        line = f"line {problem.mark.line}" if problem.mark else ""
        where = ", ".join(part for part in (origin, line) if part)
        raise Refused(f"{where}: {problem}" if where else str(problem), code="invalid", field="source") from None
    found = ag2_read(tree, names=names, partial=partial)
    topology = _topology(found.graph)
    if found.context:
        topology["context"] = dict(found.context)
    return Imported("ag2", topology, renamed=found.renamed, left=(*found.lost, *found.notes))


def _fabro(text: str, origin: str, partial: bool) -> Imported:
    found = fabro_read(text, origin=origin, partial=partial)
    topology = _topology(found.graph)
    if found.visits:
        topology["max_visits"] = found.visits
    return Imported(
        "fabro",
        topology,
        found.policy,
        found.parts,
        taken=tuple(str(one) for one in found.taken),
        left=found.left,
    )


def _topology(graph: TransitionGraph) -> dict[str, JSON]:
    """What is not the default, as an author would write it."""
    rules = graph.model_dump(mode="json", exclude_defaults=True)
    workers = rules.pop("participants")
    kinds = graph.model_dump(mode="json")
    for name in ("transitions", "default_target"):  # Their kinds are defaults of their own, and have to be said.
        if name in rules:
            rules[name] = _spoken(rules[name], kinds[name])
    return {"kind": "graph", "workers": workers, **rules}


def _spoken(given: JSON, whole: JSON) -> JSON:
    """A value without its defaults, its kinds excepted."""
    if isinstance(whole, list):
        return [_spoken(one, other) for one, other in zip(given, whole, strict=True)]
    if not isinstance(whole, dict):
        return given
    kind = {"kind": whole["kind"]} if "kind" in whole else {}
    return kind | {name: _spoken(value, whole[name]) for name, value in given.items() if name in whole}
