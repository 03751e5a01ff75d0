"""Reads and writes graphs as files of other programs. Finds a text's form, and turns it into a fabric's topology
(docs/specification/topologies.md).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from fabric.core.graph.spec import TransitionGraph
from fabric.core.values.units import JSON
from fabric.services.errors import Refused
from fabric.services.fabrics.yaml.nodes import write_yaml
from fabric.services.fabrics.yaml.tree import YamlProblem, read_yaml
from fabric.services.importers.ag2 import ag2_read, ag2_written
from fabric.services.importers.fabro.workflows import fabro_read

Form = Literal["ag2", "fabro"]
FORMS: tuple[Form, ...] = ("ag2", "fabro")
BYTES_MAX = 1_000_000


@dataclass(frozen=True, slots=True)
class ImportedGraph:
    """A graph that was read, as parts of a fabric, with notes about its other parts."""

    form: Form
    topology: dict[str, JSON]
    """The group ``topology`` of a fabric, kind graph."""
    policy: dict[str, JSON] = field(default_factory=dict)
    """Parts of its ``policy``."""
    parts: dict[str, JSON] = field(default_factory=dict)
    """Models, tools and agents of a fabric for participants without a model."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Names here by the file's names, where they differ."""
    taken: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    """A sentence for each part that was not taken over, or had to be assumed."""


def graph_read(
    text: str,
    *,
    form: Form | None = None,
    origin: str = "",
    partial: bool = False,
    names: Mapping[str, str] | None = None,
) -> ImportedGraph:
    """Return the graph of a file. ``form``: None: found by its look. ``names``: names here by AG2's ids.

    Raises Refused with one sentence for an unknown form, and with its place for a broken text; and with every part
    whose loss changes the graph, unless ``partial``.
    """
    found = form or _looks(text)
    if found is None:
        message = f"{origin or 'the text'} is neither AG2's JSON nor a DOT digraph; name its form: {', '.join(FORMS)}"
        raise Refused(message, code="invalid", field="source")
    if found == "fabro":
        return _fabro(text, origin, partial)
    return _ag2(text, origin, partial, names or {})


def graph_written(graph: TransitionGraph, *, form: Form) -> str:
    """Return a graph as a file of that form. Raises Refused where the form lacks a counterpart for a part, or can
    only be read.
    """
    if form != "ag2":
        raise Refused(f"graphs are not written as {form}; there is: ag2", code="invalid", field="form")
    return json.dumps(ag2_written(graph), ensure_ascii=False, indent=2) + "\n"


def yaml_text(found: ImportedGraph) -> str:
    """Return the parts of a fabric as YAML to paste into one. Comments at the top list what was not taken over."""
    lines = [f"# not taken over: {' '.join(one.split())}" for one in found.left]
    lines += [f"# {name!r} is called {here} here" for name, here in found.renamed.items() if name != here]
    parts = {**found.parts, "topology": found.topology, **({"policy": found.policy} if found.policy else {})}
    return "\n".join([*lines, write_yaml(parts)])


def _looks(text: str) -> Form | None:
    begins = text.lstrip("\ufeff \t\r\n")[:4_000]
    if begins.startswith("{"):
        return "ag2"
    return "fabro" if "digraph" in begins or "graph" in begins else None


def _ag2(text: str, origin: str, partial: bool, names: Mapping[str, str]) -> ImportedGraph:
    try:
        tree = read_yaml(text).value  # JSON is YAML, and this parser reports the line.
    except YamlProblem as problem:
        line = f"line {problem.mark.line}" if problem.mark else ""
        where = ", ".join(part for part in (origin, line) if part)
        raise Refused(f"{where}: {problem}" if where else str(problem), code="invalid", field="source") from None
    found = ag2_read(tree, names=names, partial=partial)
    topology = _topology(found.graph)
    if found.context:
        topology["context"] = dict(found.context)
    return ImportedGraph("ag2", topology, renamed=found.renamed, left=(*found.lost, *found.notes))


def _fabro(text: str, origin: str, partial: bool) -> ImportedGraph:
    found = fabro_read(text, origin=origin, partial=partial)
    topology = _topology(found.graph)
    if found.visits:
        topology["max_visits"] = found.visits
    return ImportedGraph(
        "fabro",
        topology,
        found.policy,
        found.parts,
        taken=tuple(str(one) for one in found.taken),
        left=found.left,
    )


def _topology(graph: TransitionGraph) -> dict[str, JSON]:
    """Return the graph as an author writes it, without the defaults."""
    rules = graph.model_dump(mode="json", exclude_defaults=True)
    workers = rules.pop("participants")
    kinds = graph.model_dump(mode="json")
    for name in ("transitions", "default_target"):  # Their kinds have defaults too, and must be written.
        if name in rules:
            rules[name] = _drop_defaults(rules[name], kinds[name])
    return {"kind": "graph", "workers": workers, **rules}


def _drop_defaults(given: JSON, whole: JSON) -> JSON:
    """Return a value without its defaults, except its kinds."""
    if isinstance(whole, list):
        return [_drop_defaults(one, other) for one, other in zip(given, whole, strict=True)]
    if not isinstance(whole, dict):
        return given
    kind = {"kind": whole["kind"]} if "kind" in whole else {}
    return kind | {name: _drop_defaults(value, whole[name]) for name, value in given.items() if name in whole}
