"""A draft as the editor's pages need it: read and checked once a request."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from pydantic import TypeAdapter, ValidationError

from console.configure.fields import EditField, at, field_at
from console.configure.shape import shape_of
from console.configure.trial import TryBox
from fabric.core.spec import FabricSpec
from fabric.core.spec_parts import Line
from fabric.core.workspace_policy.policy import NOTHING as NO_POLICY
from fabric.core.workspace_policy.policy import WorkspacePolicy
from fabric.selectors.drafts import DraftView
from fabric.selectors.revision_diff import Change, differences
from fabric.services.checking import Checked, Finding, checked
from fabric.services.publication import Installation
from fabric.services.yaml_tree import YamlProblem, read_yaml

JSON = Any
_TITLE: TypeAdapter[str] = TypeAdapter(Line)


@dataclass(frozen=True, kw_only=True)
class Editing:
    """A draft, what it says, and what is said of it."""

    draft: DraftView
    checked: Checked
    page: str
    """The key of the page that shows it."""
    asked: Mapping[str, str] = field(default_factory=dict)
    """What the address or the form says of how a part is to be shown: which cell is open, and the like."""
    trial: TryBox | None = None
    """The check that is being tried."""
    policy: WorkspacePolicy = NO_POLICY
    """The policy of its workspace."""
    own: JSON = None
    """What its fields show instead, while a question is open: the draft with one's own side in it."""
    own_text: str | None = None
    """What the field of the whole text shows instead, likewise."""

    @property
    def saved(self) -> JSON:
        """What the draft says, as plain values; an empty one where it is no YAML."""
        return self.checked.tree.value if self.checked.tree is not None else {}

    @property
    def tree(self) -> JSON:
        """What its fields show: what the draft says, and one's own side of an open question."""
        return self.saved if self.own is None else self.own

    @property
    def readable(self) -> bool:
        """Whether its text is YAML with fields in it: without that there are no forms."""
        return isinstance(self.saved, dict) and self.checked.tree is not None

    @property
    def spec(self) -> FabricSpec | None:
        """The fabric that it describes; None: it describes none yet."""
        return self.checked.spec

    @property
    def title(self) -> str:
        """What it is called, with whatever is wrong elsewhere; its name where it says nothing that can be a title."""
        try:
            return _TITLE.validate_python(self.saved.get("title") if self.readable else None)
        except ValidationError:
            return self.draft.name

    @cached_property
    def base(self) -> JSON:
        """What it began with, as plain values."""
        try:
            return read_yaml(self.draft.base_text).value
        except YamlProblem:
            return {}

    @cached_property
    def changes(self) -> tuple[Change, ...]:
        """What it changes against what it began with, by path."""
        return tuple(differences(self.base, self.saved)) if self.readable else ()

    def at(self, path: str) -> JSON:
        """What its fields show at a dotted path."""
        return at(self.tree, path)

    def field(self, path: str, **words: str) -> EditField:
        """The field of a place in the draft."""
        return field_at(self.tree, path, base=self.base, findings=self.checked.findings, words=words)

    def fields(self, path: str, *names: str) -> list[EditField]:
        """Fields of a group, in this order; all of it where none is named."""
        shape = shape_of(path) if path else None
        named = names or (shape.fields if shape is not None else ())
        under = f"{path}." if path else ""
        return [self.field(f"{under}{name}") for name in named]

    def count(self, path: str) -> int:
        """How many things a list of the draft has."""
        items = self.at(path)
        return len(items) if isinstance(items, list) else 0

    def about(self, path: str) -> tuple[Finding, ...]:
        """What is said of a path, and of nothing inside it."""
        return self.checked.about(path)


def editing(
    draft: DraftView, installation: Installation | None, page: str = "", asked: Mapping[str, str] | None = None
) -> Editing:
    """A draft, read and checked."""
    found = checked(draft.text, installation, name=draft.name)
    policy = NO_POLICY if installation is None else installation.policy
    return Editing(draft=draft, checked=found, page=page or secrets.token_urlsafe(9), asked=asked or {}, policy=policy)
