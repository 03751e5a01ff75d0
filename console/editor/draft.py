"""A draft as the editor's pages need it: read and checked once a request."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from pydantic import TypeAdapter, ValidationError

from console.editor.findings import put_in_words
from console.editor.trial import TryBox
from console.forms.controls.fields import EditField, at
from console.forms.controls.rows import list_sent_rows
from console.forms.drafts.fields import field_at
from console.forms.drafts.shape import shape_of
from fabric.core.schema.parts import Line
from fabric.core.spec.fabric import FabricSpec
from fabric.core.values.units import JSON
from fabric.core.workspace_policy.policy import NOTHING as NO_POLICY
from fabric.core.workspace_policy.policy import WorkspacePolicy
from fabric.selectors.drafts.lookup import DraftView
from fabric.selectors.fabrics.differences import SpecChange, differences
from fabric.services.fabrics.checks import CheckedText, TextFinding, check_text
from fabric.services.fabrics.yaml.tree import YamlProblem, read_yaml
from fabric.services.installation.facts import InstallationFacts

_TITLE: TypeAdapter[str] = TypeAdapter(Line)


@dataclass(frozen=True, kw_only=True)
class Editing:
    """A draft, what it says, and what is said of it."""

    draft: DraftView
    checked: CheckedText
    page: str
    """The key of the page that shows it."""
    asked: Mapping[str, str] = field(default_factory=dict)
    """The address or the form says how a part is shown: the open cell, and the like."""
    trial: TryBox | None = None
    """The check that is being tried."""
    policy: WorkspacePolicy = NO_POLICY
    """The policy of its workspace."""
    sent_cells: Mapping[str, str] = field(default_factory=dict)
    """The cells of rows that the page sent, by name: they stay where they are."""
    own: JSON = None
    """Values that its fields show after a failed save: the author's entries."""
    own_text: str | None = None
    """Value of the field of the whole text after a failed save."""

    @property
    def saved(self) -> JSON:
        """Return the draft's values; an empty tree where it is no YAML."""
        return self.checked.tree.value if self.checked.tree is not None else {}

    @property
    def tree(self) -> JSON:
        """Return the values of its fields: the draft's, or the author's entries after a failed save."""
        return self.saved if self.own is None else self.own

    @property
    def readable(self) -> bool:
        """Return True where its text is YAML with fields in it. Without that there are no forms."""
        return isinstance(self.saved, dict) and self.checked.tree is not None

    @property
    def spec(self) -> FabricSpec | None:
        """The fabric that it describes; None: it describes none yet."""
        return self.checked.spec

    @property
    def title(self) -> str:
        """Return its title, or its name where it has no title."""
        try:
            return _TITLE.validate_python(self.saved.get("title") if self.readable else None)
        except ValidationError:
            return self.draft.name

    @cached_property
    def base(self) -> JSON:
        """Return the values that it began with."""
        try:
            return read_yaml(self.draft.base_text).value
        except YamlProblem:
            return {}

    @cached_property
    def changes(self) -> tuple[SpecChange, ...]:
        """Return its changes against the values that it began with, by path."""
        return tuple(differences(self.base, self.saved)) if self.readable else ()

    def at(self, path: str) -> JSON:
        """Return the value that its fields show at a dotted path."""
        return at(self.tree, path)

    def field(self, path: str, **words: str) -> EditField:
        """The field of a place in the draft."""
        made = field_at(self.tree, path, base=self.base, findings=self.checked.findings, words=words)
        if not made.in_rows:
            return made
        return replace(made, sent_rows=tuple(list_sent_rows(made.row_kind, path, self.sent_cells.get)))

    def fields(self, path: str, *names: str) -> list[EditField]:
        """Fields of a group, in this order; all of it where none is named."""
        shape = shape_of(path) if path else None
        named = names or (shape.fields if shape is not None else ())
        under = f"{path}." if path else ""
        return [self.field(f"{under}{name}") for name in named]

    def count(self, path: str) -> int:
        """Return how many things a list of the draft has."""
        items = self.at(path)
        return len(items) if isinstance(items, list) else 0

    def about(self, path: str) -> tuple[TextFinding, ...]:
        """Return the findings about a path itself, without those inside it."""
        return self.checked.list_findings(path)


def editing(
    draft: DraftView, installation: InstallationFacts | None, page: str = "", asked: Mapping[str, str] | None = None
) -> Editing:
    """A draft, read and checked."""
    found = put_in_words(check_text(draft.text, installation, name=draft.name))
    policy = NO_POLICY if installation is None else installation.policy
    return Editing(draft=draft, checked=found, page=page or secrets.token_urlsafe(9), asked=asked or {}, policy=policy)
