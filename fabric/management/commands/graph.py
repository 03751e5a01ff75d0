"""`manage.py graph import|export|registered`: converts graphs of transitions from AG2 and Fabro, and for AG2; lists
this installation's rules for graphs.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from fabric.core.people.actor import Actor
from fabric.core.spec.topologies.graph import GraphTopology
from fabric.core.spec.topologies.hierarchical import HierarchicalTopology
from fabric.core.values.units import JSON
from fabric.management.base import OK, FabricCommand, read_text
from fabric.selectors.fabrics.lookup import revision_get
from fabric.services.actors import owner_actor
from fabric.services.errors import Refused
from fabric.services.fabrics.yaml.document import fabric_read
from fabric.services.fabrics.yaml.export import export_revision
from fabric.services.importers.graphs.files import BYTES_MAX, FORMS, ImportedGraph, graph_read, graph_written, yaml_text
from fabric.services.installation import facts as here

_NAMED = re.compile(r"([a-z][a-z0-9_-]{0,62})(?:@([1-9][0-9]{0,8}))?")


class Command(FabricCommand):
    """Imports and exports graphs of transitions of other programs."""

    help = (
        "Read a graph of AG2 or Fabro as the topology of a fabric, write a fabric's graph for AG2, or list the conditions and targets "
        "that FABRIC_GRAPH_RULES registers."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the actions and their sources."""
        parser.add_argument(
            "action",
            choices=("import", "export", "registered"),
            help="read a file, write a fabric's graph, or list what is registered here",
        )
        parser.add_argument(
            "source", metavar="FILE|NAME", nargs="?", help="import: a file; export: a file, a fabric, or NAME@N"
        )
        parser.add_argument("--form", choices=FORMS, help="import: else as the file looks; export: ag2")
        parser.add_argument("--team", metavar="LEAD", help="export: the graph of the team that this worker leads")
        parser.add_argument(
            "--partial",
            action="store_true",
            help="import: read a file whose whole has no counterpart, and say what is missing",
        )
        parser.add_argument(
            "--name",
            action="append",
            default=[],
            metavar="ID=NAME",
            help="import: the name of a participant, which AG2 keeps in its Passport; may be repeated",
        )
        parser.add_argument("--json", action="store_true", help="end with one line of JSON")

    def act(self, options: dict[str, Any]) -> int:
        """Carry out the chosen action."""
        if options["action"] == "registered":
            return self._list_registered(options)
        if options["source"] is None:
            raise Refused(
                f"say what to {options['action']}: a file, or a fabric's name", code="invalid", field="source"
            )
        if options["action"] == "import":
            return self._import(options)
        graph = _topology(owner_actor(), options["source"], options["team"]).graph
        text = graph_written(graph, form=options["form"] or "ag2")
        self.stdout.write(text, ending="")
        return OK

    def _list_registered(self, options: dict[str, Any]) -> int:
        found = here.graph_rules()
        names = {"conditions": list(found.conditions.names), "targets": list(found.targets.names)}
        if options["json"]:
            self.put(names)
        else:
            for what, known in names.items():
                self.stdout.write(f"{what:<10} {', '.join(known) or 'none'}")
        return OK

    def _import(self, options: dict[str, Any]) -> int:
        path = Path(options["source"])
        source = read_text(path, most=BYTES_MAX, what="a graph")
        names = dict(_name_pair(one) for one in options["name"])
        found = graph_read(source, form=options["form"], origin=path.name, partial=options["partial"], names=names)
        if options["json"]:
            self.put(_import_json(found))
        else:
            self.stdout.write(yaml_text(found), ending="")
        self.tell(*(f"not taken over: {one}" for one in found.left))
        return OK


def _name_pair(given: str) -> tuple[str, str]:
    key, equals, name = given.partition("=")
    if not equals:
        raise Refused(f"{given[:60]!r} has no name; write ID=NAME", code="invalid", field="name")
    return key, name


def _import_json(found: ImportedGraph) -> JSON:
    return {
        "form": found.form,
        "topology": found.topology,
        "policy": found.policy,
        "parts": found.parts,
        "renamed": dict(found.renamed),
        "taken": list(found.taken),
        "left": list(found.left),
    }


def _topology(actor: Actor, given: str, lead: str | None) -> GraphTopology:
    """Return the graph of a published fabric, of a file, or of one of its teams. Raises Refused for another
    topology, and for an unknown team.
    """
    if named := _NAMED.fullmatch(given):
        text = export_revision(revision_get(actor, named[1], int(named[2]) if named[2] else None))
    else:
        text = read_text(Path(given), most=BYTES_MAX, what="a fabric")
    topology, whose = fabric_read(text, origin=given).spec.topology, given
    teams = topology.teams if isinstance(topology, HierarchicalTopology) else {}
    if lead is not None:
        if lead not in teams:
            known = f"its teams are led by {', '.join(teams)}" if teams else "it has no teams"
            raise Refused(f"{given} has no team that {lead} leads: {known}", code="invalid", field="team")
        topology, whose = teams[lead].topology, f"the team of {lead} in {given}"
    if isinstance(topology, GraphTopology):
        return topology
    drawn = [name for name, team in teams.items() if isinstance(team.topology, GraphTopology)]
    hint = f"; --team takes {' or '.join(drawn)}" if drawn and lead is None else ""
    message = f"{whose} is no graph: its topology is {topology.kind}{hint}"
    raise Refused(message, code="invalid", field="topology.kind")
