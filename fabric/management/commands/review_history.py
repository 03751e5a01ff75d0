"""`manage.py review history`: exports decisions with author and duration, as a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from fabric.management.base import OK, FabricCommand
from fabric.management.machine_zone import read_instant
from fabric.selectors.list_file import FORMS
from fabric.selectors.reviews.decisions.history import DecisionLines, HistoryFilter
from fabric.services.actors import owner_actor
from fabric.services.reviews.decisions import decisions_export


class Command(FabricCommand):
    """Exports decisions; the audit stream records it."""

    help = "Export the decisions of people, the newest first, to a file or to standard output. The audit stream records the export."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the filters and the target."""
        parser.add_argument(
            "--since", default="", help="decided then or later: 2026-11-01, -7d, today; otherwise from the first on"
        )
        parser.add_argument("--until", default="", help="decided before: the same; otherwise until now")
        parser.add_argument("--by", default="", help="only this person's")
        parser.add_argument("--fabric", default="", help="only this fabric's")
        parser.add_argument("--format", choices=list(FORMS), default="csv", help="csv, or ndjson: lines of JSON")
        parser.add_argument("--out", type=Path, help="the file, which must not be there yet; otherwise standard output")

    def act(self, options: dict[str, Any]) -> int:
        """Write the file."""
        since, until = _when(options, "since"), _when(options, "until")
        wanted = HistoryFilter(since=since or 0, until=until, by=options["by"], fabric=options["fabric"])

        def lines() -> DecisionLines:
            return decisions_export(actor=owner_actor(), wanted=wanted, form=options["format"])

        self.write_list(lines, options["out"], field="out")
        return OK


def _when(options: dict[str, Any], name: str) -> int | None:
    """Return the beginning of a typed instant, microseconds since the epoch; None: none was typed. Raises Refused
    invalid.
    """
    text = str(options[name]).strip()
    return read_instant(text, name) if text else None
