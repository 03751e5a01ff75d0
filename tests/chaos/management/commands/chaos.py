"""``manage.py dev chaos``: real processes under a nemesis, judged by a ledger that no worker can write. Long runs are made by hand."""

from __future__ import annotations

import json
import secrets
import signal
import sys
import threading
from argparse import ArgumentParser
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from tests.chaos import campaign, fanout, inflight
from tests.chaos.faults.nemesis import KINDS
from tests.chaos.installation import Plan
from tests.chaos.parts import PARTS
from tests.chaos.servers.local import ServerMissing

NURSERY = "tests/chaos/processes/nursery.py"
BROKERS = {"sqlite": ("files",), "postgresql": ("redis", "rabbitmq")}


class Command(BaseCommand):
    """Without a word: chaos. ``inflight``: many slow calls at once on one worker, and nothing that disturbs. ``fanout``: child runs. Else: one of
    ``tests/chaos/parts.py``.
    """

    requires_system_checks: list[str] = []  # noqa: RUF012 - Django's own declaration, and its type.

    help = "Kills, stops, cuts and fills up an installation of its own, and judges what it did by the ledger of the outside."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """The options."""
        parser.add_argument(
            "what",
            nargs="?",
            choices=["inflight", "fanout", *PARTS],
            help="Inflight only crowds one worker with slow calls. Fanout kills a child's worker and its parent's. Zombies stops "
            "workers past their lease. Takeover kills workers one by one. Deploy restarts workers in turn, with calls out. "
            "Outage does without a broker for minutes.",
        )
        parser.add_argument("--away", type=float, default=180.0, help="outage: seconds without a broker (default 180)")
        parser.add_argument("--trials", type=int, default=200, help="zombies: how many (default 200)")
        parser.add_argument("--minutes", type=float, default=2.0, help="how long it disturbs, at most (default 2)")
        parser.add_argument("--kills", type=int, help="end when so many have died (default: when the minutes are over)")
        parser.add_argument(
            "--only", default="", help=f"strikes, divided by commas, of: {', '.join(KINDS)} (default: all)"
        )
        parser.add_argument("--db", choices=list(BROKERS), default="sqlite")
        parser.add_argument("--broker", choices=["redis", "rabbitmq"], help="with PostgreSQL (default redis)")
        parser.add_argument("--workers", type=int, help="default: 4 with PostgreSQL, and one with SQLite always")
        parser.add_argument("--seed", type=int, help="of the schedule (default: drawn, and said)")
        parser.add_argument("--keep", type=Path, help="a folder for the logs, the ledger and the journals")
        parser.add_argument("--json", action="store_true", help="say nothing on standard output but the last line")
        parser.add_argument(
            "--runs", type=int, default=200, help="inflight: runs at once; fanout: briefs of one run (default 200)"
        )
        parser.add_argument(
            "--before",
            type=Path,
            help="deploy: a checkout of an earlier version, whose workers are replaced by this one's",
        )
        parser.add_argument("--delay", type=float, default=5.0, help="inflight: seconds a call takes (default 5)")

    def handle(self, *args: Any, **options: Any) -> None:
        """Runs it. CommandError: exit code 2 for a bad option or a missing server, 1 when it was void or something bad was found."""
        if options["runs"] < 1 or not 0 <= options["delay"] <= 60:
            raise CommandError("give --runs of at least 1, and --delay from 0 to 60 seconds", returncode=2)
        if options["what"] == "inflight":
            self.stdout.write(json.dumps(inflight.run(options["db"], options["runs"], options["delay"])))
            return
        if options["what"] == "fanout":
            fan_out = fanout.run(options["db"], options["runs"])
            self.stdout.write(json.dumps(asdict(fan_out)))
            if fan_out.faults():
                raise CommandError("; ".join(fan_out.faults()))
            return
        if options["what"]:
            self._part(options)
            return
        order = self._order(options)
        _end_in_order()
        say = self.stderr.write if options["json"] else self.stdout.write
        say(f"seed {order.seed}: {', '.join(order.names)}")
        if not order.plan.small_disk and "disk_full" in order.only:
            say("left out: disk_full, which needs root to make a disk that can be filled up")
        try:
            found = campaign.run(order, say)
        except ServerMissing as error:
            raise CommandError(str(error), returncode=2) from None
        for sentence in (*(f"void: {why}" for why in found.void), *found.bad):
            say(sentence)
        for why, times in found.asked.items():
            say(f"asked a person {times} times: {why}")
        say(
            f"ends: {found.states}; strikes: {found.strikes}; undone: {found.undone} bookings; memory: {found.remembered}"
        )
        self.stdout.write(json.dumps(found.line))
        if not found.good:
            raise CommandError(f"void or bad, with seed {order.seed}: see above")

    def _part(self, options: dict[str, Any]) -> None:
        least = 2 if options["what"] == "zombies" else 1
        if options["db"] != "postgresql":
            raise CommandError(f"{options['what']} wants several workers: give --db postgresql", returncode=2)
        if (
            options["trials"] < 1
            or (options["workers"] is not None and options["workers"] < least)
            or (options["kills"] is not None and options["kills"] < 1)
        ):
            raise CommandError(f"give --trials and --kills of at least 1, --workers of at least {least}", returncode=2)
        if not 1 <= options["away"] <= 3_600:
            raise CommandError("give --away from 1 to 3600 seconds", returncode=2)
        before = options["before"]
        if before is not None and (options["what"] != "deploy" or not (before / NURSERY).is_file()):
            raise CommandError(
                f"give --before with deploy alone, and a folder with a checkout of Fabric Flow that has {NURSERY}",
                returncode=2,
            )
        say = self.stderr.write if options["json"] else self.stdout.write
        _end_in_order()
        try:
            line, bad = PARTS[options["what"]](options, say)
        except ServerMissing as error:
            raise CommandError(str(error), returncode=2) from None
        for sentence in bad:
            say(sentence)
        self.stdout.write(json.dumps(line))
        if bad:
            raise CommandError("something was found that must not be: see above")

    def _order(self, options: dict[str, Any]) -> campaign.Order:
        db = options["db"]
        broker = options["broker"] or BROKERS[db][0]
        if broker not in BROKERS[db]:
            raise CommandError(
                "a broker beside SQLite is of no use: leave --broker out, or give --db postgresql", returncode=2
            )
        workers = options["workers"] or (1 if db == "sqlite" else 4)
        if db == "sqlite" and workers > 1:
            raise CommandError("on SQLite one worker has all runs: leave --workers out", returncode=2)
        if (
            not 0 < options["minutes"] <= 1_440
            or workers < 1
            or (options["kills"] is not None and options["kills"] < 1)
        ):
            raise CommandError(
                "give --minutes over 0, up to 1440, and --kills and --workers of at least 1", returncode=2
            )
        try:
            only = campaign.names([name for name in options["only"].split(",") if name])
        except ValueError as error:
            raise CommandError(str(error), returncode=2) from None
        seed = secrets.randbits(32) if options["seed"] is None else options["seed"]
        plan = Plan(db, broker, workers, campaign.small_disk(only))
        order = campaign.Order(plan, options["minutes"] * 60, options["kills"], only, seed, options["keep"])
        if not order.names:
            raise CommandError(
                "none of the strikes that are wanted makes sense here: choose others with --only", returncode=2
            )
        return order


def _end_in_order() -> None:
    """However this process is told to end, its servers end with it."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
