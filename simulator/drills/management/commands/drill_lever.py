"""`manage.py drill_lever pull|release|show`: stops every stored drill of the workspace, and lets them begin again."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from fabric.management.base import OK, FabricCommand
from fabric.services.workspaces import owner_actor
from simulator.drills.lever import lever_of, lever_pull, lever_release


class Command(FabricCommand):
    """Exit code 0: done; 2: refused, with a sentence."""

    help = (
        "The lever of drills. Pulled, every drill of the workspace that waits or runs ends within a second, virtual and live, and none is begun until it is "
        "released: from no page, API, schedule or command. `manage.py drill`, which keeps nothing and touches no run, goes on."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """What to do."""
        parser.add_argument("what", choices=("pull", "release", "show"), help="what to do")
        parser.add_argument(
            "--reason", default="", help="why: kept with the drills and in the audit stream; needed to pull and release"
        )
        parser.add_argument("--json", action="store_true", help="end with one line of JSON")

    def act(self, options: dict[str, Any]) -> int:
        """Does it."""
        actor, ended = owner_actor(), 0
        if options["what"] == "pull":
            ended = lever_pull(actor=actor, reason=options["reason"])
        elif options["what"] == "release":
            lever_release(actor=actor, reason=options["reason"])
        seen = lever_of(actor)
        if options["json"]:
            told = {"by": seen.pulled_by, "at": seen.pulled_at, "reason": seen.reason} if seen else {}
            self.put({"pulled": seen is not None, **told, "stopped": ended})
            return OK
        if options["what"] == "pull":
            self.stdout.write(f"{ended} drill{'s were' if ended != 1 else ' was'} stopped.")
        self.stdout.write(f"{seen.said}" if seen else "The lever is at rest: drills may be asked for.")
        return OK
