"""`manage.py fabric list` and `manage.py fabric publish FILE`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from fabric.management.base import OK, FabricCommand, providers, read_text
from fabric.selectors.fabrics import FabricView, fabrics_list
from fabric.services.fabrics import Published, fabric_publish
from fabric.services.workspaces import owner_actor
from fabric.services.yaml_tree import BYTES_MAX

JSON = Any


class Command(FabricCommand):
    """Lists fabrics, or publishes one from a YAML file."""

    help = "List the published fabrics, or publish one from a YAML file."

    def add_arguments(self, parser: CommandParser) -> None:
        """``list`` and ``publish FILE``, each with ``--json``."""
        actions = parser.add_subparsers(dest="action", required=True, metavar="list|publish")
        listing = actions.add_parser("list", help="the published fabrics")
        publishing = actions.add_parser("publish", help="publish a fabric from a YAML file")
        publishing.add_argument("file", type=Path, metavar="FILE")
        for action in (listing, publishing):
            action.add_argument("--json", action="store_true", help="one line of JSON")

    def act(self, options: dict[str, Any]) -> int:
        """Lists or publishes."""
        if options["action"] == "publish":
            return self._publish(options["file"], as_json=options["json"])
        return self._list(as_json=options["json"])

    def _list(self, *, as_json: bool) -> int:
        found = fabrics_list(owner_actor())
        if as_json:
            self.put([_listed(view) for view in found])
            return OK
        width = max((len(view.name) for view in found), default=0)
        for view in found:
            self.stdout.write(f"{view.name:<{width}}  revision {view.number}  {view.tier:<11}  {view.title}")
        if not found:
            self.tell("no fabric is published yet; publish one with `manage.py fabric publish FILE`")
        return OK

    def _publish(self, path: Path, *, as_json: bool) -> int:
        source = read_text(path, most=BYTES_MAX, what="a fabric")
        published = fabric_publish(actor=owner_actor(), source=source, origin=path.name, providers=providers())
        self.tell(*(f"note: {warning}" for warning in published.warnings))
        self.tell(*(f"deviation: {one.path}: {one.what} ({one.reason})" for one in published.deviations))
        if as_json:
            self.put(_published(published))
        else:
            how = "is published" if published.changed else "was published already; nothing changed"
            self.stdout.write(f"{published.name}: revision {published.number} {how}")
        return OK


def _listed(view: FabricView) -> JSON:
    return {
        "name": view.name,
        "title": view.title,
        "description": view.description,
        "number": view.number,
        "digest": view.digest,
        "tier": view.tier.value,
        "tiers": [tier.value for tier in view.tiers],
        "published_at": view.published_at.isoformat(),
        "published_by": view.published_by,
    }


def _published(found: Published) -> JSON:
    return {
        "name": found.name,
        "title": found.title,
        "number": found.number,
        "digest": found.digest,
        "changed": found.changed,
        "deviations": [{"path": one.path, "what": one.what, "reason": one.reason} for one in found.deviations],
        "warnings": list(found.warnings),
    }
