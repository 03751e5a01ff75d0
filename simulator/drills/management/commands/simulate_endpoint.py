"""``manage.py simulate_endpoint``: an OpenAI-compatible endpoint that fails by script, for the client of any framework."""

from __future__ import annotations

import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from simulator.endpoint import serving


class Command(BaseCommand):
    """Exit code 0: listed; 2: bad arguments; 128 and the signal's number: ended by it."""

    help = serving.HELP
    requires_system_checks: list[str] = []  # noqa: RUF012 - Django's own declaration, and its type.

    def add_arguments(self, parser: CommandParser) -> None:
        """Which scenario, where, when it strikes, what is written down."""
        serving.add_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        """Lists the scenarios, or serves one until a signal."""
        code = serving.run(options, self._say, self._complain)
        if code:
            sys.exit(code)

    def _say(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()

    def _complain(self, line: str) -> None:
        self.stderr.write(line, style_func=str)
