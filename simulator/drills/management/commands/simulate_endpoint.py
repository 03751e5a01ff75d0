"""``manage.py dev endpoint``: serves an OpenAI-compatible endpoint that fails by script, for any client."""

from __future__ import annotations

import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from simulator.endpoint import terminal as serving


class Command(BaseCommand):
    """Exit code 0: listed; 2: bad arguments; 128 and the signal's number: ended by it."""

    help = serving.HELP
    requires_system_checks: list[str] = []  # noqa: RUF012 - Django's own declaration, and its type.

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the options for scenario, address, strikes and records."""
        serving.add_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        """List the faults, or play one until a signal."""
        code = serving.run(options, self._say, self._complain)
        if code:
            sys.exit(code)

    def _say(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()

    def _complain(self, line: str) -> None:
        self.stderr.write(line, style_func=str)
