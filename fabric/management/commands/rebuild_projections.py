"""`manage.py admin rebuild [--run R] [--check]`: computes rows and reviews again from events, and repairs
them.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from django.core.management.base import CommandParser

from fabric.management.base import OK, OTHER_END, FabricCommand
from fabric.selectors.runs.replay import run_ids
from fabric.selectors.whole_ids import whole_run_id
from fabric.services.actors import owner_actor
from fabric.services.runs.projections import projections_rebuild


class Command(FabricCommand):
    """Rebuilds all runs, or one."""

    help = (
        "Work out the rows of runs and the open reviews again from the events, and put them right; --check only says "
        "what differs. Runs that a worker owns are left alone, and so are damaged journals. Exit code 1 when something "
        "is damaged, or with --check differs."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the run, and the option to change nothing."""
        parser.add_argument("--run", default="", metavar="RUN", help="that run alone")
        parser.add_argument("--check", action="store_true", help="change nothing")
        parser.add_argument("--json", action="store_true", help="nothing but a line of JSON")

    def act(self, options: dict[str, Any]) -> int:
        """Rebuild, and report the differences."""
        actor = owner_actor()
        results: Counter[str] = Counter()
        rebuilt: list[dict[str, Any]] = []
        for run_id in [whole_run_id(actor, options["run"])] if options["run"] else run_ids(actor):
            found = projections_rebuild(actor=actor, run_id=run_id, check=options["check"])
            results[found.result] += 1
            if found.result == "same":
                continue
            rebuilt.append({"run_id": run_id, "result": found.result, "says": list(found.says)})
            if not options["json"]:
                self.stdout.write(f"{run_id}  {found.result}: {'; '.join(found.says)}")
        if options["json"]:
            self.put({"runs": results.total(), **results, "told": rebuilt})
        else:
            listed = ", ".join(f"{count:,} {result}" for result, count in sorted(results.items()))
            self.stdout.write(f"Looked at {results.total():,} runs: {listed or 'there are none'}.")
        return OTHER_END if results["damaged"] or results["differs"] else OK
