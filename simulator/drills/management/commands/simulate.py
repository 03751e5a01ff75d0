"""`manage.py simulate`: runs the production engine through many seeds of the virtual world and says which of them broke a rule."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from simulator.bench import database
from simulator.kernel.campaign import SeedReport, campaign
from simulator.kernel.plants import PLANTS, in_store

STORES = ("memory", "sqlite")
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
        parser.add_argument(
            "--store", choices=STORES, default="memory", help="sqlite: the real ones, held against those in memory"
        )
        parser.add_argument("--jobs", type=int, default=1, metavar="J", help="processes (1)")
        parser.add_argument("--json", action="store_true", help="end with one line of JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        """Runs the seeds."""
        refusal = _refusal(options)
        if refusal:
            self.stderr.write(refusal, style_func=str)
            sys.exit(2)
        start, many, plant, jobs = options["start"], options["seeds"], options["plant"], options["jobs"]
        store = options["store"]
        told = f"seed {start}: {many} seeds, plant {plant or 'none'}, jobs {jobs}, store {store}"
        self.stderr.write(told, style_func=str)
        self.stderr.flush()
        violations, violating = 0, []
        with _template(store) as file:
            began = time.monotonic()
            for report in campaign(range(start, start + many), plant, jobs, file):
                if report.violations:
                    violations += len(report.violations)
                    violating.append(report.seed)
                    self._tell(report, plant, store)
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

    def _tell(self, report: SeedReport, plant: str, store: str) -> None:
        again = f"manage.py simulate --seeds 1 --start {report.seed}" + (f" --plant {plant}" if plant else "")
        again += f" --store {store}" if store != "memory" else ""
        for one in report.violations:
            where = f"seed {one.seed}, {one.at_s:.3f} s, run {one.run_id}"
            self.stderr.write(f"{where}: {one.invariant}: {one.sentence} (again: {again})", style_func=str)


@contextmanager
def _template(store: str) -> Iterator[Path | None]:
    """A file with all tables and nothing in them; None for the stores in memory."""
    if store == "memory":
        yield None
        return
    with database.fresh("sqlite") as environment:
        [file] = Path(environment["FABRIC_DATA"]).glob("*.sqlite3")
        yield file


def _refusal(options: dict[str, Any]) -> str:
    """What is wrong with the arguments, in one sentence; empty: nothing."""
    if options["seeds"] < 1:
        return f"--seeds is {options['seeds']}: give 1 or more"
    if options["start"] < 0:
        return f"--start is {options['start']}: give 0 or more"
    if options["jobs"] < 1:
        return f"--jobs is {options['jobs']}: give 1 or more"
    if options["store"] != "memory" and in_store(options["plant"]):
        return f"--plant {options['plant']} is a bug of the stores in memory: leave out --store {options['store']}"
    if options["plant"] and options["plant"] not in PLANTS:
        return f"--plant: no bug is named {options['plant']!r}; there are: {', '.join(PLANTS)}"
    return ""
