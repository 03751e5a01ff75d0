"""`manage.py admin replay RUN|--all`: refolds journals and compares them, byte for byte, with the stored state."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from fabric.management.base import OK, OTHER_END, FabricCommand
from fabric.selectors.runs.replay import replay_run, run_ids
from fabric.selectors.whole_ids import whole_run_id
from fabric.services.actors import owner_actor


class Command(FabricCommand):
    """Refolds one run, or all of them."""

    help = (
        "Read journals again from their rows and compare them with what the tables say. Ends with one line of JSON; "
        "exit code 1 on a difference."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the run, or the option for all of them."""
        which = parser.add_mutually_exclusive_group(required=True)
        which.add_argument("run", nargs="?", metavar="RUN", help="its id, or a part that begins or ends it")
        which.add_argument("--all", action="store_true", help="every run of the workspace")
        parser.add_argument("--json", action="store_true", help="nothing but the line of JSON")

    def act(self, options: dict[str, Any]) -> int:
        """Refold and report the differences."""
        actor = owner_actor()
        runs = events = 0
        differing: list[dict[str, Any]] = []
        for run_id in run_ids(actor) if options["all"] else [whole_run_id(actor, options["run"])]:
            found = replay_run(actor, run_id)
            runs, events = runs + 1, events + found.events
            if found.differences:
                differing.append({"run_id": run_id, "differences": list(found.differences)})
            if not options["json"]:
                differences = "; ".join(found.differences) or "the same"
                self.stdout.write(f"{run_id}  {found.events:>5} events  {differences}")
        count = sum(len(one["differences"]) for one in differing)
        self.put({"runs": runs, "events": events, "differences": count, "differing": differing})
        return OTHER_END if count else OK
