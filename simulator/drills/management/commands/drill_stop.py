"""`manage.py drill stop pull|release|show`: stops every stored drill of the workspace, and allows new ones."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from fabric.management.base import OK, FabricCommand
from fabric.services.actors import owner_actor
from simulator.drills.services.drill_stop import find_drill_stop, pull_drill_stop, release_drill_stop


class Command(FabricCommand):
    """Exit code 0: done; 2: refused, with a sentence."""

    help = (
        "Stop all drills of the workspace (pull), or allow them again (release). Stopping ends every stored drill within a second, and none starts until release. "
        "`drill run` without --stale still works: it stores nothing."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the act."""
        parser.add_argument("what", choices=("pull", "release", "show"), help="the act")
        parser.add_argument(
            "--reason", default="", help="why: kept with the drills and in the audit stream; needed to pull and release"
        )
        parser.add_argument("--json", action="store_true", help="end with one line of JSON")

    def act(self, options: dict[str, Any]) -> int:
        """Carry out the act, and print the result."""
        actor, ended = owner_actor(), 0
        if options["what"] == "pull":
            ended = pull_drill_stop(actor=actor, reason=options["reason"])
        elif options["what"] == "release":
            release_drill_stop(actor=actor, reason=options["reason"])
        seen = find_drill_stop(actor)
        if options["json"]:
            told = {"by": seen.pulled_by, "at": seen.pulled_at, "reason": seen.reason} if seen else {}
            self.put({"pulled": seen is not None, **told, "stopped": ended})
            return OK
        if options["what"] == "pull":
            self.stdout.write(f"{ended} drill{'s were' if ended != 1 else ' was'} stopped.")
        self.stdout.write(f"{seen.said}" if seen else "Drills are allowed.")
        return OK
