"""`manage.py dev simulate`: drives the production engine through seeds of a virtual world, and reports violations."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from fabric.program.name import program
from simulator.installation import database
from simulator.rules.runs.bugs import PLANTS, in_store
from simulator.world.campaign import SeedReport, campaign

STORES = ("memory", "sqlite")
LISTED = 100
"""Number of violating seeds named in the last line."""
PROGRESS_S = 10.0
"""Seconds between two lines of progress."""


class Command(BaseCommand):
    """Exit codes: 0 without a violation, 1 with one, 2 for bad arguments, 128 + signal if interrupted without one."""

    help = "Simulate the engine under faults: every seed is one virtual world. A seed always does the same."
    requires_system_checks: list[str] = []  # noqa: RUF012 - Django's own declaration, and its type.

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the options for seeds, planted bug, processes and output."""
        parser.add_argument("--seeds", type=int, required=True, metavar="N", help="how many seeds")
        parser.add_argument("--start", type=int, default=0, metavar="S", help="the first seed (0)")
        parser.add_argument("--plant", default="", metavar="NAME", help=f"plant a bug to be found: {', '.join(PLANTS)}")
        parser.add_argument(
            "--store", choices=STORES, default="memory", help="sqlite: the real ones, held against those in memory"
        )
        parser.add_argument("--jobs", type=int, default=1, metavar="J", help="processes (1)")
        parser.add_argument("--stop", action="store_true", help="end at the first seed that violates a rule")
        parser.add_argument("--json", action="store_true", help="end with one line of JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        """Run the seeds in order. After any early end, all seeds before the named one have been run."""
        refusal = _refusal(options)
        if refusal:
            self.stderr.write(refusal, style_func=str)
            sys.exit(2)
        start, many, plant, jobs = options["start"], options["seeds"], options["plant"], options["jobs"]
        store = options["store"]
        told = f"seed {start}: {many} seeds, plant {plant or 'none'}, jobs {jobs}, store {store}"
        tally = SeedTally(start, many)
        with _catch_signals() as received:
            try:
                self._say(told)
                with (
                    _template(store) as file,
                    closing(campaign(range(start, start + many), plant, jobs, file)) as reports,
                ):
                    for report in reports:
                        tally.add(report)
                        for line in _lines(report, options):
                            self._say(line)
                        if received or (options["stop"] and report.violations):
                            break
                        if tally.due():
                            self._say(tally.progress())
            except KeyboardInterrupt:
                pass
        if tally.done < many:
            self._say(_remainder_line(tally, options, "interrupted" if received else "stopped"))
        self.stdout.write(json.dumps(tally.build_report()) if options["json"] else tally.describe_report())
        if tally.violations or received:
            sys.exit(1 if tally.violations else 128 + received[0])

    def _say(self, line: str) -> None:
        self.stderr.write(line, style_func=str)
        self.stderr.flush()


class SeedTally:
    """Progress: finished seeds of ``many`` from ``start`` on."""

    def __init__(self, start: int, many: int) -> None:
        self.start, self.many, self.done, self.violations = start, many, 0, 0
        self._violating: list[int] = []
        self._began = self._told = time.monotonic()

    def add(self, report: SeedReport) -> None:
        """Add the next seed's report."""
        self.done += 1
        self.violations += len(report.violations)
        if report.violations:
            self._violating.append(report.seed)

    def due(self) -> bool:
        """Return True if it is time for another line of progress."""
        now = time.monotonic()
        if now - self._told < PROGRESS_S or self.done == self.many:
            return False
        self._told = now
        return True

    def _seeds_per_s(self) -> float:
        return round(self.done / (time.monotonic() - self._began), 1)

    def progress(self) -> str:
        """Return the progress, the speed, and the remaining time."""
        rate = self._seeds_per_s()
        left_min = (self.many - self.done) / max(rate, 0.1) / 60
        return (
            f"{self.done} of {self.many} seeds, {self.violations} violations, {rate} seeds/s, {left_min:.1f} min left"
        )

    def build_report(self) -> dict[str, Any]:
        """Return the last line as JSON; ``next_seed``: the first seed that was not run."""
        return {
            "seeds": self.done,
            "violations": self.violations,
            "violating_seeds": self._violating[:LISTED],
            "seeds_per_s": self._seeds_per_s(),
            "start": self.start,
            "next_seed": self.start + self.done,
        }

    def describe_report(self) -> str:
        """Return the last line in words."""
        named = f" in seeds {', '.join(map(str, self._violating[:LISTED]))}" if self._violating else ""
        return f"{self.done} seeds, {self.violations} violations{named}, {self._seeds_per_s()} seeds/s"


@contextmanager
def _catch_signals() -> Iterator[list[int]]:
    """Yield a list that collects SIGTERM and Ctrl-C, for a check after each seed; a second signal interrupts at
    once.

    The first raises nothing: in a call-back Python would print a traceback and go on.
    """
    received: list[int] = []

    def interrupt(number: int, frame: object) -> None:
        received.append(number)
        if len(received) > 1:
            raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _lines(report: SeedReport, options: dict[str, Any]) -> Iterator[str]:
    """Yield a line for each violation, with the command that repeats its seed."""
    for one in report.violations:
        where = f"seed {one.seed}, {one.at_s:.3f} s, run {one.run_id}"
        again = f"{program()} dev simulate --seeds 1 --start {report.seed}{_how(options)}"
        yield f"{where}: {one.invariant}: {one.sentence} (again: {again})"


def _remainder_line(tally: SeedTally, options: dict[str, Any], why: str) -> str:
    """Return a line with the finished seeds, and the command that runs the others."""
    first, jobs = tally.start + tally.done, options["jobs"]
    ran = f"seeds {tally.start} to {first - 1} were run" if tally.done else "no seed was run to its end"
    beside = f" --jobs {jobs}" if jobs > 1 else ""
    rest = f"{program()} dev simulate --seeds {tally.many - tally.done} --start {first}{_how(options)}{beside}"
    return f"{why}: {ran} (the rest: {rest})"


def _how(options: dict[str, Any]) -> str:
    plant, store = options["plant"], options["store"]
    return (f" --plant {plant}" if plant else "") + (f" --store {store}" if store != "memory" else "")


@contextmanager
def _template(store: str) -> Iterator[Path | None]:
    """Yield a file with all tables, empty; None for the stores in memory."""
    if store == "memory":
        yield None
        return
    with database.temporary_database("sqlite") as environment:
        [file] = Path(environment["FABRIC_DATA"]).glob("*.sqlite3")
        yield file


def _refusal(options: dict[str, Any]) -> str:
    """Return the error in the arguments, in one sentence; empty for none."""
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
