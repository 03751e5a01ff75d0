"""``manage.py dev scoreboard``: plays faults of models and providers against a new fabric's defaults.

It uses real HTTP, in an installation of its own.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError

from fabric.core.values.taxonomy import Tier
from simulator.installation.database import temporary_database
from simulator.scoreboard.cases import SCENARIOS
from simulator.scoreboard.runs import as_json, play_scenarios, table, verdict

INSIDE = "FABRIC_SCOREBOARD"
"""Variable that marks the process with the installation of its own."""


class Command(BaseCommand):
    """Plays all scenarios in all tiers at once; the longest takes three minutes, in batch."""

    requires_system_checks: list[str] = []  # noqa: RUF012 - Django's own declaration, and its type.

    help = "Plays what models and providers do wrong against a new fabric's defaults, and says what was stopped, honest, named and kept."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add the options."""
        parser.add_argument("--tier", action="append", choices=[str(tier) for tier in Tier], help="default: all three")
        parser.add_argument("--only", default="", help="scenarios, divided by commas (default: all)")
        parser.add_argument("--most", type=float, default=200.0, help="seconds to wait for a run (default 200)")
        parser.add_argument("--json", action="store_true", help="one line of JSON in place of the table")

    def handle(self, *args: Any, **options: Any) -> None:
        """Play the scenarios. Raises CommandError: exit code 1 for a missing mark, 2 for an unknown scenario."""
        only = [name for name in options["only"].split(",") if name]
        unknown = set(only) - {one.name for one in SCENARIOS}
        if unknown:
            there = ", ".join(one.name for one in SCENARIOS)
            raise CommandError(f"there is no scenario {min(unknown)!r}; there are: {there}", returncode=2)
        if INSIDE not in os.environ:
            self._in_an_installation_of_its_own()
            return
        call_command("bootstrap", "--json", stdout=io.StringIO())
        chosen = {one.name: one for one in SCENARIOS if not only or one.name in only}
        tiers = options["tier"] or [str(tier) for tier in Tier]
        found = {
            (seen.scenario, seen.tier): seen for seen in play_scenarios(list(chosen.values()), tiers, options["most"])
        }
        judged = [
            (one, found[one.name, tier], verdict(one, found[one.name, tier]))
            for tier in tiers
            for one in chosen.values()
        ]
        if options["json"]:
            self.stdout.write(json.dumps(as_json(judged)))
        else:
            self.stdout.write("\n".join(table(judged)))
        if missing := sum(not mark.whole for _, _, mark in judged):
            raise CommandError(f"{missing} of {len(judged)} runs lack a mark", returncode=1)

    def _in_an_installation_of_its_own(self) -> None:
        with temporary_database("sqlite") as environment:
            command = [*settings.FABRIC_COMMAND, *sys.argv[1:]]
            done = subprocess.run(command, env={**environment, INSIDE: "1"}, check=False)
        if done.returncode:
            sys.exit(done.returncode)
