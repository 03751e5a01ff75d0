"""`manage.py drill run|list|stop`: drills the decision table of a fabric, lists kept drills, and stops all."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from fabric.core.values.units import JSON
from fabric.core.values.words import instant, words
from fabric.management.base import OK, FabricCommand
from fabric.management.nouns import add_verbs
from fabric.selectors.whole_ids import short_id
from fabric.services.actors import owner_actor
from simulator.drills.selectors.drill_views import DrillView
from simulator.drills.selectors.drills import drills_recent

LIMIT = 20


class Command(FabricCommand):
    """Lists kept drills. Its other verbs are commands of their own."""

    help = "Drill the decision table of a fabric, list kept drills, or stop all drills of the workspace."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the verbs."""
        actions = parser.add_subparsers(dest="action", required=True, metavar="VERB")
        listing = actions.add_parser("list", help="kept drills, the newest first")
        listing.add_argument("fabric", nargs="?", default="", metavar="FABRIC", help="of one fabric")
        listing.add_argument("--limit", type=int, default=LIMIT, metavar="N", help=f"at most so many ({LIMIT})")
        listing.add_argument("-q", "--quiet", action="store_true", help="nothing but whole ids")
        listing.add_argument("--json", action="store_true", help="one line of JSON")
        add_verbs(
            actions,
            {
                "run": ("drill_run", "drill cells of a decision table, and judge them"),
                "stop": ("drill_stop", "stop all drills, or allow them again"),
            },
        )

    def act(self, options: dict[str, Any]) -> int:
        """List the drills."""
        found, more = drills_recent(owner_actor(), fabric=options["fabric"], limit=max(1, options["limit"]))
        if options["json"]:
            self.put({"drills": [_drill_json(one) for one in found], "more": more})
            return OK
        for one in found:
            self.stdout.write(one.id if options["quiet"] else _line(one))
        if not found:
            self.tell("no drill was kept")
        if more:
            self.tell("there are more: --limit N")
        return OK


def _line(one: DrillView) -> str:
    what = one.scenario or words(one.failure or "")
    return (
        f"{short_id(one.id)}  {one.verdict or one.status:<9}  {one.drilled_fabric}  {what} x {words(one.tier)}  "
        f"{one.mode}  {instant(one.asked_at)} by {one.asked_by}"
    )


def _drill_json(one: DrillView) -> dict[str, JSON]:
    same = ("id", "fabric", "number", "author", "mode", "scenario", "failure", "tier", "status", "verdict", "why")
    return {name: getattr(one, name) for name in (*same, "asked_by", "asked_at", "ended_at", "run_id")}
