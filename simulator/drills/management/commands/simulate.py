"""`manage.py simulate`: runs the production engine through many seeds of the virtual world and says which of them broke a rule."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from simulator.kernel.campaign import SeedReport, campaign
from simulator.kernel.plants import PLANTS

LISTED = 100
"""Violating seeds that are named in the last line."""


class Command(BaseCommand):
    """Exit code 0: no violation; 1: at least one; 2: bad arguments."""

    help = "Simulate the engine under faults: every seed is one virtual world. A seed always does the same."
    requires_system_checks: list[str] = []  # noqa: RUF012 - Django's own declaration, and its type.

    def add_arguments(self, parser: CommandParser) -> None:
        """Which seeds, which planted bug, how many processes, which form of answer."""
        parser.add_argument("--seeds", type=int, required=True, metavar="N", help="how many seeds")
        parser.add_argument("--start", type=int, default=0, metavar="S", help="the first seed (0)")
        parser.add_argument("--plant", default="", metavar="NAME", help=f"plant a bug to be found: {', '.join(PLANTS)}")
        parser.add_argument("--jobs", type=int, default=1, metavar="J", help="processes (1)")
        parser.add_argument("--json", action="store_true", help="end with one line of JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        """Runs the seeds."""
        refusal = _refusal(options)
        if refusal:
            self.stderr.write(refusal, style_func=str)
            sys.exit(2)
        start, many, plant, jobs = options["start"], options["seeds"], options["plant"], options["jobs"]
        self.stderr.write(f"seed {start}: {many} seeds, plant {plant or 'none'}, jobs {jobs}", style_func=str)
        self.stderr.flush()
        began, violations, violating = time.monotonic(), 0, []
        for report in campaign(range(start, start + many), plant, jobs):
            if report.violations:
                violations += len(report.violations)
                violating.append(report.seed)
                self._tell(report, plant)
        seeds_per_s = round(many / (time.monotonic() - began), 1)
        if options["json"]:
            found = {
                "seeds": many,
                "violations": violations,
                "violating_seeds": violating[:LISTED],
                "seeds_per_s": seeds_per_s,
            }
            self.stdout.write(json.dumps(found))
        else:
            named = f" in seeds {', '.join(map(str, violating[:LISTED]))}" if violating else ""
            self.stdout.write(f"{many} seeds, {violations} violations{named}, {seeds_per_s} seeds/s")
        if violations:
            sys.exit(1)

    def _tell(self, report: SeedReport, plant: str) -> None:
        again = f"manage.py simulate --seeds 1 --start {report.seed}" + (f" --plant {plant}" if plant else "")
        for one in report.violations:
            where = f"seed {one.seed}, {one.at_s:.3f} s, run {one.run_id}"
            self.stderr.write(f"{where}: {one.invariant}: {one.sentence} (again: {again})", style_func=str)


def _refusal(options: dict[str, Any]) -> str:
    """What is wrong with the arguments, in one sentence; empty: nothing."""
    if options["seeds"] < 1:
        return f"--seeds is {options['seeds']}: give 1 or more"
    if options["start"] < 0:
        return f"--start is {options['start']}: give 0 or more"
    if options["jobs"] < 1:
        return f"--jobs is {options['jobs']}: give 1 or more"
    if options["plant"] and options["plant"] not in PLANTS:
        return f"--plant: no bug is named {options['plant']!r}; there are: {', '.join(PLANTS)}"
    return ""
