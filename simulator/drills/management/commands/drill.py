"""`manage.py drill run|list|coverage|stop`: drills decision tables, lists kept drills, counts cells, and stops all."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from fabric.core.values.units import JSON
from fabric.core.values.words import instant, words
from fabric.management.base import OK, FabricCommand
from fabric.management.nouns import add_verbs
from fabric.selectors.whole_ids import short_id
from fabric.services.actors import owner_actor
from simulator.drills.selectors.drill_views import DrillView, State
from simulator.drills.selectors.drills import drills_recent
from simulator.drills.selectors.fleet import FleetRow, fleet_rows

LIMIT = 20


class Command(FabricCommand):
    """Lists kept drills. Its other verbs are commands of their own."""

    help = "Drill the decision table of a fabric, list kept drills, count verified cells, or stop all drills."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the verbs."""
        actions = parser.add_subparsers(dest="action", required=True, metavar="VERB")
        listing = actions.add_parser("list", help="kept drills, the newest first")
        listing.add_argument("fabric", nargs="?", default="", metavar="FABRIC", help="of one fabric")
        listing.add_argument("--limit", type=int, default=LIMIT, metavar="N", help=f"at most so many ({LIMIT})")
        listing.add_argument("-q", "--quiet", action="store_true", help="nothing but whole ids")
        listing.add_argument("--json", action="store_true", help="one line of JSON")
        counting = actions.add_parser("coverage", help="cells of every fabric by their last verdict")
        counting.add_argument("--never", action="store_true", help="only fabrics that were never drilled")
        counting.add_argument("--json", action="store_true", help="one line of JSON")
        add_verbs(
            actions,
            {
                "run": ("drill_run", "drill cells of a decision table, and judge them"),
                "stop": ("drill_stop", "stop all drills, or allow them again"),
            },
        )

    def act(self, options: dict[str, Any]) -> int:
        """List the drills, or the coverage of all fabrics."""
        if options["action"] == "coverage":
            return self._count_cells(options)
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

    def _count_cells(self, options: dict[str, Any]) -> int:
        rows = [one for one in fleet_rows(owner_actor()) if not options["never"] or (one.stand and one.stand.never)]
        if options["json"]:
            self.put({"fabrics": [_fleet_json(one) for one in rows]})
            return OK
        for one in rows:
            self.stdout.write(_fleet_line(one))
        if not rows:
            self.tell("no fabric is published" if not options["never"] else "every fabric was drilled")
        return OK


def _fleet_line(one: FleetRow) -> str:
    if one.stand is None:
        return f"{one.fabric.name}@r{one.fabric.number}  published by another version, which this one cannot read"
    counts = ", ".join(f"{one.count(state)} {state}" for state in State if one.count(state))
    return f"{one.fabric.name}@r{one.fabric.number}  {one.stand.proven} of {one.stand.cells} verified  {counts}"


def _fleet_json(one: FleetRow) -> dict[str, JSON]:
    counts = {str(state): one.count(state) for state in State if one.count(state)}
    last = one.stand.last_at if one.stand else None
    return {"fabric": one.fabric.name, "number": one.fabric.number, "counts": counts, "last_at": last}


def _line(one: DrillView) -> str:
    what = one.scenario or words(one.failure or "")
    return (
        f"{short_id(one.id)}  {one.verdict or one.status:<9}  {one.drilled_fabric}  {what} x {words(one.tier)}  "
        f"{one.mode}  {instant(one.asked_at)} by {one.asked_by}"
    )


def _drill_json(one: DrillView) -> dict[str, JSON]:
    same = ("id", "fabric", "number", "author", "mode", "scenario", "failure", "tier", "status", "verdict", "why")
    return {name: getattr(one, name) for name in (*same, "asked_by", "asked_at", "ended_at", "run_id")}
