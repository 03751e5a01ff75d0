"""What is to be said of a fabric's text while somebody writes it: everything that keeps it from being published, and what its author may not have meant."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from fabric.core.spec import FabricSpec
from fabric.services.fabric_yaml import Problem, spec_of
from fabric.services.publication import Installation, deviations, publication_problems, publication_warnings
from fabric.services.yaml_tree import Tree, YamlProblem, read_yaml

Level = Literal["error", "warning", "note"]
LEVELS: tuple[Level, ...] = ("error", "warning", "note")
"""The gravest first. An error keeps the fabric from being published."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One remark: about which path, and where that stands in the text."""

    level: Level
    path: str
    """Dotted; empty: it is about the text as a whole."""
    sentence: str
    line: int | None = None
    column: int | None = None

    @property
    def said(self) -> str:
        """With its place: ``line 12, column 5, agents.1.model: no model is named 'x'``."""
        place = f"line {self.line}, column {self.column}" if self.line else ""
        where = ", ".join(part for part in (place, self.path) if part)
        return f"{where}: {self.sentence}" if where else self.sentence


@dataclass(frozen=True, slots=True)
class Checked:
    """A text as far as it can be read. Without a tree it is no YAML; without a spec its tree is no fabric yet."""

    tree: Tree | None
    spec: FabricSpec | None
    findings: tuple[Finding, ...]

    @property
    def errors(self) -> tuple[Finding, ...]:
        """What keeps it from being published."""
        return tuple(one for one in self.findings if one.level == "error")

    def about(self, path: str) -> tuple[Finding, ...]:
        """What is said of a path itself."""
        return tuple(one for one in self.findings if one.path == path)


def checked(text: str, installation: Installation | None = None, *, name: str = "") -> Checked:
    """Reads a text and says everything about it. ``name``: what the fabric has to be called; empty: anything."""
    try:
        tree = read_yaml(text)
    except YamlProblem as error:
        mark = error.mark
        place = (mark.line, mark.column) if mark else (None, None)
        return Checked(None, None, (Finding("error", "", str(error), *place),))
    spec, problems = spec_of(tree.value)
    if spec is None:
        return Checked(tree, None, tuple(_found(tree, "error", problems)))
    problems = [*_named(spec, name), *publication_problems(spec, installation)]
    findings = [
        *_found(tree, "error", problems),
        *_found(tree, "warning", _deviating(spec)),
        *_found(tree, "warning", publication_warnings(spec, installation)),
    ]
    return Checked(tree, spec, tuple(findings))


def _named(spec: FabricSpec, name: str) -> Iterator[Problem]:
    if name and spec.name != name:
        sentence = f"is {spec.name!r}, and this is a draft of {name!r}; write {name}, or duplicate the fabric under the other name"
        yield Problem("name", sentence)


def _deviating(spec: FabricSpec) -> Iterator[Problem]:
    for one in deviations(spec):
        if one.reason:
            yield Problem(one.path, f"deviates: {one.what} ({one.reason})")


def _found(tree: Tree, level: Level, problems: Sequence[Problem] | Iterator[Problem]) -> Iterator[Finding]:
    for problem in problems:
        parts = tuple(int(part) if part.isdecimal() else part for part in problem.path.split(".") if part)
        mark = tree.mark(parts, name=problem.about_name)
        yield Finding(level, problem.path, problem.sentence, *((mark.line, mark.column) if mark else (None, None)))
