"""``manage.py dev bench WORK``: measures one thing, in a database of its own that is thrown away."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser, DjangoHelpFormatter
from django.db import connection

from fabric.core.spec.fabric import FabricSpec
from simulator.installation import database
from tests.benchmarks.throughput.spec import SPEC

INSIDE = "FABRIC_BENCH_INSIDE"
NUMBERS = ("concurrency", "runs", "rounds", "viewers", "rate", "seconds", "processes", "spends", "scopes", "paused")
SECONDS_MAX = 60
SCOPES_MAX = 5
WORKERS = (1, 2, 4)
"""Numbers of worker processes that backlog compares."""
SIZE_MAX = 1_000
"""As many briefs as a plan may have."""


class _Lines(RawDescriptionHelpFormatter, DjangoHelpFormatter):
    """Keeps the lines of the description."""


class Command(BaseCommand):
    """Runs in a database of its own, which it throws away."""

    requires_system_checks: list[str] = []  # noqa: RUF012 - Django's own declaration, and its type.

    help = "Measure one thing, in a database of its own."

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        """Its help has a line for each work."""
        lines = [f"{name}: {one.__doc__}" for name, one in sorted(WORKS.items())]
        parser = super().create_parser(prog_name, subcommand, formatter_class=_Lines, **kwargs)
        parser.description = "\n".join([self.help, "", *lines])
        return parser

    def add_arguments(self, parser: ArgumentParser) -> None:
        """The options."""
        parser.add_argument("work", choices=sorted(WORKS))
        parser.add_argument("--db", choices=["sqlite", "postgresql"], default="sqlite")
        parser.add_argument("--concurrency", type=int, default=8, help="runs unfinished at once (default 8)")
        parser.add_argument("--runs", type=int, default=200, help="runs a round (default 200)")
        parser.add_argument("--rounds", type=int, default=5, help="interleaved rounds; the median counts (default 5)")
        parser.add_argument(
            "--held", action="store_true", help="hold each COMMIT until every unfinished run has a batch ready"
        )
        parser.add_argument(
            "--peers", action="store_true", help="flow5, turn: beside DBOS and LangGraph (installs them, once)"
        )
        parser.add_argument("--viewers", type=int, default=100, help="live: pages that follow (default 100)")
        parser.add_argument("--rate", type=int, default=200, help="live: events a second (default 200)")
        parser.add_argument("--seconds", type=int, default=15, help="live, idle: how long (default 15, at most 60)")
        parser.add_argument("--processes", type=int, default=8, help="spends: processes at once (default 8)")
        parser.add_argument("--spends", type=int, default=100, help="spends: calls a process (default 100)")
        parser.add_argument("--scopes", type=int, default=5, help="spends: scopes of each call (default 5, at most 5)")
        parser.add_argument(
            "--kill-between", type=int, default=0, help="spends: processes killed between any two lines (default 0)"
        )
        parser.add_argument(
            "--events",
            default="100,10000",
            help="long: at which events of a run, page, resume: of how many the run is (default 100,10000)",
        )
        parser.add_argument("--paused", type=int, default=10_000, help="idle: runs that wait (default 10000)")
        parser.add_argument("--sizes", default="1,10,100,1000", help="fanout: briefs of a run (default 1,10,100,1000)")
        parser.add_argument("--json", action="store_true", help="end with one line of JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        """Runs it; CommandError with exit code 2 for a bad option."""
        for name in NUMBERS:
            if options[name] < 1:
                raise CommandError(f"--{name} {options[name]}: give a number of at least 1", returncode=2)
        if options["seconds"] > SECONDS_MAX:
            raise CommandError(f"--seconds {options['seconds']}: give at most {SECONDS_MAX}", returncode=2)
        if options["scopes"] > SCOPES_MAX or options["kill_between"] < 0:
            raise CommandError(f"give --scopes of 1 to {SCOPES_MAX} and --kill-between of at least 0", returncode=2)
        _marks(options["events"])
        _sizes(options["sizes"])
        if not os.environ.get(INSIDE):
            self._in_own_database(options)
            return
        WORKS[options["work"]](self, options)

    def _say(self, found: dict[str, Any], options: dict[str, Any]) -> None:
        if options["json"]:
            self.stdout.write(json.dumps(found))
            return
        for name, value in found.items():
            self.stdout.write(f"{name:>32}  {value}")

    def _flow5(self, options: dict[str, Any]) -> None:
        """commits, syncs, statements and bytes of a step; runs a second beside a bare loop, with --peers beside DBOS and LangGraph"""
        numbers = [options[name] for name in ("runs", "rounds", "concurrency")]
        if options["peers"]:
            self._peers(options["db"], numbers, options)
            return
        self._say(measure(options["db"], *numbers, held=options["held"]), options)

    def _peers(self, db: str, numbers: list[int], options: dict[str, Any]) -> None:
        from tests.benchmarks.peers.environments import PeerMissing

        try:
            found = beside_peers(db, *numbers)
        except PeerMissing as error:
            raise CommandError(str(error), returncode=2) from None
        ratios = found.pop("ratios")
        self._say(found, options)
        self.stdout.write(json.dumps({"ratios": ratios}))

    def _live(self, options: dict[str, Any]) -> None:
        """milliseconds from commit to browser, with --viewers that are real WebSocket clients"""
        from tests.benchmarks.console import live

        numbers = {name: options[name] for name in ("viewers", "rate", "seconds")}
        self._say(live.measure(options["db"], **numbers), options)

    def _audit(self, options: dict[str, Any]) -> None:
        """--concurrency writers of --runs lines each in the audit stream, sealed and verified meanwhile"""
        from tests.benchmarks import audit_stream

        self._say(audit_stream.measure(options["concurrency"], options["runs"]), options)

    def _idle(self, options: dict[str, Any]) -> None:
        """statements, connections, threads and memory of a worker while --paused runs wait for a person"""
        from fabric.composition import engine as wiring
        from tests.benchmarks import idle

        if options["db"] != "postgresql":
            raise CommandError("--db sqlite: statements are counted on the wire, so give --db postgresql", returncode=2)
        self._say(idle.measure(wiring.store(), *_rows(idle.SPEC), options["paused"], options["seconds"]), options)

    def _chord(self, options: dict[str, Any]) -> None:
        """runs a second and messages a run through Celery, beside a Celery chord"""
        from tests.benchmarks.throughput import chord

        if options["db"] != "postgresql":
            raise CommandError(
                "--db sqlite: workers behind a broker share a server, so give --db postgresql", returncode=2
            )
        numbers = {name: options[name] for name in ("runs", "rounds", "concurrency")}
        found = chord.measure(numbers["runs"], numbers["rounds"], numbers["concurrency"])
        self._say({"work": "chord", "db": options["db"], **numbers, **found}, options)

    def _fanout(self, options: dict[str, Any]) -> None:
        """microseconds, commits, statements and bytes a step of fan-outs of --sizes; a plan has at most 1,000 briefs"""
        self._say(fan_outs(options["db"], _sizes(options["sizes"]), options["rounds"]), options)

    def _long(self, options: dict[str, Any]) -> None:
        """statements, rows read and milliseconds a step at each of --events"""
        self._say(_long("long", _marks(options["events"])), options)

    def _resume(self, options: dict[str, Any]) -> None:
        """milliseconds of a resume at the last of --events; on PostgreSQL also from one process to another"""
        found = _long("resume", _marks(options["events"]))
        if options["db"] == "postgresql":
            from tests.benchmarks import across

            found |= across.measure()
        self._say(found, options)

    def _page(self, options: dict[str, Any]) -> None:
        """milliseconds and bytes of the page of a run of the last of --events"""
        from fabric.composition import engine as wiring
        from tests.benchmarks.console import one_page

        found = one_page.measure_run_page(wiring.store(), _marks(options["events"])[-1], options["rounds"])
        self._say({"work": "page", "db": options["db"], **found}, options)

    def _publish(self, options: dict[str, Any]) -> None:
        """milliseconds of the publication of the largest sample"""
        from tests.benchmarks.console import one_page

        self._say({"work": "publish", "db": options["db"], **one_page.measure_publication(options["rounds"])}, options)

    def _finished(self, options: dict[str, Any]) -> None:
        """fresh runs a second in an empty database, and beside --runs finished runs"""
        from tests.benchmarks.backlog import finished

        numbers = [options[name] for name in ("runs", "rounds", "concurrency")]
        self._say({"work": "finished", "db": options["db"], **finished.measure(options["db"], *numbers)}, options)

    def _pages(self, options: dict[str, Any]) -> None:
        """milliseconds and plans of each view of the list of --runs generated runs"""
        from tests.benchmarks.console import pages

        found = pages.measure(options["runs"], options["rounds"])
        if options["json"]:
            self.stdout.write(json.dumps(found))
            return
        for view in found:
            self.stdout.write(pages.LINE.format(**view))
        for view in found:
            self.stdout.write(f"\n--- {view['view']}\n" + "\n\n".join(view["plans"]))

    def _spends(self, options: dict[str, Any]) -> None:
        """processes that spend against shared caps; it fails where a cap is passed"""
        from fabric.composition import engine as wiring
        from fabric.models import Workspace
        from tests.benchmarks.caps import spends

        db = options["db"]
        address = wiring.dsn() if db == "postgresql" else str(connection.settings_dict["NAME"])
        workspace = Workspace.objects.create(name="bench")
        numbers = {name: options[name] for name in ("processes", "spends", "scopes")}
        found = spends.measure(db, address, workspace.id, kills=options["kill_between"], **numbers)
        values = {"work": "spends", "db": db, **numbers, **asdict(found), "faults": found.faults()}
        self._say(values, options)
        if found.faults():
            raise CommandError(f"shared caps did not hold: {found.faults()}")

    def _capped(self, options: dict[str, Any]) -> None:
        """runs in worker processes under a cap of their fabric; it fails where the cap is passed"""
        from fabric.composition import engine as wiring
        from tests.benchmarks.caps import capped

        db = options["db"]
        address = wiring.dsn() if db == "postgresql" else str(connection.settings_dict["NAME"])
        numbers = {name: options[name] for name in ("runs", "processes")}
        found = capped.measure(db, address, _rows(SPEC), kills=options["kill_between"], **numbers)
        self._say({"work": "capped", "db": db, **numbers, **asdict(found), "faults": found.faults()}, options)
        if found.faults():
            raise CommandError(f"the cap did not hold: {found.faults()}")

    def _backlog(self, options: dict[str, Any]) -> None:
        """runs a second of 1, 2 and 4 worker processes, and how even their shares are"""
        from fabric.composition import engine as wiring
        from tests.benchmarks.backlog import drain

        db = options["db"]
        address = wiring.dsn() if db == "postgresql" else str(connection.settings_dict["NAME"])
        found = drain.measure(db, address, _rows(SPEC), WORKERS, options["runs"], options["rounds"])
        self._say({"work": "backlog", "db": db, "runs": options["runs"], **found}, options)

    def _turn(self, options: dict[str, Any]) -> None:
        """microseconds of the guard for one tool call and of a turn, at turns 10 and 200; with --peers beside LangGraph"""
        from tests.benchmarks import turns
        from tests.benchmarks.peers.environments import PeerMissing

        try:
            found = turns.measure(options["rounds"], peers=options["peers"])
        except PeerMissing as error:
            raise CommandError(str(error), returncode=2) from None
        self._say(found, options)

    def _drills(self, options: dict[str, Any]) -> None:
        """cells and simulated runs a second of one core, in simulated time"""
        from tests.benchmarks import drills

        self._say(drills.measure(options["rounds"]), options)

    def _in_own_database(self, options: dict[str, Any]) -> None:
        command = [*database.MANAGE, "dev", "bench", options["work"]]
        for name in ("db", "events", *NUMBERS, "kill_between"):
            command += [f"--{name.replace('_', '-')}", str(options[name])]
        command += ["--sizes", options["sizes"]]
        command += [f"--{name}" for name in ("held", "json", "peers") if options[name]]
        with database.temporary_database(options["db"]) as environment:
            done = subprocess.run(command, check=False, env={**environment, INSIDE: "1"}, cwd=database.ROOT)
        if done.returncode:
            raise SystemExit(done.returncode)


WORKS: Mapping[str, Callable[[Command, dict[str, Any]], None]] = {
    "audit": Command._audit,
    "backlog": Command._backlog,
    "capped": Command._capped,
    "chord": Command._chord,
    "drills": Command._drills,
    "fanout": Command._fanout,
    "finished": Command._finished,
    "flow5": Command._flow5,
    "idle": Command._idle,
    "live": Command._live,
    "long": Command._long,
    "page": Command._page,
    "pages": Command._pages,
    "publish": Command._publish,
    "resume": Command._resume,
    "spends": Command._spends,
    "turn": Command._turn,
}
"""Every benchmark by its name; each says what it found. Its docstring is its line of the help."""


def _marks(given: str) -> list[int]:
    """Numbers of events, ascending. CommandError for anything else."""
    marks = sorted({int(one) for one in given.split(",") if one.strip().isdigit()})
    if not marks or marks[0] < 1 or len(marks) != len(given.split(",")):
        raise CommandError(f"--events {given}: give numbers of at least 1 with commas between them", returncode=2)
    return marks


def _long(work: str, marks: list[int]) -> dict[str, Any]:
    from fabric.composition import engine as wiring
    from fabric.services.people.members import member_add, user_new
    from tests.benchmarks import long_run

    ids, store = _rows(long_run.SPEC), wiring.store()
    member_add(ids[0], user_new(ids[0], long_run.ANSWERS, None), ["reviewer"], by="")
    if work == "long":
        return long_run.measure(store, *ids, marks)
    return long_run.resume(store, *ids, events=marks[-1])


def measure(db: str, runs: int, rounds: int, concurrency: int, *, held: bool = False) -> dict[str, Any]:
    """The figures of one benchmark in the database that Django is connected to."""
    from fabric.composition import engine as wiring
    from tests.benchmarks.throughput import bare, figures, flow5
    from tests.benchmarks.throughput.lockstep import LockstepWriter

    ids = _rows(SPEC)
    store: Any = wiring.store()
    loops: list[bare.BareLoop] = (
        [bare.BareSqlite(Path(connection.settings_dict["NAME"]).with_name("bare.sqlite3"))] * concurrency
        if db == "sqlite"
        else [bare.BarePostgresql(wiring.dsn()) for _ in range(concurrency)]
    )
    engine = flow5.Flow5(store, *ids, LockstepWriter(store) if held else None)
    engine.run(max(8, runs // 10), concurrency)
    before, lay = figures.Counted.of(store), figures.stored(store)
    _, last = engine.run(runs, concurrency)
    spent, lies = figures.Counted.of(store).since(before), figures.stored(store)
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
        "stored_bytes_per_run": round((lies - lay) / runs),
        "event_rows_per_run": figures.event_rows(store, last),
        "runs_per_s": round(statistics.median(speeds), 1),
        "bare_runs_per_s": round(statistics.median(bares), 1),
        "ratio_to_bare": round(statistics.median(s / b for s, b in zip(speeds, bares, strict=True)), 3),
    }


def _sizes(text: str) -> list[int]:
    """The numbers of a list with commas; CommandError for anything else."""
    parts = text.split(",")
    if not all(part.strip().isdecimal() and 1 <= int(part) <= SIZE_MAX for part in parts):
        raise CommandError(
            f"--sizes {text}: give numbers from 1 to {SIZE_MAX:,} with commas between them, such as 1,10,100,1000",
            returncode=2,
        )
    return [int(part) for part in parts]


def fan_outs(db: str, sizes: list[int], rounds: int) -> dict[str, Any]:
    """The figures of fan-outs in the database that Django is connected to."""
    from fabric.composition import engine as wiring
    from tests.benchmarks.throughput import fanout

    return {"db": db, **fanout.measure(wiring.store(), *_rows(SPEC), sizes, rounds)}


def beside_peers(db: str, runs: int, rounds: int, concurrency: int) -> dict[str, Any]:
    """The figures of flow5 here and on the peers, all with their callers in the engine's own process."""
    from fabric.composition import engine as wiring
    from tests.benchmarks.peers import measuring
    from tests.benchmarks.throughput import flow5

    engine = flow5.Flow5(wiring.store(), *_rows(SPEC))
    where = Path(connection.settings_dict["NAME"]) if db == "sqlite" else wiring.dsn()
    try:
        found = measuring.measure(db, measuring.Ours(engine, where), runs, rounds, concurrency)
    finally:
        engine.stop()
    return {"work": "flow5", "db": db, "concurrency": concurrency, "runs": runs, "rounds": rounds, **found}


def _rows(spec: FabricSpec) -> tuple[str, str]:
    """A workspace and a published revision for the benchmark's runs."""
    from fabric.models import Fabric, Revision, Workspace

    workspace = Workspace.objects.create(name="bench")
    fabric = Fabric.objects.create(workspace=workspace, name=spec.name, title=spec.title)
    revision = Revision.objects.create(
        workspace=workspace, fabric=fabric, number=1, digest=spec.digest(), spec=spec.model_dump_json()
    )
    return workspace.id, revision.id
