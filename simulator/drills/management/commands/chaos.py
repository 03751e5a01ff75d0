"""``manage.py chaos``: real workers on a database of their own, killed or crowded on purpose. Long runs are made by hand."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from simulator.chaos import inflight, kill


class Command(BaseCommand):
    """``kill``: workers that kill themselves after answers. ``inflight``: many slow calls at once on one worker."""

    help = (
        "Kills workers after their answers, or crowds one with slow calls, and judges the journals against the ledger."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """The options."""
        parser.add_argument("what", choices=["kill", "inflight"])
        parser.add_argument("--db", choices=["sqlite", "postgresql"], default="sqlite")
        parser.add_argument("--kills", type=int, default=50, help="kill: how many workers die (default 50)")
        parser.add_argument("--runs", type=int, default=200, help="inflight: runs at once (default 200)")
        parser.add_argument("--delay", type=float, default=5.0, help="inflight: seconds a call takes (default 5)")

    def handle(self, *args: Any, **options: Any) -> None:
        """Runs it; CommandError with exit code 2 for a bad option."""
        if options["kills"] < 1 or options["runs"] < 1 or not 0 <= options["delay"] <= 60:
            raise CommandError("give --kills and --runs of at least 1, and --delay from 0 to 60 seconds", returncode=2)
        if options["what"] == "inflight":
            self.stdout.write(json.dumps(inflight.run(options["db"], options["runs"], options["delay"])))
            return
        found = kill.run(options["db"], options["kills"])
        self.stdout.write(json.dumps(asdict(found)))
        if found.asked_twice or found.asked_after_journaled or found.not_intended or set(found.ended) != {"completed"}:
            raise CommandError("the journals and the ledger disagree, or a run did not complete: see the line above")
