"""Which fabrics are drilled: the default table's, a sample, a draft in a file, or what is published."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from fabric.core.actor import Actor
from fabric.core.spec import FabricSpec
from fabric.selectors.fabrics import revision_get
from fabric.services import here
from fabric.services.fabric_yaml import fabric_read, refusal
from fabric.services.publication import publication_problems
from fabric.services.samples import SAMPLES

DEFAULT_TABLE = "default-table"
"""The name of the fabric that says nothing of its own."""
DEFAULT = Path(__file__).with_name(f"{DEFAULT_TABLE}.yaml")


def _shipped(path: Path) -> FabricSpec:
    return fabric_read(path.read_text(encoding="utf-8"), origin=path.name).spec


def default_table() -> FabricSpec:
    """The fabric that shows what the default table says."""
    return _shipped(DEFAULT)


def samples() -> list[FabricSpec]:
    """The fabrics that come with the product, by name."""
    return [_shipped(path) for path in sorted(SAMPLES.glob("*.yaml"), key=lambda path: path.stem)]


def draft(text: str, *, origin: str, providers: Collection[str]) -> FabricSpec:
    """A fabric in YAML that could be published here. Refused with every problem, file, line and field first."""
    read = fabric_read(text, origin=origin)
    if problems := publication_problems(read.spec, here.installation(providers)):
        raise refusal(problems, read.tree, read.origin)
    return read.spec


def published(actor: Actor, name: str, number: int | None = None) -> FabricSpec:
    """A published fabric, as a new run would pin it or in that revision. Refused not_found."""
    return revision_get(actor, name, number).spec
