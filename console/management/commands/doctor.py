"""`manage.py doctor [--network] [--json]`: finds faults of this installation, and names their remedies."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from console.installation.doctor.checks import CHECKS, Asks, Level, examine
from fabric.management.base import OK, OTHER_END, FabricCommand


class Command(FabricCommand):
    """Makes every check."""

    help = (
        "Look at this installation and say what is wrong, each with what to do. Changes nothing. "
        "Exit code: 0 nothing is wrong, 1 something is or could not be looked at."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the options that choose checks and output."""
        parser.add_argument("--network", action="store_true", help="also connect to the configured model endpoints")
        parser.add_argument("--only", action="append", choices=sorted(CHECKS), help="this check; repeatable")
        parser.add_argument("--json", action="store_true", help="one line of JSON")

    def act(self, options: dict[str, Any]) -> int:
        """Run the checks, and print their findings."""
        wanted = options["only"] or [
            name for name, check in CHECKS.items() if options["network"] or check.asks is not Asks.NETWORK
        ]
        found = {name: examine(name) for name in wanted}
        bad = sum(one.level is not Level.NOTE for findings in found.values() for one in findings)
        if options["json"]:
            told = {
                name: [{"level": one.level.value, "says": one.says, "do": one.do} for one in findings]
                for name, findings in found.items()
            }
            self.put({"wrong": bad, "checks": told})
            return OTHER_END if bad else OK
        for name, findings in found.items():
            if not findings:
                self.stdout.write(f"ok       {name:<14} {CHECKS[name].what}")
            for one in findings:
                self.stdout.write(f"{one.level.value:<8} {name:<14} {one.says} {one.do}")
        self.stdout.write(f"{bad:,} things are wrong or could not be looked at." if bad else "Nothing is wrong.")
        return OTHER_END if bad else OK
