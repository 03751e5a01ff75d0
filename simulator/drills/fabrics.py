"""Finds the fabrics to drill: the default table's, samples, a draft in a file, or published ones."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from fabric.core.people.actor import Actor
from fabric.core.spec.fabric import FabricSpec
from fabric.selectors.fabrics.lookup import revision_get
from fabric.services.fabrics.publication.rules import publication_problems
from fabric.services.fabrics.templates import SAMPLES
from fabric.services.fabrics.yaml.document import fabric_read, refusal
from fabric.services.installation import facts as here

DEFAULT_TABLE = "default-table"
"""Name of the fabric without settings of its own."""
DEFAULT = Path(__file__).with_name(f"{DEFAULT_TABLE}.yaml")


def _read_shipped(path: Path) -> FabricSpec:
    return fabric_read(path.read_text(encoding="utf-8"), origin=path.name).spec


def default_table() -> FabricSpec:
    """Return the fabric that has the default table."""
    return _read_shipped(DEFAULT)


def samples() -> list[FabricSpec]:
    """Return the fabrics that come with the product, by name."""
    return [_read_shipped(path) for path in sorted(SAMPLES.glob("*.yaml"), key=lambda path: path.stem)]


def draft(text: str, *, origin: str, providers: Collection[str]) -> FabricSpec:
    """Return the fabric in a YAML file that could be published here. Raises Refused with every problem and its
    place.
    """
    read = fabric_read(text, origin=origin)
    if problems := publication_problems(read.spec, here.installation(providers)):
        raise refusal(problems, read.tree, read.origin)
    return read.spec


def published_spec(actor: Actor, name: str, number: int | None = None) -> FabricSpec:
    """Return a published fabric, in its published or a named revision. Raises Refused not_found."""
    return revision_get(actor, name, number).spec
