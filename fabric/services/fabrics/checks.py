"""Checks a fabric's text while an author writes it: errors, and warnings about probable slips.

An error keeps the fabric from being published. Everything wrong or doubtful is found with its line, without publishing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from fabric.core.people.actor import Actor
from fabric.core.people.roles import Right
from fabric.core.spec.fabric import FabricSpec
from fabric.services.actors import find_people
from fabric.services.errors import Placed, Refused
from fabric.services.fabrics.partial import read_partial
from fabric.services.fabrics.publication.rules import deviations, publication_problems, publication_warnings
from fabric.services.fabrics.revisions import check_publication
from fabric.services.fabrics.yaml.document import PLACED_MAX, FabricProblem, fabric_read, find_spec
from fabric.services.fabrics.yaml.tree import YamlProblem, YamlTree, read_yaml
from fabric.services.installation import facts as here
from fabric.services.installation.facts import InstallationFacts
from fabric.services.rights import right_wanted

Level = Literal["error", "warning", "note"]
LEVELS: tuple[Level, ...] = ("error", "warning", "note")
"""The gravest first. An error keeps the fabric from being published."""


MORE_LATER = "mend these errors first; the check may find more then"
"""Note beside errors that keep the text from being a fabric."""


@dataclass(frozen=True, slots=True)
class TextFinding:
    """One remark with its path and its place in the text."""

    level: Level
    path: str
    """Dotted; empty: it is about the text as a whole."""
    sentence: str
    line: int | None = None
    column: int | None = None

    @property
    def sentence_with_place(self) -> str:
        """Return the remark with its place: ``line 12, column 5, agents.1.model: no model is named 'x'``."""
        place = f"line {self.line}, column {self.column}" if self.line else ""
        where = ", ".join(part for part in (place, self.path) if part)
        return f"{where}: {self.sentence}" if where else self.sentence


@dataclass(frozen=True, slots=True)
class CheckedText:
    """A text as far as it can be read. Without a tree it is no YAML; without a spec its tree is no fabric yet."""

    tree: YamlTree | None
    spec: FabricSpec | None
    findings: tuple[TextFinding, ...]

    @property
    def errors(self) -> tuple[TextFinding, ...]:
        """Return the findings that keep the text from being published."""
        return tuple(one for one in self.findings if one.level == "error")

    def list_findings(self, path: str) -> tuple[TextFinding, ...]:
        """Return the findings about exactly this path."""
        return tuple(one for one in self.findings if one.path == path)


def check_text(text: str, installation: InstallationFacts | None = None, *, name: str = "") -> CheckedText:
    """Read a text and report everything about it. ``name``: required name of the fabric; empty: any."""
    try:
        tree = read_yaml(text)
    except YamlProblem as error:
        mark = error.mark
        place = (mark.line, mark.column) if mark else (None, None)
        return CheckedText(None, None, (TextFinding("error", "", str(error), *place),))
    spec, problems = find_spec(tree.value)
    if spec is None:
        return CheckedText(tree, None, tuple(_check_partial(tree, problems, installation, name)))
    problems = _list_errors(spec, installation, name)
    findings = [
        *_list_findings(tree, "error", problems),
        *_list_findings(tree, "warning", _list_deviations(spec)),
        *_list_findings(tree, "warning", publication_warnings(spec, installation)),
    ]
    return CheckedText(tree, spec, tuple(findings))


def _check_partial(
    tree: YamlTree, problems: list[FabricProblem], installation: InstallationFacts | None, name: str
) -> Iterator[TextFinding]:
    """Yield the errors of the fields, and those of the fabric that is left without them."""
    found = read_partial(tree.value, problems)
    more = () if found.spec is None else filter(found.is_certain, _list_errors(found.spec, installation, name))
    yield from _list_findings(tree, "error", (*found.problems, *more))
    yield TextFinding("note", "", MORE_LATER)


def _list_errors(spec: FabricSpec, installation: InstallationFacts | None, name: str) -> list[FabricProblem]:
    return [*_name_problems(spec, name), *publication_problems(spec, installation)]


def _name_problems(spec: FabricSpec, name: str) -> Iterator[FabricProblem]:
    if name and spec.name != name:
        sentence = f"is {spec.name!r}, and this is a draft of {name!r}; write {name}, or duplicate the fabric under the other name"
        yield FabricProblem("name", sentence)


def _list_deviations(spec: FabricSpec) -> Iterator[FabricProblem]:
    for one in deviations(spec):
        if one.reason:
            yield FabricProblem(one.path, f"deviates: {one.what} ({one.reason})")


def _list_findings(
    tree: YamlTree, level: Level, problems: Sequence[FabricProblem] | Iterator[FabricProblem]
) -> Iterator[TextFinding]:
    for problem in problems:
        parts = tuple(int(part) if part.isdecimal() else part for part in problem.path.split(".") if part)
        mark = tree.mark(parts, name=problem.about_name)
        yield TextFinding(level, problem.path, problem.sentence, *((mark.line, mark.column) if mark else (None, None)))


@dataclass(frozen=True, slots=True)
class PlacedDeviation:
    """A setting of the fabric that is laxer than required, with its place and its author's reason."""

    place: Placed
    reason: str


@dataclass(frozen=True, slots=True)
class LintResult:
    """Findings of a lint."""

    origin: str
    name: str
    """The fabric's name; empty: it could not be read."""
    digest: str
    problems: tuple[Placed, ...]
    """Problems that keep the text from being published."""
    warnings: tuple[Placed, ...] = ()
    """Probable slips of the author."""
    deviations: tuple[PlacedDeviation, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def publishable(self) -> bool:
        """True if the text can be published as it is."""
        return not self.problems


def fabric_lint(*, actor: Actor, source: str, origin: str = "", providers: Collection[str] = ()) -> LintResult:
    """Judge a text as its publication would. ``providers``: existing provider adapters. Raises only Refused
    forbidden.
    """
    right_wanted(actor, Right.EDIT, "check fabrics", anywhere=True)
    try:
        read = fabric_read(source, origin=origin)
    except Refused:
        return _lint_partial(source, origin, here.installation(providers, workspace_id=actor.workspace_id))
    spec = read.spec
    problems: tuple[Placed, ...] = ()
    where = here.installation(people=find_people(actor.workspace_id, spec.name), workspace_id=actor.workspace_id)
    try:
        check_publication(actor, read, providers)
    except Refused as refused:
        problems = refused.placed
    return LintResult(
        origin=origin,
        name=spec.name,
        digest=spec.digest(),
        problems=problems,
        warnings=tuple(read.place_problem(one) for one in publication_warnings(spec, where)),
        deviations=tuple(
            PlacedDeviation(read.place_problem(FabricProblem(one.path, one.what)), one.reason)
            for one in deviations(spec)
        ),
    )


def _lint_partial(source: str, origin: str, where: InstallationFacts) -> LintResult:
    """Return the findings of a text that is no fabric."""
    found = check_text(source, where)
    problems = [Placed(one.path, one.line, one.column, one.sentence, origin) for one in found.errors[:PLACED_MAX]]
    notes = [one.sentence for one in found.findings if one.level == "note"]
    return LintResult(origin, "", "", tuple(problems), notes=tuple(notes))
