"""Reads single parts of a draft, whose other parts may have errors."""

from __future__ import annotations

from typing import TypeVar

from pydantic import ValidationError

from fabric.core.people.actor import Actor
from fabric.core.schema.parts import Named
from fabric.core.values.units import JSON
from fabric.services.drafts.changes import draft_own
from fabric.services.errors import Refused
from fabric.services.fabrics.yaml.tree import YamlProblem, read_yaml

P = TypeVar("P", bound=Named)


def read_tree(actor: Actor, fabric: str) -> dict[str, JSON]:
    """Return the actor's draft as a tree. Raises Refused: forbidden, not_found, invalid (its text is no YAML)."""
    try:
        tree = read_yaml(draft_own(actor=actor, name=fabric).text).value
    except YamlProblem:
        raise Refused("the draft's text is no YAML just now: mend it first", code="invalid", field="text") from None
    return tree if isinstance(tree, dict) else {}


def find_part(tree: dict[str, JSON], noun: str, name: str, kind: type[P], *, then: str) -> P:
    """Return the tool, agent or model of that name. ``then``: the act that its errors prevent.

    Raises Refused: not_found, invalid (it has errors).
    """
    listed = tree.get(f"{noun}s")
    for one in listed if isinstance(listed, list) else ():
        if isinstance(one, dict) and one.get("name") == name:
            try:
                return kind.model_validate(one)
            except ValidationError:
                message = f"{noun} {name[:80]!r} has errors: fix them in the draft, then {then}"
                raise Refused(message, code="invalid", field=noun) from None
    raise Refused(f"the draft has no {noun} {name[:80]!r}", code="not_found", field=noun)
