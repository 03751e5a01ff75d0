"""``manage.py bench flow5``: the engine's counters a step and its speed beside a bare journal loop, in interleaved rounds.

``manage.py bench pages``: how long the list of runs takes over many runs, and by which plans it is answered.
``manage.py bench live``: from commit to browser, with viewers that are real WebSocket clients.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import connection

from simulator.bench import database

INSIDE = "FABRIC_BENCH_INSIDE"
NUMBERS = ("concurrency", "runs", "rounds", "viewers", "rate", "seconds")
SECONDS_MAX = 60


class Command(BaseCommand):
    """Runs in a database of its own, which it throws away."""

    help = (
        "flow5: commits, syncs, statements and bytes a step, event rows a run, runs a second, and a bare loop's. "
        "pages: milliseconds and plans of the list of runs over --runs generated ones, each view --rounds times. "
        "live: milliseconds from commit to browser."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """The options."""
        parser.add_argument("work", choices=["flow5", "live", "pages"])
        parser.add_argument("--db", choices=["sqlite", "postgresql"], default="sqlite")
        parser.add_argument("--concurrency", type=int, default=8, help="runs unfinished at once (default 8)")
        parser.add_argument("--runs", type=int, default=200, help="runs a round (default 200)")
        parser.add_argument("--rounds", type=int, default=5, help="interleaved rounds; the median counts (default 5)")
        parser.add_argument(
            "--held", action="store_true", help="hold each COMMIT until every unfinished run has a batch ready"
        )
        parser.add_argument("--viewers", type=int, default=100, help="live: pages that follow (default 100)")
        parser.add_argument("--rate", type=int, default=200, help="live: events a second (default 200)")
        parser.add_argument(
            "--seconds", type=int, default=15, help="live: how long at that rate (default 15, at most 60)"
        )
        parser.add_argument("--json", action="store_true", help="end with one line of JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        """Runs it; CommandError with exit code 2 for a bad option."""
        for name in NUMBERS:
            if options[name] < 1:
                raise CommandError(f"--{name} {options[name]}: give a number of at least 1", returncode=2)
        if options["seconds"] > SECONDS_MAX:
            raise CommandError(f"--seconds {options['seconds']}: give at most {SECONDS_MAX}", returncode=2)
        if not os.environ.get(INSIDE):
            self._in_own_database(options)
            return
        if options["work"] == "pages":
            self._pages(options)
            return
        if options["work"] == "live":
            from simulator.bench import live

            found = live.measure(
                options["db"], viewers=options["viewers"], rate=options["rate"], seconds=options["seconds"]
            )
        else:
            found = measure(
                options["db"], options["runs"], options["rounds"], options["concurrency"], held=options["held"]
            )
        if options["json"]:
            self.stdout.write(json.dumps(found))
            return
        for name, value in found.items():
            self.stdout.write(f"{name:>32}  {value}")

    def _pages(self, options: dict[str, Any]) -> None:
        from simulator.bench import pages

        found = pages.measure(options["runs"], options["rounds"])
        if options["json"]:
            self.stdout.write(json.dumps(found))
            return
        for view in found:
            self.stdout.write(pages.LINE.format(**view))
        for view in found:
            self.stdout.write(f"\n--- {view['view']}\n" + "\n\n".join(view["plans"]))

    def _in_own_database(self, options: dict[str, Any]) -> None:
        command = [sys.executable, str(database.ROOT / "manage.py"), "bench", options["work"]]
        for name in ("db", *NUMBERS):
            command += [f"--{name}", str(options[name])]
        command += [f"--{name}" for name in ("held", "json") if options[name]]
        with database.fresh(options["db"]) as environment:
            done = subprocess.run(command, check=False, env={**environment, INSIDE: "1"}, cwd=database.ROOT)
        if done.returncode:
            raise SystemExit(done.returncode)


def measure(db: str, runs: int, rounds: int, concurrency: int, *, held: bool = False) -> dict[str, Any]:
    """The figures of one benchmark in the database that Django is connected to."""
    from fabric import wiring
    from simulator.bench import bare, figures, flow5
    from simulator.bench.lockstep import LockstepWriter

    ids = _rows()
    store: Any = wiring.store()
    loops: list[bare.BareLoop] = (
        [bare.BareSqlite(Path(connection.settings_dict["NAME"]).with_name("bare.sqlite3"))] * concurrency
        if db == "sqlite"
        else [bare.BarePostgresql(wiring.dsn()) for _ in range(concurrency)]
    )
    engine = flow5.Flow5(store, *ids, LockstepWriter(store) if held else None)
    engine.run(max(8, runs // 10), concurrency)
    before = figures.Counted.of(store)
    _, last = engine.run(runs, concurrency)
    spent = figures.Counted.of(store).since(before)
    apart = (
        db == "postgresql" and not held
    )  # SQLite's callers share the engine's file, and in a quick start its process.
    speeds: list[float] = []
    bares: list[float] = []
    for number in range(rounds):
        seconds = engine.run_for_others(runs, concurrency) if apart else engine.run(runs, concurrency)[0]
        speeds.append(runs / seconds)
        bares.append(runs / bare.timed(loops, runs, f"round{number}"))
    engine.stop()
    return {
        "work": "flow5",
        "db": db,
        "concurrency": concurrency,
        "held": held,
        "runs": runs,
        "clients": "a process of their own" if apart else "threads of the engine's process",
        **figures.per_step(spent, runs, syncing=figures.commits_sync(store)),
        "event_rows_per_run": figures.event_rows(store, last),
        "runs_per_s": round(statistics.median(speeds), 1),
        "bare_runs_per_s": round(statistics.median(bares), 1),
        "ratio_to_bare": round(statistics.median(s / b for s, b in zip(speeds, bares, strict=True)), 3),
    }


def _rows() -> tuple[str, str]:
    """A workspace and a published revision for the benchmark's runs."""
    from fabric.models import Fabric, Revision, Workspace
    from simulator.bench import flow5

    workspace = Workspace.objects.create(name="bench")
    fabric = Fabric.objects.create(workspace=workspace, name=flow5.SPEC.name, title=flow5.SPEC.title)
    revision = Revision.objects.create(
        workspace=workspace, fabric=fabric, number=1, digest=flow5.SPEC.digest(), spec=flow5.SPEC.model_dump_json()
    )
    return workspace.id, revision.id
